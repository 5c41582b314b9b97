// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/settings.hpp"

#include <atomic>
#include <cstring>

#include "base/text.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "malloc/jemalloc/conf.hpp"

namespace tarn::jemalloc {
namespace {

std::atomic<bool> has_read{false};
std::atomic<std::ptrdiff_t> muzzy_ms{0};

constexpr std::ptrdiff_t longest_decay_ms = 24 * 60 * 60 * 1000;

[[gnu::constructor]] void at_load() { ensure_settings(); }

}  // namespace

void ensure_settings() {
  if (has_read.load(std::memory_order_relaxed) || has_read.exchange(true, std::memory_order_relaxed)) return;
  engine::attach_thread();  // reads TARN_…, which takes precedence
  read_conf();
}

std::ptrdiff_t decay_ms() { return static_cast<std::ptrdiff_t>(options::decay_ms()); }

bool set_decay_ms(std::ptrdiff_t ms) {
  if (ms < -1) return false;
  text_buffer<32> value;
  value.signed_number(ms < longest_decay_ms ? ms : longest_decay_ms).put('\0');
  return options::set("decay_ms", value.data()) == 0;
}

std::ptrdiff_t muzzy_decay_ms() { return muzzy_ms.load(std::memory_order_relaxed); }

bool set_muzzy_decay_ms(std::ptrdiff_t ms) {
  if (ms < -1) return false;
  muzzy_ms.store(ms, std::memory_order_relaxed);
  return true;
}

bool has_background_thread() { return options::background_choice() != options::background::off; }

bool set_background_thread(bool wanted) { return options::set("background", wanted ? "auto" : "off") == 0; }

const char* option_value(const char* name) {
  static thread_local tarn_option found;
  return options::describe(name, found) == 0 ? found.value : "";
}

void set_if_default(const char* name, const char* value) {
  tarn_option found;
  if (options::describe(name, found) == 0 && std::strcmp(found.source, "default") == 0)
    options::set(name, value);
}

}  // namespace tarn::jemalloc
