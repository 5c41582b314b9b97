// SPDX-License-Identifier: MIT
// The options of jemalloc 5.3, what each is in tarn, and the names opt.*. docs/how-to/migrate.md has those with a
// counterpart for readers.
#include <array>
#include <cstring>

#include "base/text.hpp"
#include "base/units.hpp"
#include "malloc/jemalloc/conf.hpp"
#include "malloc/jemalloc/settings.hpp"
#include "malloc/jemalloc/tree.hpp"
#include "slots/size_class.hpp"

namespace tarn::jemalloc {
namespace {

// ---- what tarn makes of an option ----

// Of a decimal or hexadecimal digit.
std::int64_t digit_value(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

void apply_decay(std::string_view written) {
  constexpr std::int64_t longest = 24 * 60 * 60 * 1000;
  text_buffer<32> value;
  std::int64_t ms = 0;
  const bool never = written.front() == '-';
  const bool hex = written.starts_with("0x");
  for (const char c : part_of(written, hex ? 2 : never ? 1 : 0)) {
    ms = ms > longest ? longest : ms * (hex ? 16 : 10) + digit_value(c);
  }
  value.signed_number(never ? -1 : ms < longest ? ms : longest).put('\0');
  set_if_default("decay_ms", value.data());
}
void apply_muzzy(std::string_view written) {
  set_muzzy_decay_ms(written.front() == '-' ? -1 : written == "0" ? 0 : muzzy_decay_ms());
}
// "true" is what tarn does anyway.
void apply_background(std::string_view written) {
  if (written == "false") set_if_default("background", "off");
}
void apply_tcache(std::string_view written) {
  if (written == "false") set_if_default("cache_budget", "0");
}
void apply_percpu(std::string_view written) {
  if (written != "disabled") set_if_default("cpu_caches", "on");
}
void apply_thp(std::string_view written) {
  set_if_default("huge_pages", written == "always" ? "always" : written == "never" ? "never" : "auto");
}

// ---- what is in effect ----

template <std::int64_t Value>
std::int64_t always() {
  return Value;
}
constexpr auto no = always<0>;
const char* no_text() { return ""; }
const char* disabled() { return "disabled"; }
const char* false_text() { return "false"; }
const char* percpu_text() {
  return std::strcmp(option_value("cpu_caches"), "on") == 0 ? "percpu" : "disabled";
}
const char* thp_text() {
  const char* const value = option_value("huge_pages");
  return std::strcmp(value, "always") == 0 || std::strcmp(value, "never") == 0 ? value : "default";
}
std::int64_t tcache_value() { return std::strcmp(option_value("cache_budget"), "0") == 0 ? 0 : 1; }

using type = conf_type;

constexpr conf_option table[] = {
    {"dirty_decay_ms", type::signed_size, [] { return std::int64_t{decay_ms()}; }, no_text, apply_decay},
    {"muzzy_decay_ms", type::signed_size, [] { return std::int64_t{muzzy_decay_ms()}; }, no_text,
     apply_muzzy},
    {"background_thread", type::flag, [] { return std::int64_t{has_background_thread()}; }, no_text,
     apply_background},
    {"tcache", type::flag, tcache_value, no_text, apply_tcache},
    {"percpu_arena", type::text, no, percpu_text, apply_percpu},
    {"thp", type::text, no, thp_text, apply_thp},
    // Fixed.
    {"abort", type::flag, no, no_text, nullptr},
    {"dss", type::text, no, disabled, nullptr},
    {"junk", type::text, no, false_text, nullptr},
    {"narenas", type::number, always<1>, no_text, nullptr},
    {"tcache_max", type::size, always<largest_class_size>, no_text, nullptr},
    {"zero", type::flag, no, no_text, nullptr},
};
constexpr std::size_t count = sizeof table / sizeof *table;

struct missing_part {
  std::string_view name;
  const char* advice;
};
constexpr const char* fills_nothing = "libtarn-hardened.so.1 zeroes freed memory and checks it";
constexpr missing_part missing_parts[] = {
    {"junk", fills_nothing},
    {"zero", fills_nothing},
    {"prof", "use TARN_PROFILE=on, tarn profile or tarn attach"},
    {"stats_print", "use TARN_STATS=stderr"},
    {"utrace", "tarn profile records each call"},
    {"xmalloc", "a request without memory returns null"},
    {"experimental_infallible_new", "operator new throws"},
};

// The others, each between spaces.
constexpr std::string_view without_effect =
    " abort_conf bin_shards cache_oblivious confirm_conf debug_double_free_max_scan hpa hpa_dirty_mult "
    "hpa_hugification_threshold hpa_hugification_threshold_ratio hpa_hugify_delay_ms hpa_min_purge_interval_ms "
    "hpa_sec_batch_fill_extra hpa_sec_bytes_after_flush hpa_sec_max_alloc hpa_sec_max_bytes hpa_sec_nshards "
    "hpa_slab_max_alloc lg_extent_max_active_fit lg_prof_interval lg_prof_sample lg_san_uaf_align "
    "lg_tcache_flush_large_div lg_tcache_flush_small_div lg_tcache_max lg_tcache_nslots_mul "
    "max_background_threads metadata_thp mutex_max_spin oversize_threshold prof_accum prof_active prof_bt_max "
    "prof_final prof_gdump prof_leak prof_leak_error prof_log prof_prefix prof_recent_alloc_max prof_stats "
    "prof_sys_thread_name prof_thread_active_init prof_time_resolution prof_unbias retain san_guard_large "
    "san_guard_small slab_sizes stats_interval stats_interval_opts stats_print_opts tcache_gc_delay_bytes "
    "tcache_gc_incr_bytes tcache_nslots_large tcache_nslots_small_max tcache_nslots_small_min trust_madvise "
    "zero_realloc ";

// ---- opt.<name> ----

int handle(const request& r) {
  const auto& option = *static_cast<const conf_option*>(r.argument);
  switch (option.type) {
    case type::flag: return give_only(r, option.value() != 0);
    case type::number: return give_only(r, static_cast<unsigned>(option.value()));
    case type::size: return give_only(r, static_cast<std::size_t>(option.value()));
    case type::signed_size: return give_only(r, static_cast<std::ptrdiff_t>(option.value()));
    case type::text: break;
  }
  return give_only(r, option.text());
}

constexpr auto make_nodes() {
  std::array<node, count> all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = leaf(table[i].name, handle, &table[i]);
  return all;
}
constexpr auto nodes = make_nodes();

}  // namespace

constexpr node_list opt_names{nodes.data(), count};
constexpr conf_list conf_options{table, count};

const char* advice_for(std::string_view name) {
  for (const missing_part& part : missing_parts) {
    if (part.name == name) return part.advice;
  }
  return nullptr;
}

bool is_jemalloc_option(std::string_view name) {
  for (const conf_option& option : table) {
    if (option.name == name) return true;
  }
  if (advice_for(name) != nullptr) return true;
  if (name.empty() || name.find(' ') != std::string_view::npos) return false;
  text_buffer<64> word;
  word.put(' ').put(name).put(' ');
  return without_effect.find(std::string_view(word.data(), word.stored())) != std::string_view::npos;
}

}  // namespace tarn::jemalloc
