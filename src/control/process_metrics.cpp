// SPDX-License-Identifier: MIT
#include "control/process_metrics.hpp"

#include <fcntl.h>

#include <cstddef>
#include <iterator>

#include "central/size_class.hpp"
#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "runtime/engine.hpp"
#include "runtime/pressure.hpp"
#include "runtime/statistics.hpp"
#include "tarn/malloc.h"

namespace tarn::control {
namespace {

using enum metric_kind;
using enum metric_unit;

// ---- the heap ----

struct heap_figures : tarn_stats {
  std::uint64_t free_in_spans;
};

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
     "Free objects in spans that are partly in use, part of tarn_in_use_bytes", &heap_figures::free_in_spans},
};
// version is no figure.
static_assert(std::size(heap_rows) == sizeof(heap_figures) / sizeof(std::uint64_t) - 1);
using heap_table = metric_table<heap_rows>;

void visit_heap(metric_receiver to) {
  heap_figures figures;
  statistics::collect(figures);
  figures.free_in_spans = statistics::free_in_spans();
  heap_table::give(to, nullptr, figures);
}

// ---- the process ----

struct process_figures {
  std::uint64_t resident;
  std::uint64_t address_space;
  std::uint64_t limit;
  std::uint64_t used;
  std::uint64_t soft;
  std::uint64_t hard;
  std::uint64_t pressed;
};

constexpr metric_of<process_figures> process_rows[] = {
    {"tarn_process_resident_memory_bytes", gauge, bytes, "Resident memory of the whole process",
     &process_figures::resident},
    {"tarn_process_virtual_memory_bytes", gauge, bytes, "Address space of the whole process",
     &process_figures::address_space},
    {"tarn_memory_limit_bytes", gauge, bytes,
     "Smallest of the machine's memory and the limits of the process's control groups",
     &process_figures::limit},
    {"tarn_memory_limit_used_bytes", gauge, bytes, "Memory that counts against the soft limit",
     &process_figures::used},
    {"tarn_memory_soft_limit_bytes", gauge, bytes, "From how much on caches empty (option limit)",
     &process_figures::soft},
    {"tarn_memory_hard_limit_bytes", gauge, bytes, "From how much on allocations fail (option limit)",
     &process_figures::hard},
    {"tarn_memory_pressed", gauge, none,
     "1 if a limit is nearly used up or tasks stall for lack of memory; 2 above the soft limit",
     &process_figures::pressed},
};
using process_table = metric_table<process_rows>;

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

void visit_process(metric_receiver to) {
  process_figures figures;
  read_sizes(figures.address_space, figures.resident);
  pressure::process.look(os::now_ms());
  const pressure::verdict last = pressure::process.last();
  const auto limit = [](std::uint64_t found) { return found != os::unlimited ? found : no_value; };
  figures.limit = limit(pressure::process.least_limit());
  figures.used = last.used;
  figures.soft = limit(last.soft);
  figures.hard = limit(last.hard);
  figures.pressed = static_cast<std::uint64_t>(last.now);
  process_table::give(to, nullptr, figures);
}

}  // namespace

constinit const metric_group heap_metrics = heap_table::group(visit_heap);
constinit const metric_group process_metrics = process_table::group(visit_process);

}  // namespace tarn::control
