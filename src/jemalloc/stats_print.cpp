// SPDX-License-Identifier: MIT
// malloc_stats_print: the statistics as text, or as JSON in jemalloc's form. Options, each a letter: J JSON; g without the
// general part; m without the sum of all arenas, d of the destroyed ones, a of each arena; b without size classes. l, x, e
// and h leave out parts that tarn does not have.
//
// Thread safety: any thread. The program's function is called without a lock.
#include <cstring>

#include "jemalloc/arena_figures.hpp"
#include "jemalloc/arena_table.hpp"
#include "jemalloc/conf.hpp"
#include "jemalloc/exported.hpp"
#include "jemalloc/figures.hpp"
#include "jemalloc/settings.hpp"
#include "jemalloc/stats_writer.hpp"
#include "os/errno_keeper.hpp"
#include "os/report.hpp"

namespace tarn::jemalloc {
namespace {

bool has(const char* options, char letter) {
  return options != nullptr && std::strchr(options, letter) != nullptr;
}

void write_config(stats_writer& out) {
  out.begin("config");
  for (const char* name : {"cache_oblivious", "debug", "fill", "lazy_lock"}) out.flag(name, false);
  out.text("malloc_conf", "");
  out.flag("opt_safety_checks", true);
  for (const char* name : {"prof", "prof_libgcc", "prof_libunwind"}) out.flag(name, false);
  out.flag("stats", true);
  for (const char* name : {"utrace", "xmalloc"}) out.flag(name, false);
  out.end();
}

void write_options(stats_writer& out) {
  out.begin("opt");
  for (std::size_t i = 0; i < conf_options.count; ++i) {
    const conf_option& option = conf_options.options[i];
    if (!option.has_name) continue;
    text_buffer<64> name;
    name.put(option.name).put('\0');
    if (option.type == conf_type::flag) {
      out.flag(name.data(), option.value() != 0);
    } else if (option.type == conf_type::text) {
      out.text(name.data(), option.text());
    } else {
      out.value_signed(name.data(), option.value());
    }
  }
  out.end();
}

void write_sizes(stats_writer& out) {
  out.begin("arenas");
  out.value("narenas", arenas.count());
  out.value_signed("dirty_decay_ms", decay_ms());
  out.value_signed("muzzy_decay_ms", muzzy_decay_ms());
  out.value("quantum", 16);
  out.value("page", page_size);
  out.value("tcache_max", largest_class_size);
  out.value("nbins", bin_count);
  out.value("nhbins", bin_count);
  if (out.is_json()) {
    out.begin_rows("bin");
    for (unsigned i = 0; i < bin_count; ++i) {
      const auto& info = class_info(class_of_bin(i));
      out.begin_row();
      out.value("size", info.size);
      out.value("nregs", info.objects);
      out.value("slab_size", span_bytes(class_of_bin(i)));
      out.value("nshards", 1);
      out.end_row();
    }
    out.end_rows();
    out.value("nlextents", large_count);
    out.begin_rows("lextent");
    for (unsigned i = 0; i < large_count; ++i) {
      out.begin_row();
      out.value("size", large_size(i));
      out.end_row();
    }
    out.end_rows();
  }
  out.end();
}

void write_general(stats_writer& out) {
  out.text("version", version);
  write_config(out);
  write_options(out);
  write_sizes(out);
}

void write_totals(stats_writer& out) {
  struct totals {
    std::size_t allocated, active, metadata, resident, mapped, retained;
  };
  const totals t = from_figures([](const figures& f) {
    return totals{f.allocated, f.active, f.metadata, f.resident, f.mapped, f.retained};
  });
  out.begin("stats");
  out.value("allocated", t.allocated);
  out.value("active", t.active);
  out.value("metadata", t.metadata);
  out.value("metadata_thp", 0);
  out.value("resident", t.resident);
  out.value("mapped", t.mapped);
  out.value("retained", t.retained);
  out.begin("background_thread");
  out.value("num_threads", has_background_thread() ? 1 : 0);
  out.end();
  out.end();
}

// In text, only classes that have been used.
void write_bins(stats_writer& out) {
  out.begin_rows("bins");
  for (unsigned i = 0; i < bin_count; ++i) {
    const bin_figures bin = from_figures([i](const figures& f) { return f.bins[i]; });
    if (!out.is_json() && bin.slabs_made == 0) continue;
    out.begin_row();
    if (!out.is_json()) out.value("size", class_info(class_of_bin(i)).size);
    out.value("curregs", bin.regions);
    out.value("nfills", bin.fills);
    out.value("nflushes", bin.flushes);
    out.value("nslabs", bin.slabs_made);
    out.value("curslabs", bin.slabs);
    out.value("nonfull_slabs", bin.nonfull_slabs);
    out.end_row();
  }
  out.end_rows();
}

void write_arena(stats_writer& out, const char* name, std::size_t index, bool with_bins) {
  const arena_figures f = figures_of_arena(index);
  out.begin(name);
  out.value("nthreads", f.threads);
  out.value("uptime_ns", uptime_ns());
  out.text("dss", "disabled");
  out.value_signed("dirty_decay_ms", decay_ms());
  out.value_signed("muzzy_decay_ms", muzzy_decay_ms());
  out.value("pactive", f.active_pages);
  out.value("pdirty", f.dirty_pages);
  out.value("pmuzzy", 0);
  out.value("dirty_purged", f.purged_pages);
  out.value("mapped", f.mapped);
  out.value("retained", f.retained);
  out.value("base", f.metadata);
  out.value("internal", 0);
  out.value("metadata_thp", 0);
  out.value("tcache_bytes", f.cached);
  out.value("resident", f.resident);
  out.begin("small");
  out.value("allocated", f.small);
  out.end();
  out.begin("large");
  out.value("allocated", f.large);
  out.end();
  if (with_bins) write_bins(out);
  out.end();
}

void write_arenas(stats_writer& out, const char* options) {
  const bool with_bins = !has(options, 'b');
  out.begin("stats.arenas");
  if (!has(options, 'm')) write_arena(out, "merged", all_arenas, with_bins);
  if (!has(options, 'd') && arenas.has_destroyed()) write_arena(out, "destroyed", destroyed_arenas, false);
  const unsigned end = has(options, 'a') ? 0 : arenas.count();
  for (unsigned i = 0; i < end; ++i) {
    if (!arenas.exists(i)) continue;
    text_buffer<16> name;
    name.number(i).put('\0');
    write_arena(out, name.data(), i, with_bins && i == 0);
  }
  out.end();
}

void print(text_function write, void* context, const char* options) {
  if (write == nullptr) write = malloc_message != nullptr ? malloc_message : tell_standard_error;
  stats_writer out(write, context, has(options, 'J'));
  refresh();
  out.begin_all();
  if (out.is_json()) out.begin("jemalloc");
  if (!has(options, 'g')) write_general(out);
  write_totals(out);
  if (!(has(options, 'm') && has(options, 'd') && has(options, 'a'))) write_arenas(out, options);
  if (out.is_json()) out.end();
  out.end_all();
}

// The option stats_print. Some programs close standard error before the destructors of libraries run.
[[gnu::constructor]] void keep_output() {
  ensure_settings();
  if (prints_statistics_at_exit()) os::keep_standard_error();
}
[[gnu::destructor]] void print_at_exit() {
  if (prints_statistics_at_exit()) print(nullptr, nullptr, statistics_options());
}

}  // namespace
}  // namespace tarn::jemalloc

extern "C" TARN_API void malloc_stats_print(void (*write)(void* context, const char* text), void* context,
                                            const char* options) noexcept {
  const tarn::os::errno_keeper keeper;
  tarn::jemalloc::ensure_settings();
  tarn::jemalloc::print(write, context, options);
}
