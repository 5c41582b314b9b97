// SPDX-License-Identifier: MIT
// The options of jemalloc 5.3, and what each is in tarn. docs/how-to/migrate.md has the same table for readers.
#include <cstring>

#include "base/text.hpp"
#include "base/units.hpp"
#include "central/size_class.hpp"
#include "jemalloc/conf.hpp"
#include "jemalloc/settings.hpp"
#include "jemalloc/text_part.hpp"

namespace tarn::jemalloc {
namespace {

constinit bool print_at_exit = false;
constinit char print_options[32] = "";

bool is_true(std::string_view written) { return written == "true"; }

// Of a decimal or hexadecimal digit.
std::int64_t digit_value(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

// ---- what tarn makes of an option ----

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
// "true" is what tarn does anyway.
void apply_background(std::string_view written) {
  if (!is_true(written)) set_if_default("background", "off");
}
void apply_tcache(std::string_view written) {
  if (!is_true(written)) set_if_default("cache_budget", "0");
}
void apply_percpu(std::string_view written) {
  if (written != "disabled") set_if_default("cpu_caches", "on");
}
void apply_thp(std::string_view written) {
  set_if_default("huge_pages", written == "always" ? "always" : written == "never" ? "never" : "auto");
}
void apply_print(std::string_view written) { print_at_exit = is_true(written); }
void apply_print_options(std::string_view written) {
  const std::size_t length =
      written.size() < sizeof print_options ? written.size() : sizeof print_options - 1;
  std::memcpy(print_options, written.data(), length);
  print_options[length] = '\0';
}
void apply_muzzy(std::string_view written) {
  set_muzzy_decay_ms(written.front() == '-' ? -1 : written == "0" ? 0 : muzzy_decay_ms());
}
// Handled while the options are read.
void apply_nothing(std::string_view /*written*/) {}

// ---- what is in effect ----

template <std::int64_t Value>
std::int64_t always() {
  return Value;
}
const char* no_text() { return ""; }
const char* disabled() { return "disabled"; }
const char* false_text() { return "false"; }
const char* free_text() { return "free"; }
const char* percpu_text() {
  return std::strcmp(option_value("cpu_caches"), "on") == 0 ? "percpu" : "disabled";
}
const char* thp_text() {
  const char* const value = option_value("huge_pages");
  if (std::strcmp(value, "always") == 0) return "always";
  return std::strcmp(value, "never") == 0 ? "never" : "default";
}
std::int64_t tcache_value() { return std::strcmp(option_value("cache_budget"), "0") == 0 ? 0 : 1; }

constexpr auto no = always<0>;
constexpr auto yes = always<1>;
using type = conf_type;

constexpr const char* fills_nothing = "libtarn-hardened.so.1 zeroes freed memory and checks it";

// An option with a value in effect that the user cannot change, and one that only the user's text may name.
constexpr conf_option fixed(std::string_view name, type t, std::int64_t (*value)(),
                            const char* missing = nullptr) {
  return {name, t, true, value, no_text, nullptr, nullptr, missing};
}
constexpr conf_option fixed(std::string_view name, const char* (*text)(), const char* missing = nullptr) {
  return {name, type::text, true, no, text, nullptr, nullptr, missing};
}
constexpr conf_option unnamed(std::string_view name, type t, const char* missing = nullptr) {
  return {name, t, false, no, no_text, nullptr, nullptr, missing};
}

constexpr conf_option table[] = {
    // ---- with a counterpart ----
    {"dirty_decay_ms", type::signed_size, true, [] { return std::int64_t{decay_ms()}; }, no_text, apply_decay,
     "TARN_DECAY_MS"},
    {"muzzy_decay_ms", type::signed_size, true, [] { return std::int64_t{muzzy_decay_ms()}; }, no_text,
     apply_muzzy, "nothing; tarn frees pages at once, not lazily"},
    {"background_thread", type::flag, true, [] { return std::int64_t{has_background_thread()}; }, no_text,
     apply_background, "TARN_BACKGROUND"},
    {"tcache", type::flag, true, tcache_value, no_text, apply_tcache, "TARN_CACHE_BUDGET"},
    {"percpu_arena", type::text, true, no, percpu_text, apply_percpu, "TARN_CPU_CACHES"},
    {"thp", type::text, true, no, thp_text, apply_thp, "TARN_HUGE_PAGES"},
    {"stats_print", type::flag, true, [] { return std::int64_t{print_at_exit}; }, no_text, apply_print,
     "itself"},
    {"stats_print_opts", type::text, true, no, [] { return static_cast<const char*>(print_options); },
     apply_print_options, "itself"},
    {"abort_conf", type::flag, true, [] { return std::int64_t{aborts_on_bad_conf()}; }, no_text,
     apply_nothing, "itself"},
    {"confirm_conf", type::flag, true, [] { return std::int64_t{confirms_conf()}; }, no_text, apply_nothing,
     "itself"},
    // ---- without: what tarn does instead stands in docs/how-to/migrate.md ----
    fixed("abort", type::flag, no),
    fixed("cache_oblivious", type::flag, no),
    fixed("metadata_thp", disabled),
    fixed("retain", type::flag, yes),
    fixed("dss", disabled),
    fixed("narenas", type::number, always<1>),
    fixed("oversize_threshold", type::size, no),
    fixed("max_background_threads", type::size, always<1>),
    fixed("lg_extent_max_active_fit", type::size, no),
    fixed("stats_interval", type::signed_64, always<-1>),
    fixed("stats_interval_opts", no_text),
    fixed("junk", false_text, fills_nothing),
    fixed("zero", type::flag, no, fills_nothing),
    fixed("tcache_max", type::size, always<largest_class_size>),
    fixed("zero_realloc", free_text),
    fixed("trust_madvise", type::flag, no),
    unnamed("mutex_max_spin", type::signed_64),
    unnamed("utrace", type::flag, "tarn profile records each call"),
    unnamed("xmalloc", type::flag, "a request without memory returns null"),
    unnamed("experimental_infallible_new", type::flag, "operator new throws"),
    unnamed("lg_tcache_max", type::size),
    unnamed("tcache_nslots_small_min", type::number),
    unnamed("tcache_nslots_small_max", type::number),
    unnamed("tcache_nslots_large", type::number),
    unnamed("lg_tcache_nslots_mul", type::signed_size),
    unnamed("tcache_gc_incr_bytes", type::size),
    unnamed("tcache_gc_delay_bytes", type::size),
    unnamed("lg_tcache_flush_small_div", type::number),
    unnamed("lg_tcache_flush_large_div", type::number),
    unnamed("debug_double_free_max_scan", type::number),
    unnamed("bin_shards", type::text),
    unnamed("slab_sizes", type::text),
    unnamed("san_guard_small", type::size),
    unnamed("san_guard_large", type::size),
    unnamed("lg_san_uaf_align", type::signed_size),
    unnamed("hpa", type::flag),
    unnamed("hpa_slab_max_alloc", type::size),
    unnamed("hpa_hugification_threshold", type::size),
    unnamed("hpa_hugification_threshold_ratio", type::text),
    unnamed("hpa_hugify_delay_ms", type::size),
    unnamed("hpa_min_purge_interval_ms", type::size),
    unnamed("hpa_dirty_mult", type::text),
    unnamed("hpa_sec_nshards", type::size),
    unnamed("hpa_sec_max_alloc", type::size),
    unnamed("hpa_sec_max_bytes", type::size),
    unnamed("hpa_sec_bytes_after_flush", type::size),
    unnamed("hpa_sec_batch_fill_extra", type::size),
    unnamed("prof", type::flag, "use TARN_PROFILE=on, tarn profile or tarn attach"),
    unnamed("prof_prefix", type::text),
    unnamed("prof_active", type::flag),
    unnamed("prof_thread_active_init", type::flag),
    unnamed("prof_bt_max", type::number),
    unnamed("lg_prof_sample", type::size),
    unnamed("prof_accum", type::flag),
    unnamed("lg_prof_interval", type::signed_size),
    unnamed("prof_gdump", type::flag),
    unnamed("prof_final", type::flag),
    unnamed("prof_leak", type::flag),
    unnamed("prof_leak_error", type::flag),
    unnamed("prof_log", type::flag),
    unnamed("prof_stats", type::flag),
    unnamed("prof_sys_thread_name", type::flag),
    unnamed("prof_time_resolution", type::text),
    unnamed("prof_unbias", type::flag),
    unnamed("prof_recent_alloc_max", type::signed_size),
};

}  // namespace

bool prints_statistics_at_exit() { return print_at_exit; }
const char* statistics_options() { return print_options; }

constexpr conf_list conf_options{table, sizeof table / sizeof *table};

}  // namespace tarn::jemalloc
