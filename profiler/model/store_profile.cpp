// SPDX-License-Identifier: MIT
#include "profiler/model/store_profile.hpp"

#include <algorithm>
#include <utility>

#include "profiler/model/known_meta.hpp"
#include "profiler/model/table_rows.hpp"

namespace tarn::profiler {

nlohmann::json stored_meta(const profile& p) {
  nlohmann::json meta = p.meta.is_object() ? p.meta : nlohmann::json::object();
  meta["mode"] = mode_name(p.mode);
  meta["prices"] = as_json(p.prices);
  meta["malloc_time"] = as_json(p.malloc_time);
  meta["recorder_ns"] = p.recorder_ns;
  meta["other_faults"] = p.other_faults;
  meta["unseen_faults"] = p.unseen_faults;
  meta["lost_events"] = p.lost_events;
  meta["unwind_checked"] = p.unwind_checked;
  meta["unwind_wrong"] = p.unwind_error_rate * p.unwind_checked;
  return meta;
}

namespace {

// Adds the column of process indices, if there are several processes.
template <class Value>
void add_process_column(table& rows, const profile& p, Value value) {
  if (!p.processes.empty()) add_column<integers>(rows, "process", 0, value);
}

void store_modules(table_writer& out, const profile& p, std::size_t first) {
  if (first == p.modules.size()) return;
  table rows = new_table("modules", p.modules.size() - first, false);
  add_columns<module_info>(rows, first, [&](std::size_t row) -> auto& { return p.modules[row]; });
  out.append(rows);
}

void store_stacks(table_writer& out, const profile& p, std::size_t already) {
  const std::size_t first = p.stacks_changed ? 1 : already;
  if (first >= p.stacks.size()) return;
  table rows = new_table("stacks", p.stacks.size() - first, p.stacks_changed);
  add_column<integers>(rows, "parent", first, [&](std::size_t row) { return p.stacks[row].parent; });
  add_column<integers>(rows, "address", first, [&](std::size_t row) { return p.stacks[row].address; });
  out.append(rows);
}

void store_threads(table_writer& out, const profile& p) {
  table rows = new_table("threads", p.threads.size(), true);
  add_columns<thread_info>(rows, 0, [&](std::size_t row) -> auto& { return p.threads[row]; });
  add_process_column(rows, p, [&](std::size_t row) { return p.threads[row].process; });
  out.append(rows);
}

// Appends the rows that are not in the file yet; all of them if rows were taken out since, so that
// the last stored one is no longer where it was.
template <class Row>
void store_history(table_writer& out, const char* name, const std::vector<Row>& all,
                   stored_rows::history& already) {
  if (all.empty()) return;
  const bool has_grown =
      already.rows > 0 && already.rows <= all.size() && all[already.rows - 1].time_ns == already.last_ns;
  const std::size_t first = has_grown ? already.rows : 0;
  table rows = new_table(name, all.size() - first, first == 0);
  add_columns<Row>(rows, first, [&](std::size_t row) -> auto& { return all[row]; });
  if (rows.rows > 0) out.append(rows);
  already = {all.size(), all.back().time_ns};
}

void store_memory_parts(table_writer& out, const memory_history& memory) {
  if (memory.rows.empty()) return;
  table rows = new_table("memory_parts", memory.parts.size(), true);
  add_columns<memory_part>(rows, 0, [&](std::size_t row) -> auto& { return memory.parts[row]; });
  out.append(rows);
}

void store_processes(table_writer& out, const profile& p) {
  if (p.processes.empty()) return;
  table rows = new_table("processes", p.processes.size(), true);
  add_column<texts>(rows, "json", 0, [&](std::size_t row) { return json_text(p.processes[row].meta); });
  out.append(rows);
  std::vector<std::pair<std::size_t, const counter_row*>> all;
  for (std::size_t index = 0; index < p.processes.size(); ++index) {
    for (const counter_row& row : p.processes[index].counters) all.emplace_back(index, &row);
  }
  rows = new_table("process_counters", all.size(), true);
  add_process_column(rows, p, [&](std::size_t row) { return all[row].first; });
  add_columns<counter_row>(rows, 0, [&](std::size_t row) -> auto& { return *all[row].second; });
  out.append(rows);
}

}  // namespace

const char* mode_name(profile_mode mode) {
  constexpr const char* names[] = {"sample", "full", "faults"};
  return names[static_cast<std::size_t>(mode)];
}

void store_symbols(table_writer& out, const profile& p) {
  struct row {
    std::uint64_t address;
    std::size_t depth;
    const source_frame* frame;
  };
  std::vector<row> all;
  for (const auto& [address, frames] : p.symbols) {
    for (std::size_t depth = 0; depth < frames.size(); ++depth)
      all.push_back({address, depth, &frames[depth]});
  }
  table rows = new_table("symbols", all.size(), true);
  add_column<integers>(rows, "address", 0, [&](std::size_t at) { return all[at].address; });
  add_column<integers>(rows, "depth", 0, [&](std::size_t at) { return all[at].depth; });
  add_columns<source_frame>(rows, 0, [&](std::size_t at) -> auto& { return *all[at].frame; });
  out.append(rows);
}

namespace {

void store_all(table_writer& out, const profile& p, packed_sites& sites, stored_rows& already) {
  // Tables that others refer to come first: so a file that is cut off anywhere has no dangling references.
  store_modules(out, p, already.modules);
  store_stacks(out, p, already.stacks);
  store_threads(out, p);
  sites.write(out);
  store_history(out, "counters", p.counters, already.counters);
  store_history(out, "memory", p.memory.rows, already.memory);
  store_memory_parts(out, p.memory);
  store_processes(out, p);
  out.append_json("meta", json_text(stored_meta(p)));
  if (!p.symbols.empty()) store_symbols(out, p);
  already.modules = p.modules.size();
  already.stacks = std::max<std::size_t>(1, p.stacks.size());
}

}  // namespace

void store_profile(table_writer& out, const profile& p, stored_rows& already) {
  packed_sites sites(!p.processes.empty());
  sites.add(p.sites, true);
  store_all(out, p, sites, already);
}

void store_profile(table_writer& out, const profile& p) {
  stored_rows none;
  store_profile(out, p, none);
}

void store_profile(table_writer& out, const profile& p, packed_sites& sites) {
  stored_rows none;
  store_all(out, p, sites, none);
}

}  // namespace tarn::profiler
