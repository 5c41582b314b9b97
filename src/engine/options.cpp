// SPDX-License-Identifier: MIT
#include "engine/options.hpp"

#include <sys/auxv.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <string_view>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/instance.hpp"
#include "engine/limit_rule.hpp"
#include "engine/parent_process.hpp"
#include "engine/profile_switch.hpp"
#include "engine/slow_calls.hpp"
#include "os/mutex.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"

extern char** environ;

constinit tarn::pressure::limit_rule tarn::pressure::option_limit;

namespace tarn::options {
namespace {

constexpr std::size_t longest_value = 256;
// The hardened build opens no door to a running process; a sanitizer's runtime must know every thread.
// NOLINTNEXTLINE(misc-redundant-expression): macros of the same value
constexpr bool may_have_control = !hardened_build && !TARN_TSAN && !TARN_ASAN;

std::atomic<std::int64_t> decay_value{1000};
std::atomic<bool> keeps_deep_binding{false};
std::atomic<background> background_value{background::automatic};
constinit char statistics_path[longest_value] = "";
constinit char profile_path[longest_value] = "";
constinit char box_folder[longest_value] = "";
// Under settings_lock.
constinit char control_path[longest_control_folder + 1] = "";
std::atomic<bool> control_wanted{false};
std::atomic<unsigned> control_settings{0};  // how often it was set

// ---- values ----

bool parse_integer(std::string_view text, std::int64_t& out) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  std::uint64_t value = 0;
  if (!take_number(text, value) || !text.empty() || value > INT64_MAX / 2) return false;
  out = negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
  return true;
}

// "1048576", "512K", "64M", "2G".
bool parse_bytes(std::string_view text, std::size_t& out) {
  constexpr std::size_t longest = 31;
  std::uint64_t value = 0;
  if (text.size() > longest || !take_number(text, value) || text.size() > 1) return false;
  constexpr std::string_view letters = "kKmMgG";
  const std::size_t letter = text.empty() ? 0 : letters.find(text[0]);
  if (letter == std::string_view::npos) return false;
  constexpr std::size_t units[] = {kib, mib, gib};
  const std::size_t unit = text.empty() ? 1 : units[letter / 2];
  if (value > SIZE_MAX / 2 / unit) return false;
  out = value * unit;
  return true;
}

// Makes `out` the choice of that name, whose value is the name's place in the list. False: there is none.
template <class Choice>
bool parse_choice(std::string_view text, std::initializer_list<std::string_view> names, Choice& out) {
  const auto* const found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return false;
  out = static_cast<Choice>(found - names.begin());
  return true;
}

bool apply_decay(const char* value) {
  std::int64_t ms = 0;
  if (!parse_integer(value, ms) || ms < -1 || ms > 86400000) return false;
  decay_value.store(ms, std::memory_order_relaxed);
  return true;
}

bool apply_cache_budget(const char* value) {
  std::size_t bytes = 0;
  if (!parse_bytes(value, bytes)) return false;
  engine::budget.limit.store(bytes, std::memory_order_relaxed);
  return true;
}

bool apply_large_cache(const char* value) {
  std::size_t bytes = backing_limits::automatic;
  if (std::strcmp(value, "auto") != 0 && !parse_bytes(value, bytes)) return false;
  engine::heap.limits().set_most_free(bytes);
  return true;
}

bool apply_huge_pages(const char* value) {
  huge_pages mode{};
  if (!parse_choice(value, {"never", "auto", "always"}, mode)) return false;
  engine::touch.set_mode(mode);
  return true;
}

bool apply_background(const char* value) {
  background choice{};
  if (!parse_choice(value, {"auto", "on", "off"}, choice)) return false;
  background_value.store(choice, std::memory_order_relaxed);
  return true;
}

bool apply_cpu_caches(const char* value) {
  processor_caches::use choice{};
  if (!parse_choice(value, {"auto", "on", "off"}, choice)) return false;
  engine::processors.set_use(choice);
  return true;
}

bool apply_deep_binding(const char* value) {
  bool on = false;
  if (!parse_choice(value, {"off", "on"}, on)) return false;
  keeps_deep_binding.store(on, std::memory_order_relaxed);
  return true;
}

// "off", "N" or "N,M".
bool apply_guarded(const char* value) {
  std::int64_t length = 0;
  std::int64_t per_second = 0;
  std::string_view second(value);
  if (second != "off") {
    const std::string_view first = take_until(second, ',');
    if (!parse_integer(first, length) || length < 1 || length > sample_windows::longest) return false;
    if (std::strchr(value, ',') != nullptr && (!parse_integer(second, per_second) || per_second < 1 ||
                                               per_second > guarded_blocks::most_per_second)) {
      return false;
    }
  }
  engine::guards.set_per_second(per_second);
  engine::guard_windows.set_length(static_cast<std::int32_t>(length));
  return true;
}

bool apply_scopes(const char* value) {
  bool checked = false;
  if (!parse_choice(value, {"unchecked", "checked"}, checked)) return false;
  engine::scopes_checked.store(checked, std::memory_order_relaxed);
  return true;
}

bool apply_slow_calls(const char* value) {
  bool on = false;
  if (!parse_choice(value, {"off", "on"}, on)) return false;
  slow_calls::is_on.store(on, std::memory_order_relaxed);
  return true;
}

bool apply_profile(const char* value) {
  std::size_t mean = 0;
  const bool on = std::strcmp(value, "on") == 0;
  if (on) {
    mean = byte_samples::default_mean;
  } else if (std::strcmp(value, "off") != 0 &&
             (!parse_bytes(value, mean) || mean == 0 || mean > byte_samples::largest_mean)) {
    return false;
  }
  engine::profile_samples.thinning().set(on);
  engine::profile_samples.set_mean(mean);
  engine::samples.box().note_mean(mean);
  return true;
}

// `to` has longest_value bytes.
bool apply_path(const char* value, char* to) {
  if (*value == '\0' || std::strlen(value) >= longest_value) return false;
  const bool off = std::strcmp(value, "off") == 0;
  std::memcpy(to, off ? "" : value, off ? 1 : std::strlen(value) + 1);
  return true;
}
bool apply_black_box(const char* value) {
  return (*value == '/' || std::strcmp(value, "off") == 0) && apply_path(value, box_folder);
}
bool apply_profile_file(const char* value) { return apply_path(value, profile_path); }
bool apply_statistics(const char* value) { return apply_path(value, statistics_path); }

// "auto", "none", "90%", or bytes.
bool parse_bound(std::string_view text, pressure::bound& out) {
  using kind = pressure::bound::kind;
  std::size_t bytes = 0;
  if (text == "none") {
    out = {kind::none, 0};
  } else if (text == "auto") {
    out = {kind::automatic, 0};
  } else if (text.ends_with('%')) {
    std::int64_t percent = 0;
    if (!parse_integer(part_of(text, 0, text.size() - 1), percent) || percent < 1 || percent > 100)
      return false;
    out = {kind::percent, static_cast<std::uint64_t>(percent)};
  } else {
    if (!parse_bytes(text, bytes) || bytes == 0) return false;
    out = {kind::bytes, bytes};
  }
  return true;
}

// "SOFT" or "SOFT,HARD". The soft limit must not exceed the hard one, where they are of one kind.
bool apply_limit(const char* value) {
  pressure::rule rule;
  std::string_view hard(value);
  if (!parse_bound(take_until(hard, ','), rule.soft)) return false;
  if (std::strchr(value, ',') != nullptr && !parse_bound(hard, rule.hard)) return false;
  if (rule.hard.what == pressure::bound::kind::automatic) return false;
  if (rule.hard.value != 0 && rule.soft.what == rule.hard.what && rule.soft.value > rule.hard.value)
    return false;
  pressure::option_limit.set(rule);
  // A limit in bytes holds from now on; what else follows from the rule, from the next growth on.
  engine::heap.limits().set_most(rule.hard.what == pressure::bound::kind::bytes ? rule.hard.value
                                                                                : backing_limits::none);
  engine::heap.limits().set_mark(0);
  return true;
}

bool apply_control(const char* value) {
  const std::size_t length = std::strlen(value);
  const bool on = std::strcmp(value, "on") == 0;
  const bool off = std::strcmp(value, "off") == 0;
  if (!on && !off && (*value != '/' || length > longest_control_folder)) return false;
  // Whoever may start a setuid program must not get a door into it.
  if (!off && getauxval(AT_SECURE) != 0) return false;
  std::memcpy(control_path, on || off ? "" : value, on || off ? 1 : length + 1);
  control_wanted.store(!off && may_have_control, std::memory_order_relaxed);
  control_settings.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void follow_control() {
  start_control();
  os::wake_control_thread();
}

// ---- the table ----

struct entry {
  const char* name;
  const char* standard;
  const char* accepts;
  const char* meaning;
  bool (*apply)(const char*);
  bool by_socket;            // `tarn control` may change it in a process that runs
  void (*follow)() = [] {};  // called after a change, without the lock
};

constexpr entry table[] = {
    {"decay_ms", "1000", "milliseconds; 0: within 20 ms, -1: never",
     "how long free memory stays resident before it is returned to the system", apply_decay, true,
     os::ring_background_thread},
    {"cache_budget", "64M", "bytes, with K, M or G",
     "how many bytes all thread caches together may hold before they stop growing", apply_cache_budget, true},
    {"large_cache", "auto", "auto, or bytes, with K, M or G",
     "how much free memory may stay resident, and more is returned at once; auto: 256 MiB, or half as much as is in use "
     "if that is more",
     apply_large_cache, true},
    {"limit", "auto",
     "SOFT or SOFT,HARD: bytes with K, M or G, percent of the control group's limit, or none; SOFT also auto",
     "from how much memory on caches empty and the program's callbacks run, and how much tarn takes at most; auto: 15/16 "
     "of the control group's limit",
     apply_limit, true},
    {"huge_pages", "auto", "auto, always or never",
     "whether to request 2 MiB pages; auto: for heaps of 16 MiB and more", apply_huge_pages, true},
    {"background", "auto", "auto, on or off",
     "whether a background thread, which exists only while there is work, returns idle memory; "
     "auto: unless it could outlive a change of the process's rights",
     apply_background, true},
    {"cpu_caches", "auto", "auto, on or off",
     "whether threads share one cache per processor instead of having one each; auto: from the 17th thread on, and "
     "beyond two for each processor",
     apply_cpu_caches, false},
    {"deep_binding", "off", "on or off",
     "whether libraries that the program opens with RTLD_DEEPBIND keep that flag, by which they take malloc from libc",
     apply_deep_binding, true},
    {"guarded", "65536,16", "a number N from 1 to 1073741824, N,M with M from 1 to 1000, or off",
     "one in N allocations of each size and thread is put on its own pages, where misuse is "
     "detected; M: at most so many in a second, beside the first of each size",
     apply_guarded, true},
    {"profile", "off", "on, off, or bytes, with K, M or G, up to 1G",
     "whether the heap profile follows samples of the allocations, and how many bytes lie between two of them on "
     "average; on: 512K, and at most about 1,000 samples a second",
     apply_profile, true},
    {"profile_file", "off", "off or a file's path",
     "where each process writes its heap profile when it exits: the path, a dot and its process id",
     apply_profile_file, false},
    {"black_box", "off", "off or a folder's absolute path",
     "where each process keeps a file with its heap profile while it runs, which stays if it is killed or crashes: in "
     "memory, such as /dev/shm; the profile is switched on",
     apply_black_box, false},
    {"scopes", "unchecked", "unchecked or checked",
     "whether blocks that outlive their scope (tarn/scope.h) become inaccessible, so that their use ends the process "
     "with a message that names the scope",
     apply_scopes, true},
    {"slow_calls", "off", "on or off",
     "whether the metrics count by duration and thread the calls of malloc and free that the thread's cache does not "
     "serve",
     apply_slow_calls, true},
    {"stats", "off", "off, stderr or a file's path",
     "where each process writes its statistics as one line of JSON when it exits", apply_statistics, false},
    {"control", "off", "on, off or a folder's absolute path of at most 88 characters",
     "whether the process answers tarn control, top and serve at a socket, which only its user can reach: "
     "in /tmp/tarn-UID, or in this folder",
     apply_control, false, follow_control},
};
constexpr std::size_t option_count = sizeof table / sizeof table[0];

enum class origin : std::uint8_t { standard, environment, program, control };

struct setting {
  char value[longest_value];
  origin from;
};
constinit os::mutex settings_lock{os::lock_rank::settings};
constinit setting settings[option_count] TARN_GUARDED_BY(settings_lock){};

constexpr const char* origin_names[] = {"default", "environment", "program", "control"};

const entry* find(std::string_view name) {
  for (const entry& e : table) {
    if (name == e.name) return &e;
  }
  return nullptr;
}

int change(const char* name, const char* value, origin from) {
  const entry* const e = find(name);
  if (e == nullptr) return ENOENT;
  {
    // The value in effect and the value reported change together, also as seen by a forked child.
    os::lock_guard guard(settings_lock);
    if (std::strlen(value) >= longest_value || !e->apply(value)) return EINVAL;
    setting& s = settings[e - table];
    std::memcpy(s.value, value, std::strlen(value) + 1);
    s.from = from;
  }
  // The environment is read before there may be a thread.
  if (from != origin::environment) e->follow();
  return 0;
}

// ---- the environment ----

void warn_unknown(std::string_view variable) {
  text_buffer<512> line;
  line.put("tarn: ").put(variable).put(" is not an option and is ignored; the options are");
  for (const entry& e : table) {
    line.put(&e == &table[0] ? " TARN_" : ", TARN_");
    for (const char* c = e.name; *c != '\0'; ++c)
      line.put(*c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 32) : *c);
  }
  line.put('\n');
  os::write_notice(line);
}

void warn_value(const char* variable, const entry& e) {
  text_buffer<512> line;
  line.put("tarn: ")
      .put(variable)
      .put(" is not valid and is ignored; ")
      .put(e.name)
      .put(" takes ")
      .put(e.accepts);
  line.put(", default ").put(e.standard).put('\n');
  os::write_notice(line);
}

void read_variable(const char* variable) {
  std::string_view value(variable);
  const std::string_view whole = take_until(value, '=');
  if (whole.size() == std::strlen(variable)) return;
  const std::string_view upper = part_of(whole, std::strlen("TARN_"));
  // TARN_LIBRARY and TARN_LIB tell tools where this library is; TARN_APPLY… and TARN_RECORD… are for libraries that tarn's
  // command preloads beside this one.
  if (upper.starts_with("LIB") || upper.starts_with("APPLY") || upper.starts_with("RECORD")) return;
  char name[32];
  const bool known = copy_lower(upper, name);
  const int result = known ? change(name, value.data(), origin::environment) : ENOENT;
  if (result == 0 || parent_has_reported(variable)) return;
  if (result == ENOENT) warn_unknown(whole);
  if (result == EINVAL) warn_value(variable, *find(name));
}

}  // namespace

