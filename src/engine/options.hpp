// SPDX-License-Identifier: MIT
// options: one table with each option's name, default, meaning and effect. Options are read from the environment once,
// before the first block is handed out, and can be set by tarn_set_option() at any time. Documentation for users:
// docs/reference/options.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/mutex.hpp"
#include "tarn/malloc.h"

namespace tarn::options {

// Reads the variables TARN_…; reports each unknown name and bad value once, with what is valid. Ignores the environment
// if the process has more rights than its user (setuid, file capabilities).
void read_environment();

// 0, ENOENT or EINVAL. Call without locks.
int set(const char* name, const char* value);
// The same for a request at the control socket; EPERM: the option cannot be changed there.
int set_by_socket(const char* name, const char* value);
bool is_set_by_socket(std::size_t index);
// 0 or ENOENT.
int describe(std::size_t index, tarn_option& out);
int describe(std::string_view name, tarn_option& out);

// For fork. Guards everything that set() changes.
os::mutex& lock();

// Milliseconds after which idle memory goes back; 0 at once, -1 never.
std::int64_t decay_ms();
// Whether there may be a background thread: `automatic`: if the gates are present (decay.hpp); `on`: if the system lets
// one start.
enum class background : std::uint8_t { automatic, on, off };
background background_choice();
// Whether libraries that are opened with RTLD_DEEPBIND keep that flag (malloc/shared_deep_binding.cpp).
bool deep_binding_is_kept();
// The control socket (observe/socket/server.cpp): whether there is to be one, and in which folder; "": in the default one.
inline constexpr std::size_t longest_control_folder = 88;
bool control_is_wanted();
unsigned control_setting();  // another number after each change
void copy_control_folder(char (&out)[longest_control_folder + 1]);
// Starts the control thread if there is to be one. Call without locks, after the library's constructors.
void start_control();
// Where to write statistics at exit: "stderr" or a path; null: nowhere.
const char* statistics_at_exit();
// Where the process's black box lies (samples/followed/black_box.hpp); null: it has none.
const char* black_box_folder();
// Where the heap profile goes at exit; null: nowhere.
const char* profile_at_exit();

}  // namespace tarn::options
