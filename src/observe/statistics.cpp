// SPDX-License-Identifier: MIT
#include "observe/statistics.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/units.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "os/own_file.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::statistics {
namespace {

using enum metric_kind;
using enum metric_unit;

struct heap_figures : tarn_stats {
  std::uint64_t free_in_spans;
  std::uint64_t dropped;
  std::uint64_t arenas;
};

// In JSON each has its name without "tarn_" and "_bytes".
constexpr metric_of<heap_figures> heap_rows[] = {
    {"tarn_reserved_bytes", gauge, bytes, "Address space of the heap", &heap_figures::reserved},
    {"tarn_resident_upper_bytes", gauge, bytes, "Upper bound of the heap's resident memory",
     &heap_figures::resident_upper},
    {"tarn_in_use_bytes", gauge, bytes, "Memory of live blocks and of free objects in caches and spans",
     &heap_figures::in_use},
    {"tarn_cached_bytes", gauge, bytes, "Free objects in caches, part of tarn_in_use_bytes",
     &heap_figures::cached},
    {"tarn_free_dirty_bytes", gauge, bytes, "Free pages that are still resident until they decay",
     &heap_figures::free_dirty},
    {"tarn_free_clean_bytes", gauge, bytes, "Free pages that are not resident", &heap_figures::free_clean},
    {"tarn_large_bytes", gauge, bytes, "Live blocks above 256 KiB, part of tarn_in_use_bytes",
     &heap_figures::large},
    {"tarn_metadata_bytes", gauge, bytes, "Structures of tarn", &heap_figures::metadata},
    {"tarn_guarded_bytes", gauge, bytes, "Live guarded blocks", &heap_figures::guarded},
    {"tarn_threads", gauge, none, "Threads that have or share a cache", &heap_figures::threads},
    {"tarn_returned_bytes", counter, bytes, "Memory given back to the system", &heap_figures::returned},
    {"tarn_huge_advised_bytes", counter, bytes, "Memory for which huge pages were asked",
     &heap_figures::huge_advised},
    {"tarn_populated_bytes", counter, bytes, "Memory faulted in ahead of its use", &heap_figures::populated},
    {"tarn_refills", counter, none, "Magazines filled from spans", &heap_figures::refills},
    {"tarn_flushes", counter, none, "Magazines emptied into spans", &heap_figures::flushes},
    {"tarn_exchanges", counter, none, "Full magazines passed between caches and depots",
     &heap_figures::exchanges},
    {"tarn_spans_made", counter, none, "Spans cut into objects", &heap_figures::spans_made},
    {"tarn_spans_freed", counter, none, "Spans whose objects were all free and that went back",
     &heap_figures::spans_freed},
    {"tarn_guarded_blocks", counter, none, "Guarded blocks handed out", &heap_figures::guarded_blocks},
    {"tarn_span_free_bytes", gauge, bytes,
     "Free objects in spans that are partly in use, and rests of spans, part of tarn_in_use_bytes",
     &heap_figures::free_in_spans},
    {"tarn_span_dropped_bytes", gauge, bytes,
     "Pages of free objects in spans and pools that went back to the system, part of tarn_in_use_bytes",
     &heap_figures::dropped},
    {"tarn_arena_bytes", gauge, bytes, "Pages of arenas, part of tarn_in_use_bytes", &heap_figures::arenas},
};
// version is no figure.
static_assert(std::size(heap_rows) == sizeof(heap_figures) / sizeof(std::uint64_t) - 1);
using heap_table = metric_table<heap_rows>;

struct class_figures {
  std::uint64_t taken;
  std::uint64_t free;
};
constexpr metric_of<class_figures> class_rows[] = {
    {"tarn_class_taken_bytes", gauge, bytes, "Blocks of this size that live or lie in caches",
     &class_figures::taken},
    {"tarn_class_free_bytes", gauge, bytes, "Free blocks of this size in spans", &class_figures::free},
};
using class_table = metric_table<class_rows>;

// Some programs (coreutils) close standard error before the destructors of libraries run, to check that everything was
// written; so it is duplicated here. Not when the option is read: that may be in a sandbox.
[[gnu::constructor]] void at_load() {
  const char* where = secure_getenv("TARN_STATS");
  if (where != nullptr && std::strcmp(where, "stderr") == 0) os::keep_standard_error();
}

// The program's own destructors may run before or after this one; the figures are those of this moment.
[[gnu::destructor]] void write_at_exit() {
  const char* where = options::statistics_at_exit();
  if (where == nullptr || os::has_entered_sandbox()) return;
  // Not on the stack: the program's may be short.
  static constinit char text[4 * kib];
  text_writer line(text, sizeof text);
  write_json(line, true);
  line.put('\n');
  if (std::strcmp(where, "stderr") == 0) {
    os::write_notice(line);
  } else if (!os::append_to_file(where, line)) {
    text_buffer<512> complaint;
    complaint.put("tarn: cannot write statistics to ").put(where).put(" (TARN_STATS)\n");
    os::write_notice(complaint);
  }
}

}  // namespace

