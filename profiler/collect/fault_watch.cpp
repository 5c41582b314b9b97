// SPDX-License-Identifier: MIT
#include "profiler/collect/fault_watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/jit_code.hpp"
#include "profiler/collect/process_code.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"
#include "profiler/proc/ticks.hpp"

namespace tarn::profiler {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds pause{5};  // the buffers hold some thousand faults for each processor

// Names of mappings, and the files whose code is loaded, of one process.
class address_space {
 public:
  explicit address_space(std::uint32_t process) : process_(process) {
    for (const mapping& each : parse_mappings(proc_text(process, "maps")))
      add(each.start, each.end, each.offset, each.executable, each.name);
  }
  void add(const mapping_event& event) {
    add(event.start, event.start + event.bytes, event.file_offset, event.executable, event.path);
  }
  // Code without frame pointers makes the kernel read return addresses where there are none: cuts the path before the
  // first one that is not in code.
  void cut(page_fault& fault) const {
    for (std::size_t i = 1; i < fault.callers.size(); ++i) {
      const auto above = code_.upper_bound(fault.callers[i]);
      if (above == code_.begin() || fault.callers[i] >= std::prev(above)->second)
        return fault.callers.resize(i);
    }
  }
  [[nodiscard]] const memory_regions& regions() const noexcept { return regions_; }
  [[nodiscard]] std::vector<module_info> take_modules() { return std::move(modules_); }

 private:
  void add(std::uint64_t start, std::uint64_t end, std::uint64_t offset, bool executable,
           const std::string& name) {
    regions_.note(start, end, name);
    if (executable) code_[start] = std::max(code_[start], end);
    if (!executable || !name.starts_with('/') || modules_.size() >= most_modules ||
        !known_.emplace(name, start).second)
      return;
    // As the process sees the file: it may have another root.
    const std::string id = build_id_of(fmt::format("/proc/{}/root{}", process_, name));
    modules_.push_back({name, id, start, end, offset});
  }

  std::uint32_t process_;
  memory_regions regions_;
  std::map<std::uint64_t, std::uint64_t> code_;  // end by start
  std::vector<module_info> modules_;
  std::set<std::pair<std::string, std::uint64_t>> known_;
};

}  // namespace

void add_touch(process_model& model, const memory_regions& regions, const page_fault& fault,
               std::uint64_t start_ns) {
  std::uint32_t node = 0;
  for (auto caller = fault.callers.rbegin(); caller != fault.callers.rend(); ++caller) {
    // The innermost address is the faulting instruction itself, not a return address. Symbols are looked up at
    // address - 1, so add 1.
    const bool innermost = caller + 1 == fault.callers.rend();
    node = model.node(node, *caller + (innermost ? 1 : 0));
  }
  const std::uint64_t since = fault.time_ns > start_ns ? fault.time_ns - start_ns : 0;
  model.touched({since, fault.address, fault.instruction, fault.thread, fault.weight, fault.in_kernel}, node,
                regions.at(fault.address));
}

profile watch_faults(std::uint32_t process, double seconds, const std::function<bool()>& stop,
                     const symbol_settings& symbols) {
  fault_events events;
  if (!events.open({.everything = false, .mappings = true, .process = process}))
    throw profile_error(events.refusal());
  const std::uint64_t start_ns = raw_clock_ns();
  const auto begin = clock::now();
  const auto end =
      begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  jit_code jit;
  // After the events are open: they report what is mapped from then on.
  address_space space(process);
  process_model model{model_settings{}};
  kernel_events news;
  const auto take = [&] {
    news.clear();
    events.take(news);
    for (const mapping_event& each : news.mappings)
      if (each.process == process) space.add(each);
    for (page_fault& each : news.faults) {
      if (each.process != process) continue;
      space.cut(each);
      add_touch(model, space.regions(), each, start_ns);
    }
  };
  const auto is_there = [process] {
    const auto state = read_process(process);
    return state && !state->has_ended();
  };
  while (clock::now() < end && !stop() && is_there()) {
    std::this_thread::sleep_for(pause);
    take();
  }
  take();
  if (const auto state = read_process(process)) jit.look_at(process, state->start_ticks);
  events.close();
  profile out;
  model.fill(out);
  out.mode = profile_mode::faults;
  out.modules = space.take_modules();
  const std::chrono::duration<double, std::nano> watched = clock::now() - begin;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  out.meta["duration_ns"] = watched.count();
  out.meta["start"] = now.count() - watched.count() / 1e9;
  out.unseen_faults = events.lost();
  jit.name_in(out);
  add_symbols(out, symbols);
  jit_code::note_missing(out);
  make_printable(out);  // paths of files, by which they were opened until here
  return out;
}

}  // namespace tarn::profiler
