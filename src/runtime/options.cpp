// SPDX-License-Identifier: MIT
#include "runtime/options.hpp"

#include <sys/auxv.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <atomic>

#include "base/text.hpp"
#include "base/units.hpp"
#include "os/contention.hpp"
#include "os/mutex.hpp"
#include "os/report.hpp"
#include "runtime/instance.hpp"
#include "runtime/parent_process.hpp"

extern char** environ;

namespace tarn::options {
namespace {

constexpr std::size_t longest_value = 256;

std::atomic<std::int64_t> decay_value{1000};
// The hardened build never has a background thread.
std::atomic<background> background_value{hardened_build ? background::off : background::automatic};
constinit char statistics_path[longest_value] = "";

// ---- values ----

bool parse_integer(const char* text, std::int64_t& out) {
  const bool negative = *text == '-';
  if (negative) ++text;
  if (*text == '\0') return false;
  std::int64_t value = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || value > INT64_MAX / 10 - 1) return false;
    value = value * 10 + (*text - '0');
  }
  out = negative ? -value : value;
  return true;
}

// "1048576", "512K", "64M", "2G".
bool parse_bytes(const char* text, std::size_t& out) {
  char digits[32];
  std::size_t length = std::strlen(text);
  std::size_t unit = 1;
  if (length == 0 || length >= sizeof digits) return false;
  switch (text[length - 1]) {
    case 'k':
    case 'K':
      unit = kib;
      break;
    case 'm':
    case 'M':
      unit = mib;
      break;
    case 'g':
    case 'G':
      unit = gib;
      break;
    default:
      break;
  }
  if (unit != 1) --length;
  std::memcpy(digits, text, length);
  digits[length] = '\0';
  std::int64_t value = 0;
  if (!parse_integer(digits, value) || value < 0 || static_cast<std::size_t>(value) > SIZE_MAX / 2 / unit)
    return false;
  out = static_cast<std::size_t>(value) * unit;
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
  std::size_t bytes = 0;
  if (!parse_bytes(value, bytes)) return false;
  engine::heap.set_dirty_limit(bytes);
  return true;
}

bool apply_huge_pages(const char* value) {
  if (std::strcmp(value, "auto") == 0) {
    engine::touch.set_mode(huge_pages::automatic);
  } else if (std::strcmp(value, "always") == 0) {
    engine::touch.set_mode(huge_pages::always);
  } else if (std::strcmp(value, "never") == 0) {
    engine::touch.set_mode(huge_pages::never);
  } else {
    return false;
  }
  return true;
}