void collect(tarn_stats& out) {
  out = {};
  const page_heap_stats pages = engine::heap.stats();
  out.version = 2;
  out.reserved = pages.reserved;
  out.in_use = pages.in_use;
  out.free_dirty = pages.free_dirty;
  out.free_clean = pages.free_clean;
  out.returned = pages.returned;
  out.metadata = engine::metadata.used();
  out.resident_upper = pages.resident_upper() + out.metadata;
  out.huge_advised = engine::touch.huge_advised();
  out.populated = engine::touch.populated();
  out.guarded = engine::guards.live_bytes();
  out.guarded_blocks = engine::guards.samples();
  out.threads = engine::registry.count() + engine::processors.threads.load(std::memory_order_relaxed);
  const std::size_t warm = engine::warm_large_spans.bytes();
  out.cached = warm + engine::central_tier.handover_bytes() + engine::processors.cached_bytes();
  const auto add_cached = [&out](thread_cache& cache) { out.cached += cache.cached_bytes(); };
  engine::registry.for_each(add_cached);
  engine::registry.for_each_resting(add_cached);
  // These figures are read later than in_use. Bound the parts by the whole, so that no difference wraps.
  const std::size_t large = engine::large_bytes.load(std::memory_order_relaxed);
  out.large = std::min<std::uint64_t>(large - std::min(large, warm), out.in_use);
  out.cached = std::min(out.cached, out.in_use - out.large);
  for (unsigned c = 0; c < size_classes::all; ++c) {
    engine::central_tier.depots().for_each(c, [&out](const slot_depot& d) {
      out.refills += d.counters.refills.load(std::memory_order_relaxed);
      out.flushes += d.counters.flushes.load(std::memory_order_relaxed);
      out.exchanges += d.counters.exchanges.load(std::memory_order_relaxed);
      out.spans_made += d.counters.spans_made.load(std::memory_order_relaxed);
      out.spans_freed += d.counters.spans_freed.load(std::memory_order_relaxed);
    });
  }
}

std::uint64_t free_in_spans() {
  std::uint64_t sum = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const class_depots::class_figures figures = engine::central_tier.depots().figures_of(c);
    sum += (figures.objects - figures.taken) * class_info(c).size;
    sum += figures.spans * span_bytes(c) - (figures.spans != 0 ? figures.objects * class_info(c).size : 0);
  }
  return sum;
}

void write_json(text_writer& out, bool with_process) {
  heap_figures stats{};
  collect(stats);
  out.put("{\"version\": ").number(stats.version);
  for (const auto& row : heap_rows) {
    if (row.figure == &heap_figures::free_in_spans || row.figure == &heap_figures::dropped ||
        row.figure == &heap_figures::arenas)
      continue;
    std::string_view name(row.name);
    name.remove_prefix(std::strlen("tarn_"));
    if (row.unit == metric_unit::bytes) name.remove_suffix(std::strlen("_bytes"));
    out.put(", \"").put(name).put("\": ").number(stats.*row.figure);
  }
  out.put(", \"free_in_spans\": ")
      .number(std::min(free_in_spans(), stats.in_use - stats.large - stats.cached));
  out.put(", \"processor_cached\": ").number(engine::processors.cached_bytes());
  out.put(", \"processor_threads\": ").number(engine::processors.threads.load(std::memory_order_relaxed));
  if (with_process) {
    out.put(", \"pid\": ").number(static_cast<std::uint64_t>(os::system_call(SYS_getpid)));
    const char* const program = program_invocation_name != nullptr ? program_invocation_name : "";
    out.put(", \"program\": \"").put_escaped(program).put('"');
  }
  out.put('}');
}

static void visit_heap(metric_receiver to) {
  heap_figures figures{};
  collect(figures);
  figures.free_in_spans = free_in_spans();
  figures.dropped = engine::map.dropped_bytes();
  figures.arenas = engine::arena_bytes.load(std::memory_order_relaxed);
  heap_table::give(to, nullptr, figures);
}

constinit const metric_group metrics = heap_table::group(visit_heap);

static void visit_classes(metric_receiver to) {
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const auto found = engine::central_tier.depots().figures_of(c);
    if (found.objects == 0) continue;
    const std::size_t size = class_info(c).size;
    text_buffer<24> name;
    name.number(size).put('\0');
    class_table::give(to, name.data(),
                      class_figures{found.taken * size, (found.objects - found.taken) * size});
  }
}

constinit const metric_group class_metrics = class_table::group(visit_classes, "size");

}  // namespace tarn::statistics
