// SPDX-License-Identifier: MIT
#include "profiler/model/store_profile.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "profiler/model/figure_columns.hpp"
#include "profiler/model/table_columns.hpp"

namespace tarn::profiler {

nlohmann::json stored_meta(const profile& p) {
  nlohmann::json meta = p.meta.is_object() ? p.meta : nlohmann::json::object();
  meta["mode"] = mode_name(p.mode);
  meta["prices"] = {{"fault", p.prices.fault},
                    {"huge_fault", p.prices.huge_fault},
                    {"costly_fault", p.prices.costly_fault},
                    {"unmap_page", p.prices.unmap_page},
                    {"zero_page", p.prices.zero_page},
                    {"malloc_pair", p.prices.malloc_pair},
                    {"timed_call", p.prices.timed_call}};
  const malloc_time& time = p.malloc_time;
  meta["malloc_time"] = {{"clock_part", time.clock_part},
                         {"factor", time.factor},
                         {"clock_error", time.clock_error},
                         {"systematic_error", time.systematic_error},
                         {"ns", time.ns},
                         {"samples", time.samples},
                         {"in_malloc", time.in_malloc},
                         {"in_recorder", time.in_recorder},
                         {"clock_ns", time.clock_ns}};
  meta["recorder_ns"] = p.recorder_ns;
  meta["other_faults"] = p.other_faults;
  meta["unseen_faults"] = p.unseen_faults;
  meta["lost_events"] = p.lost_events;
  meta["unwind_checked"] = p.unwind_checked;
  meta["unwind_wrong"] = p.unwind_error_rate * p.unwind_checked;
  return meta;
}

namespace {

// Paths and arguments may contain any bytes; invalid UTF-8 is replaced.
std::string text_of(const nlohmann::json& meta) {
  return meta.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Adds the column of process indices, if there are several processes.
template <typename Value>
void add_process_column(table& rows, const profile& p, Value value) {
  if (!p.processes.empty()) add_column<integers>(rows, "process", 0, value);
}

void store_modules(table_writer& out, const profile& p, std::size_t first) {
  if (first == p.modules.size()) return;
  table rows = new_table("modules", p.modules.size() - first, false);
  add_column<texts>(rows, "path", first, [&](std::size_t row) { return p.modules[row].path; });
  add_column<texts>(rows, "build_id", first, [&](std::size_t row) { return p.modules[row].build_id; });
  add_column<integers>(rows, "start", first, [&](std::size_t row) { return p.modules[row].start; });
  add_column<integers>(rows, "end", first, [&](std::size_t row) { return p.modules[row].end; });
  add_column<integers>(rows, "file_offset", first,
                       [&](std::size_t row) { return p.modules[row].file_offset; });
  out.append(rows);
}

void store_stacks(table_writer& out, const profile& p, std::size_t first) {
  if (first >= p.stacks.size()) return;
  table rows = new_table("stacks", p.stacks.size() - first, false);
  add_column<integers>(rows, "parent", first, [&](std::size_t row) { return p.stacks[row].parent; });
  add_column<integers>(rows, "address", first, [&](std::size_t row) { return p.stacks[row].address; });
  out.append(rows);
}

void store_threads(table_writer& out, const profile& p) {
  table rows = new_table("threads", p.threads.size(), true);
  add_column<integers>(rows, "id", 0, [&](std::size_t row) { return p.threads[row].id; });
  add_column<texts>(rows, "name", 0, [&](std::size_t row) { return p.threads[row].name; });
  add_column<integers>(rows, "start_ns", 0, [&](std::size_t row) { return p.threads[row].start_ns; });
  add_column<integers>(rows, "end_ns", 0, [&](std::size_t row) { return p.threads[row].end_ns; });
  add_process_column(rows, p, [&](std::size_t row) { return p.threads[row].process; });
  out.append(rows);
}

void store_counters(table_writer& out, const profile& p, std::size_t first) {
  if (first == p.counters.size()) return;
  table rows = new_table("counters", p.counters.size() - first, first == 0);
  add_column<integers>(rows, "time_ns", first, [&](std::size_t row) { return p.counters[row].time_ns; });
  for (const counter_column& each : counter_columns) {
    add_column<reals>(rows, each.name, first, [&](std::size_t row) { return p.counters[row].*each.member; });
  }
  out.append(rows);
}

void store_memory(table_writer& out, const memory_history& memory) {
  if (memory.rows.empty()) return;
  table rows = new_table("memory", memory.rows.size(), true);
  add_column<integers>(rows, "time_ns", 0, [&](std::size_t row) { return memory.rows[row].time_ns; });
  for (const memory_column& each : memory_columns) {
    add_column<reals>(rows, each.name, 0, [&](std::size_t row) { return memory.rows[row].*each.member; });
  }
  out.append(rows);
  rows = new_table("memory_parts", memory.parts.size(), true);
  add_column<integers>(rows, "time_ns", 0, [&](std::size_t row) { return memory.parts[row].time_ns; });
  add_column<texts>(rows, "kind", 0, [&](std::size_t row) { return memory.parts[row].kind; });
  add_column<texts>(rows, "name", 0, [&](std::size_t row) { return memory.parts[row].name; });
  add_column<integers>(rows, "site", 0, [&](std::size_t row) { return memory.parts[row].site; });
  add_column<reals>(rows, "bytes", 0, [&](std::size_t row) { return memory.parts[row].bytes; });
  add_column<reals>(rows, "variance", 0, [&](std::size_t row) { return memory.parts[row].variance; });
  out.append(rows);
}

void store_processes(table_writer& out, const profile& p) {
  if (p.processes.empty()) return;
  table rows = new_table("processes", p.processes.size(), true);
  add_column<texts>(rows, "json", 0, [&](std::size_t row) { return text_of(p.processes[row].meta); });
  out.append(rows);
  std::vector<std::pair<std::size_t, const counter_row*>> all;
  for (std::size_t index = 0; index < p.processes.size(); ++index) {
    for (const counter_row& row : p.processes[index].counters) all.emplace_back(index, &row);
  }
  rows = new_table("process_counters", all.size(), true);
  add_process_column(rows, p, [&](std::size_t row) { return all[row].first; });
  add_column<integers>(rows, "time_ns", 0, [&](std::size_t row) { return all[row].second->time_ns; });
  for (const counter_column& each : counter_columns) {
    add_column<reals>(rows, each.name, 0, [&](std::size_t row) { return all[row].second->*each.member; });
  }
  out.append(rows);
}

}  // namespace

const char* mode_name(profile_mode mode) {
  switch (mode) {
    case profile_mode::full:
      return "full";
    case profile_mode::faults:
      return "faults";
    case profile_mode::sample:
      break;
  }
  return "sample";
}

void store_symbols(table_writer& out, const profile& p) {
  table rows;
  rows.name = "symbols";
  rows.replaces = true;
  integers addresses, depths, lines, inlined;
  texts functions, files;
  for (const auto& [address, frames] : p.symbols) {
    for (std::size_t depth = 0; depth < frames.size(); ++depth) {
      addresses.push_back(address);
      depths.push_back(depth);
      functions.push_back(frames[depth].function);
      files.push_back(frames[depth].file);
      lines.push_back(frames[depth].line);
      inlined.push_back(frames[depth].inlined ? 1 : 0);
    }
  }
  rows.rows = addresses.size();
  rows.columns.push_back({"address", std::move(addresses)});
  rows.columns.push_back({"depth", std::move(depths)});
  rows.columns.push_back({"function", std::move(functions)});
  rows.columns.push_back({"file", std::move(files)});
  rows.columns.push_back({"line", std::move(lines)});
  rows.columns.push_back({"inlined", std::move(inlined)});
  out.append(rows);
}

namespace {

void store_all(table_writer& out, const profile& p, packed_sites& sites, stored_rows& already) {
  // Tables that others refer to come first: so a file that is cut off anywhere has no dangling references.
  store_modules(out, p, already.modules);
  store_stacks(out, p, already.stacks);
  store_threads(out, p);
  sites.write(out);
  store_counters(out, p, already.counters);
  store_memory(out, p.memory);
  store_processes(out, p);
  out.append_json("meta", text_of(stored_meta(p)));
  if (!p.symbols.empty()) store_symbols(out, p);
  already.modules = p.modules.size();
  already.stacks = std::max<std::size_t>(1, p.stacks.size());
  already.counters = p.counters.size();
}

}  // namespace

void store_profile(table_writer& out, const profile& p, stored_rows& already) {
  packed_sites sites(!p.processes.empty());
  sites.add(p.sites);
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
