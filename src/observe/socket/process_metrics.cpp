// SPDX-License-Identifier: MIT
// The figures of the process's memory, as metrics.
#include <string_view>

#include "background/pressure.hpp"
#include "base/text.hpp"
#include "observe/socket/openmetrics.hpp"
#include "os/clock.hpp"
#include "os/input_file.hpp"
#include "os/memory.hpp"

namespace tarn::control_socket {
namespace {

using enum metric_kind;
using enum metric_unit;

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
  char text[128];
  os::input_file file("/proc/thread-self/statm");
  std::string_view numbers(text, file.read(text, sizeof text));
  std::string_view pages = take_until(numbers, ' ');
  std::string_view resident_pages = take_until(numbers, ' ');
  all = take_number(pages, all) ? all * os::system_page_size() : no_value;
  resident = take_number(resident_pages, resident) ? resident * os::system_page_size() : no_value;
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

constinit const metric_group process_metrics = process_table::group(visit_process);

}  // namespace tarn::control_socket
