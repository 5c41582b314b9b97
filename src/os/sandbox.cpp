// SPDX-License-Identifier: MIT
#include "os/sandbox.hpp"

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "os/clock.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

enum class filter : std::uint8_t { not_asked, none, inherited };

// In memory that a child inherits, since a child also inherits the filters.
std::atomic<bool> threads_allowed{false};
std::atomic<filter> at_start{filter::not_asked};

// Finds a field in a text that is read in pieces. Requires: the first character of the name does not occur again in it.
class field_finder {
 public:
  explicit field_finder(std::string_view name) : name_(name) {}
  // The character after the field's name; 0: not found yet.
  char look(const char* text, long count) {
    const char* const end = text + count;
    for (const char* at = text; at != end; ++at) {
      if (found_ == name_.size()) return *at;
      if (*at != name_[found_]) found_ = 0;
      if (found_ == 0)
        at = static_cast<const char*>(std::memchr(at, name_[0], static_cast<std::size_t>(end - at)));
      if (at == nullptr) break;
      ++found_;
    }
    return 0;
  }

 private:
  std::string_view name_;
  std::size_t found_ = 0;
};

// If the file cannot be opened, assume a filter. A kernel without seccomp has no such field.
filter look_for_filter() {
  const char* const path = "/proc/self/status";
  const long file = system_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return filter::inherited;
  field_finder finder("\nSeccomp:\t");
  char text[1024] = {};
  char mode = 0;
  long count = 0;
  while (mode == 0 && (count = system_call(SYS_read, file, text, sizeof text)) > 0) {
    mode = finder.look(text, count);
  }
  system_call(SYS_close, file);
  return mode == 0 || mode == '0' ? filter::none : filter::inherited;
}

[[gnu::constructor(101)]] void ask_at_load() { static_cast<void>(in_sandbox()); }

}  // namespace

// Relaxed: concurrent callers find the same.
bool is_filtered() {
  if (sandbox_entered.load(std::memory_order_relaxed)) return true;
  filter found = at_start.load(std::memory_order_relaxed);
  if (found == filter::not_asked) {
    found = look_for_filter();
    at_start.store(found, std::memory_order_relaxed);
  }
  return found == filter::inherited;
}

bool in_sandbox() { return is_filtered() && (has_entered_sandbox() || !has_shown_threads()); }

bool has_shown_threads() { return threads_allowed.load(std::memory_order_relaxed); }

void note_strict_mode() {
  note_counter_off();
  strict_mode_entered.store(true, std::memory_order_relaxed);
  note_sandbox();
}

void note_sandbox() { sandbox_entered.store(true, std::memory_order_relaxed); }

bool allow_thread_calls() {
  if (threads_allowed.load(std::memory_order_relaxed)) return false;
  threads_allowed.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace tarn::os