void read_environment() {
  if (getauxval(AT_SECURE) != 0 || environ == nullptr) return;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "TARN_", 5) == 0) read_variable(*variable);
  }
}

int set(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return EINVAL;
  const int result = change(name, value, origin::program);
  engine::follow_profile_option();
  return result;
}

int set_by_socket(const char* name, const char* value) {
  const entry* const e = find(name);
  if (e != nullptr && !e->by_socket) return EPERM;
  const int result = change(name, value, origin::control);
  engine::follow_profile_option();
  return result;
}

bool is_set_by_socket(std::size_t index) { return index < option_count && table[index].by_socket; }

int describe(std::size_t index, tarn_option& out) {
  if (index >= option_count) return ENOENT;
  static thread_local char value[longest_value];
  os::lock_guard guard(settings_lock);
  const setting& s = settings[index];
  std::memcpy(value, s.value, longest_value);
  const entry& e = table[index];
  out = {e.name,    s.from == origin::standard ? e.standard : value, e.standard, e.accepts,
         e.meaning, origin_names[static_cast<std::size_t>(s.from)]};
  return 0;
}

int describe(std::string_view name, tarn_option& out) {
  const entry* const e = find(name);
  return e != nullptr ? describe(static_cast<std::size_t>(e - table), out) : ENOENT;
}

os::mutex& lock() TARN_RETURNS_LOCK(settings_lock) { return settings_lock; }

std::int64_t decay_ms() { return decay_value.load(std::memory_order_relaxed); }
bool deep_binding_is_kept() { return keeps_deep_binding.load(std::memory_order_relaxed); }
background background_choice() { return background_value.load(std::memory_order_relaxed); }
const char* black_box_folder() { return box_folder[0] == '\0' ? nullptr : box_folder; }
const char* profile_at_exit() { return profile_path[0] == '\0' ? nullptr : profile_path; }
bool control_is_wanted() { return control_wanted.load(std::memory_order_relaxed); }
unsigned control_setting() { return control_settings.load(std::memory_order_relaxed); }
void copy_control_folder(char (&out)[longest_control_folder + 1]) {
  os::lock_guard guard(settings_lock);
  std::memcpy(out, control_path, sizeof out);
}
void start_control() {
  if (!control_is_wanted()) return;
  os::note_threads_allowed();  // the option demands a thread
  os::ensure_thread(os::engine_thread::control);
}
const char* statistics_at_exit() { return statistics_path[0] == '\0' ? nullptr : statistics_path; }

}  // namespace tarn::options
