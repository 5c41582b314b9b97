// SPDX-License-Identifier: MIT
#include "control/process_metrics.hpp"

#include <fcntl.h>

#include <cstddef>
#include <iterator>

#include "central/size_class.hpp"
#include "os/clock.hpp"
#include "os/contention.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "runtime/engine.hpp"
#include "runtime/lock_statistics.hpp"
#include "runtime/pressure.hpp"
#include "runtime/statistics.hpp"
#include "tarn/malloc.h"

namespace tarn::control {
namespace {

constexpr auto gauge = metric_kind::gauge;
constexpr auto counter = metric_kind::counter;
constexpr auto bytes = metric_unit::bytes;
constexpr auto seconds = metric_unit::seconds;
constexpr auto none = metric_unit::none;

// ---- the heap ----

struct heap_figure {
  metric shown;
  std::uint64_t tarn_stats::*value;
};

constexpr heap_figure heap_figures[] = {
    {{"tarn_reserved_bytes", gauge, bytes, "Address space of the heap"}, &tarn_stats::reserved},
    {{"tarn_resident_upper_bytes", gauge, bytes, "Upper bound of the heap's resident memory"},
     &tarn_stats::resident_upper},
    {{"tarn_in_use_bytes", gauge, bytes, "Memory of live blocks and of free objects in caches and spans"},
     &tarn_stats::in_use},
    {{"tarn_cached_bytes", gauge, bytes, "Free objects in caches, part of tarn_in_use_bytes"},
     &tarn_stats::cached},
    {{"tarn_free_dirty_bytes", gauge, bytes, "Free pages that are still resident until they decay"},
     &tarn_stats::free_dirty},
    {{"tarn_free_clean_bytes", gauge, bytes, "Free pages that are not resident"}, &tarn_stats::free_clean},
    {{"tarn_large_bytes", gauge, bytes, "Live blocks above 256 KiB, part of tarn_in_use_bytes"},
     &tarn_stats::large},
    {{"tarn_metadata_bytes", gauge, bytes, "Structures of tarn"}, &tarn_stats::metadata},
    {{"tarn_guarded_bytes", gauge, bytes, "Live guarded blocks"}, &tarn_stats::guarded},
    {{"tarn_threads", gauge, none, "Threads that have or share a cache"}, &tarn_stats::threads},
    {{"tarn_returned_bytes", counter, bytes, "Memory given back to the system"}, &tarn_stats::returned},
    {{"tarn_huge_advised_bytes", counter, bytes, "Memory for which huge pages were asked"},
     &tarn_stats::huge_advised},
    {{"tarn_populated_bytes", counter, bytes, "Memory faulted in ahead of its use"}, &tarn_stats::populated},
    {{"tarn_refills", counter, none, "Magazines filled from spans"}, &tarn_stats::refills},
    {{"tarn_flushes", counter, none, "Magazines emptied into spans"}, &tarn_stats::flushes},
    {{"tarn_exchanges", counter, none, "Full magazines passed between caches and depots"},
     &tarn_stats::exchanges},
    {{"tarn_spans_made", counter, none, "Spans cut into objects"}, &tarn_stats::spans_made},
    {{"tarn_spans_freed", counter, none, "Spans whose objects were all free and that went back"},
     &tarn_stats::spans_freed},
    {{"tarn_guarded_blocks", counter, none, "Guarded blocks handed out"}, &tarn_stats::guarded_blocks},
};
// version is no figure.
static_assert(std::size(heap_figures) == sizeof(tarn_stats) / sizeof(std::uint64_t) - 1);

template <class Figure, std::size_t Count>
struct metric_table {
  metric all[Count];
};
// The metrics of a table, in its order, and one more.
template <class Figure, std::size_t Count>
constexpr auto metrics_of(const Figure (&figures)[Count], metric last) {
  metric_table<Figure, Count + 1> out{};
  for (std::size_t i = 0; i < Count; ++i) out.all[i] = figures[i].shown;
  out.all[Count] = last;
  return out;
}

constexpr auto heap_table =
    metrics_of(heap_figures, {"tarn_span_free_bytes", gauge, bytes,
                              "Free objects in spans that are partly in use, part of tarn_in_use_bytes"});

std::uint64_t free_in_spans() {
  std::uint64_t sum = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const central::class_figures figures = engine::central_tier.figures_of(c);
    sum += (figures.objects - figures.taken) * class_info(c).size;
  }
  return sum;
}

void visit_heap(metric_receiver receive, void* context) {
  tarn_stats stats;
  statistics::collect(stats);
  std::uint64_t values[std::size(heap_table.all)];
  for (std::size_t i = 0; i < std::size(heap_figures); ++i) values[i] = stats.*heap_figures[i].value;
  values[std::size(heap_figures)] = free_in_spans();
  receive(context, nullptr, 0, values);
}

// ---- the process ----

constexpr metric process_table[] = {
    {"tarn_process_resident_memory_bytes", gauge, bytes, "Resident memory of the whole process"},
    {"tarn_process_virtual_memory_bytes", gauge, bytes, "Address space of the whole process"},
    {"tarn_memory_limit_bytes", gauge, bytes,
     "Smallest of the machine's memory and the limits of the process's control groups"},
    {"tarn_memory_limit_used_bytes", gauge, bytes, "Memory that counts against the soft limit"},
    {"tarn_memory_soft_limit_bytes", gauge, bytes, "From how much on caches empty (option limit)"},
    {"tarn_memory_hard_limit_bytes", gauge, bytes, "From how much on allocations fail (option limit)"},
    {"tarn_memory_pressed", gauge, none,
     "1 if a limit is nearly used up or tasks stall for lack of memory; 2 above the soft limit"},
};

// The first two numbers of /proc/thread-self/statm (/proc/self has nothing once the first thread has ended), in bytes.
void read_sizes(std::uint64_t& all, std::uint64_t& resident) {
  all = resident = no_value;
  const char* const path = "/proc/thread-self/statm";
  const long file = os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[128] = {};
  const long count = os::system_call(SYS_read, file, reinterpret_cast<long>(text), sizeof text);
  os::system_call(SYS_close, file);
  std::uint64_t numbers[2] = {};
  unsigned which = 0;
  for (long i = 0; i < count && which < 2; ++i) {
    if (text[i] == ' ') {
      ++which;
    } else {
      numbers[which] = numbers[which] * 10 + static_cast<unsigned>(text[i] - '0');
    }
  }
  if (which < 2) return;
  all = numbers[0] * os::system_page_size();
  resident = numbers[1] * os::system_page_size();
}

void visit_process(metric_receiver receive, void* context) {
  std::uint64_t values[std::size(process_table)];
  read_sizes(values[1], values[0]);
  pressure::process.look(os::now_ms());
  const pressure::verdict last = pressure::process.last();
  const auto limit = [](std::uint64_t found) { return found != os::unlimited ? found : no_value; };
  values[2] = limit(pressure::process.least_limit());
  values[3] = last.used;
  values[4] = limit(last.soft);
  values[5] = limit(last.hard);
  values[6] = static_cast<std::uint64_t>(last.now);
  receive(context, nullptr, 0, values);
}

// ---- locks ----

struct lock_figure {
  metric shown;
  std::uint64_t tarn_lock_stats::*value;
};

constexpr lock_figure lock_figures[] = {
    {{"tarn_lock_acquisitions", counter, none, "How often locks of this name were taken"},
     &tarn_lock_stats::acquisitions},
    {{"tarn_lock_transfers", counter, none, "How often by another thread than the last time"},
     &tarn_lock_stats::transfers},
    {{"tarn_lock_waits", counter, none, "How often a thread waited for the holder"}, &tarn_lock_stats::waits},
    {{"tarn_lock_waited_seconds", counter, seconds, "For how long threads waited"},
     &tarn_lock_stats::waited_ns},
    {{"tarn_lock_held_seconds", counter, seconds, "For how long the locks were held"},
     &tarn_lock_stats::held_ns},
    {{"tarn_lock_spans_moved", counter, none, "Spans that went to another depot or shard"},
     &tarn_lock_stats::spans_moved},
};
constexpr auto lock_table =
    metrics_of(lock_figures, {"tarn_locks", gauge, none, "Locks of this name that were taken"});

void visit_locks(metric_receiver receive, void* context) {
  if (!os::contention::is_on()) return;
  struct target {
    metric_receiver receive;
    void* context;
  } to{receive, context};
  lock_statistics::visit(
      [](void* p, const tarn_lock_stats* stats) {
        std::uint64_t values[std::size(lock_table.all)];
        for (std::size_t i = 0; i < std::size(lock_figures); ++i) values[i] = stats->*lock_figures[i].value;
        values[std::size(lock_figures)] = stats->locks;
        const target& t = *static_cast<const target*>(p);
        t.receive(t.context, stats->name, stats->object_size, values);
      },
      &to);
}

}  // namespace

constinit const metric_group heap_metrics{nullptr, nullptr, heap_table.all, std::size(heap_table.all),
                                          visit_heap};
constinit const metric_group process_metrics{nullptr, nullptr, process_table, std::size(process_table),
                                             visit_process};
constinit const metric_group lock_metrics{"lock", "object_size", lock_table.all, std::size(lock_table.all),
                                          visit_locks};

}  // namespace tarn::control