bool apply_background(const char* value) {
  constexpr struct {
    const char* name;
    background choice;
  } names[] = {{"auto", background::automatic}, {"on", background::on}, {"off", background::off}};
  for (const auto& [name, choice] : names) {
    if (std::strcmp(value, name) != 0) continue;
    // The hardened build never has such a thread.
    background_value.store(hardened_build ? background::off : choice, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool apply_cpu_caches(const char* value) {
  using use = processor_caches::use;
  constexpr struct {
    const char* name;
    use choice;
  } names[] = {{"auto", use::automatic}, {"on", use::on}, {"off", use::off}};
  for (const auto& [name, choice] : names) {
    if (std::strcmp(value, name) != 0) continue;
    engine::processors.set_use(choice);
    return true;
  }
  return false;
}

bool apply_guarded(const char* value) {
  std::int64_t length = 0;
  if (std::strcmp(value, "off") != 0 &&
      (!parse_integer(value, length) || length < 1 || length > sample_windows::longest)) {
    return false;
  }
  engine::guard_windows.set_length(static_cast<std::int32_t>(length));
  return true;
}

bool apply_scopes(const char* value) {
  const bool checked = std::strcmp(value, "checked") == 0;
  if (!checked && std::strcmp(value, "unchecked") != 0) return false;
  engine::scopes_checked.store(checked, std::memory_order_relaxed);
  return true;
}

bool apply_statistics(const char* value) {
  if (*value == '\0' || std::strlen(value) >= longest_value) return false;
  const bool off = std::strcmp(value, "off") == 0;
  std::memcpy(statistics_path, off ? "" : value, off ? 1 : std::strlen(value) + 1);
  return true;
}

bool apply_contention(const char* value) {
  const bool on = std::strcmp(value, "on") == 0;
  if (!on && std::strcmp(value, "off") != 0) return false;
  os::contention::set(on);
  return true;
}

// ---- the table ----

struct entry {
  const char* name;
  const char* standard;
  const char* accepts;
  const char* meaning;
  bool (*apply)(const char*);
};

constexpr entry table[] = {
    {"decay_ms", "1000", "milliseconds; 0: within 20 ms, -1: never",
     "how long free memory stays resident before it is returned to the system", apply_decay},
    {"cache_budget", "64M", "bytes, with K, M or G",
     "how many bytes all thread caches together may hold before they stop growing", apply_cache_budget},
    {"large_cache", "256M", "bytes, with K, M or G",
     "how much free memory may stay resident; memory beyond it is returned at once", apply_large_cache},
    {"huge_pages", "auto", "auto, always or never",
     "whether to request 2 MiB pages; auto: for heaps of 16 MiB and more", apply_huge_pages},
    {"background", "auto", "auto, on or off",
     "whether a background thread, which exists only while there is work, returns idle memory; "
     "auto: unless it could outlive a change of the process's rights",
     apply_background},
    {"cpu_caches", "auto", "auto, on or off",
     "whether threads share one cache per processor instead of having one each; auto: from the 17th thread on, and "
     "beyond two for each processor",
     apply_cpu_caches},
    {"guarded", "65536", "a number N from 1 to 1073741824, or off",
     "one in N allocations of each size and thread is put on its own pages, where misuse is "
     "detected",
     apply_guarded},
    {"scopes", "unchecked", "unchecked or checked",
     "whether blocks that outlive their scope (tarn/scope.h) become inaccessible, so that their use ends the process "
     "with a message that names the scope",
     apply_scopes},
    {"stats", "off", "off, stderr or a file's path",
     "where each process writes its statistics as one line of JSON when it exits", apply_statistics},
    {"contention", "off", "on or off",
     "whether the statistics count how often each lock is taken and waited for, and for how long it is held",
     apply_contention},
};
constexpr std::size_t option_count = sizeof table / sizeof table[0];

enum class origin : std::uint8_t { standard, environment, program };

struct setting {
  char value[longest_value];
  origin from;
};
constinit os::mutex settings_lock{os::lock_rank::settings};
constinit setting settings[option_count] TARN_GUARDED_BY(settings_lock){};

constexpr const char* origin_names[] = {"default", "environment", "program"};

int change(const char* name, const char* value, origin from) {
  for (std::size_t i = 0; i < option_count; ++i) {
    if (std::strcmp(table[i].name, name) != 0) continue;
    // The value in effect and the value reported change together, also as seen by a forked child.
    os::lock_guard guard(settings_lock);
    if (std::strlen(value) >= longest_value || !table[i].apply(value)) return EINVAL;
    std::memcpy(settings[i].value, value, std::strlen(value) + 1);
    settings[i].from = from;
    return 0;
  }
  return ENOENT;
}

// ---- the environment ----

void warn_unknown(const char* variable, std::size_t length) {
  text_buffer<512> line;
  line.put("tarn: ");
  for (std::size_t i = 0; i < length; ++i) line.put(variable[i]);
  line.put(" is not an option and is ignored; the options are");
  for (const entry& e : table) {
    line.put(&e == &table[0] ? " TARN_" : ", TARN_");
    for (const char* c = e.name; *c != '\0'; ++c)
      line.put(*c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 32) : *c);
  }
  line.put('\n');
  os::write_line(line);
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
  os::write_line(line);
}

void read_variable(const char* variable) {
  constexpr std::size_t prefix = 5;  // TARN_
  const char* equals = std::strchr(variable, '=');
  if (equals == nullptr) return;
  const auto length = static_cast<std::size_t>(equals - variable);
  char name[32];
  bool known = length - prefix < sizeof name;
  for (std::size_t i = prefix; known && i <= length; ++i) {
    const char c = i == length ? '\0' : variable[i];
    name[i - prefix] = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  // TARN_LIBRARY and TARN_LIB tell tools where this library is; TARN_APPLY… and TARN_RECORD… are for libraries that tarn's
  // command preloads beside this one.
  if (std::strncmp(variable + prefix, "LIB", 3) == 0 || std::strncmp(variable + prefix, "APPLY", 5) == 0 ||
      std::strncmp(variable + prefix, "RECORD", 6) == 0) {
    return;
  }
  const int result = known ? change(name, equals + 1, origin::environment) : ENOENT;
  if (result == 0 || parent_has_reported(variable)) return;
  if (result == ENOENT) warn_unknown(variable, length);
  if (result == EINVAL) {
    for (const entry& e : table) {
      if (std::strcmp(e.name, name) == 0) warn_value(variable, e);
    }
  }
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
  return change(name, value, origin::program);
}

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

os::mutex& lock() TARN_RETURNS_LOCK(settings_lock) { return settings_lock; }

std::int64_t decay_ms() { return decay_value.load(std::memory_order_relaxed); }
background background_choice() { return background_value.load(std::memory_order_relaxed); }
const char* statistics_at_exit() { return statistics_path[0] == '\0' ? nullptr : statistics_path; }

}  // namespace tarn::options
