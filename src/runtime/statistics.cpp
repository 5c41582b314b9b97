// SPDX-License-Identifier: MIT
#include "runtime/statistics.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/units.hpp"
#include "os/report.hpp"
#include "os/syscall.hpp"
#include "runtime/engine.hpp"
#include "runtime/options.hpp"

namespace tarn::statistics {
namespace {

struct field {
  const char* name;
  std::uint64_t tarn_stats::*value;
};

constexpr field fields[] = {
    {"version", &tarn_stats::version},
    {"reserved", &tarn_stats::reserved},
    {"resident_upper", &tarn_stats::resident_upper},
    {"in_use", &tarn_stats::in_use},
    {"cached", &tarn_stats::cached},
    {"free_dirty", &tarn_stats::free_dirty},
    {"free_clean", &tarn_stats::free_clean},
    {"large", &tarn_stats::large},
    {"metadata", &tarn_stats::metadata},
    {"returned", &tarn_stats::returned},
    {"huge_advised", &tarn_stats::huge_advised},
    {"populated", &tarn_stats::populated},
    {"threads", &tarn_stats::threads},
    {"refills", &tarn_stats::refills},
    {"flushes", &tarn_stats::flushes},
    {"exchanges", &tarn_stats::exchanges},
    {"spans_made", &tarn_stats::spans_made},
    {"spans_freed", &tarn_stats::spans_freed},
    {"guarded", &tarn_stats::guarded},
    {"guarded_blocks", &tarn_stats::guarded_blocks},
};

void put_json_string(text_writer& out, const char* text) {
  out.put('"');
  for (; *text != '\0'; ++text) {
    const char c = *text;
    if (c == '"' || c == '\\')
      out.put('\\').put(c);
    else
      out.put(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
  }
  out.put('"');
}

// Some programs (coreutils) close standard error before the destructors of libraries run, to check that everything was
// written; so it is duplicated here. Not when the option is read: that may be in a sandbox.
[[gnu::constructor]] void at_load() {
  const char* where = secure_getenv("TARN_STATS");
  if (where != nullptr && std::strcmp(where, "stderr") == 0) os::keep_standard_error();
}

// The program's own destructors may run before or after this one; the figures are those of this moment.
[[gnu::destructor]] void write_at_exit() {
  const char* where = options::statistics_at_exit();
  if (where == nullptr) return;
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
  out.resident_upper = pages.in_use + pages.free_dirty + pages.ahead + out.metadata;
  out.huge_advised = engine::touch.huge_advised();
  out.populated = engine::touch.populated();
  out.guarded = engine::guards.live_bytes();
  out.guarded_blocks = engine::guards.samples();
  out.threads = engine::registry.count() + engine::processors.threads.load(std::memory_order_relaxed);
  out.cached = engine::central_tier.handover_bytes() + engine::processors.cached_bytes();
  const auto add_cached = [&out](thread_cache& cache) { out.cached += cache.cached_bytes(); };
  engine::registry.for_each(add_cached);
  engine::registry.for_each_resting(add_cached);
  // These figures are read later than in_use. Bound the parts by the whole, so that no difference wraps.
  out.large = std::min<std::uint64_t>(engine::large_bytes.load(std::memory_order_relaxed), out.in_use);
  out.cached = std::min(out.cached, out.in_use - out.large);
  for (unsigned c = 0; c < size_classes::all; ++c) {
    engine::central_tier.for_each_depot(c, [&out](const object_depot& d) {
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
    const central::class_figures figures = engine::central_tier.figures_of(c);
    sum += (figures.objects - figures.taken) * class_info(c).size;
  }
  return sum;
}

void write_json(text_writer& out, bool with_process) {
  tarn_stats stats;
  collect(stats);
  out.put('{');
  bool first = true;
  for (const field& f : fields) {
    if (!first) out.put(", ");
    first = false;
    out.put('"').put(f.name).put("\": ").number(stats.*f.value);
  }
  out.put(", \"free_in_spans\": ")
      .number(std::min(free_in_spans(), stats.in_use - stats.large - stats.cached));
  out.put(", \"processor_cached\": ").number(engine::processors.cached_bytes());
  out.put(", \"processor_threads\": ").number(engine::processors.threads.load(std::memory_order_relaxed));
  if (with_process) {
    out.put(", \"pid\": ").number(static_cast<std::uint64_t>(os::system_call(SYS_getpid)));
    out.put(", \"program\": ");
    put_json_string(out, program_invocation_name != nullptr ? program_invocation_name : "");
  }
  out.put('}');
}

}  // namespace tarn::statistics
