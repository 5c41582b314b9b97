// SPDX-License-Identifier: MIT
// Writes a profile as a database of SQLite (docs/reference/sqlite.md has its tables): names instead of addresses, every
// figure of every site, and no single events.
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "profiler/analyze/site_label.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/export/sqlite_library.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/figure_columns.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

#ifndef TARN_HAS_SQLITE

void export_sqlite(const profile& /*p*/, const std::function<void(std::string_view)>& /*take*/) {
  throw profile_error("this tarn was built without SQLite; build it where libsqlite3-dev is installed");
}

#else

namespace {

// Numbers and texts as they are, anything else as JSON.
void put_json(sqlite_table& table, const nlohmann::json& value) {
  if (value.is_number_integer()) {
    table.put(value.get<std::int64_t>());
  } else if (value.is_number()) {
    table.put(value.get<double>());
  } else {
    table.put(value.is_string() ? value.get<std::string>() : json_text(value));
  }
}

void store_info(sqlite_database& database, const profile& p) {
  sqlite_table table(database, "info", "name TEXT PRIMARY KEY, value");
  nlohmann::json all = p.meta.is_object() ? p.meta : nlohmann::json::object();
  all["other_faults"] = p.other_faults;
  all["unseen_faults"] = p.unseen_faults;
  all["lost_events"] = p.lost_events;
  all["unwind_error_rate"] = p.unwind_error_rate;
  all["damage"] = p.damage;
  for (const auto& [name, value] : all.items()) {
    table.put(name);
    put_json(table, value);
    table.end_row();
  }
}

void store_metrics(sqlite_database& database, const profile& p) {
  sqlite_table table(database, "metrics", "name TEXT PRIMARY KEY, meaning TEXT, total REAL, margin REAL");
  for (const metric& each : metrics())
    table.add(each.name, each.meaning, sum_of(p, each), margin_of_sum(p, each));
}

void store_who(sqlite_database& database, const profile& p) {
  sqlite_table modules(database, "modules", "path TEXT, build_id TEXT");
  for (const module_info& each : p.modules) modules.add(each.path, each.build_id);
  sqlite_table processes(database, "processes", "id INTEGER PRIMARY KEY, meta TEXT");
  for (std::size_t index = 0; index < p.processes.size(); ++index)
    processes.add(index, json_text(p.processes[index].meta));
  sqlite_table threads(database, "threads",
                       "id INTEGER PRIMARY KEY, thread INTEGER, name TEXT, start_ns INTEGER, end_ns INTEGER, "
                       "process INTEGER");
  for (std::size_t index = 0; index < p.threads.size(); ++index) {
    const thread_info& each = p.threads[index];
    threads.add(index, each.id, each.name, each.start_ns, each.end_ns, each.process);
  }
}

void store_paths(sqlite_database& database, const profile& p) {
  sqlite_table stacks(database, "stacks", "id INTEGER PRIMARY KEY, parent INTEGER, address INTEGER");
  sqlite_table frames(database, "frames",
                      "address INTEGER, position INTEGER, function TEXT, file TEXT, line INTEGER");
  std::set<std::uint64_t> known;
  for (std::uint32_t stack = 1; stack < p.stacks.size(); ++stack) {
    const stack_node& node = p.stacks[stack];
    stacks.add(stack, node.parent, node.address);
    if (!known.insert(node.address).second) continue;
    int position = 0;
    for (const source_frame& frame : frames_of(p, stack, 1))
      frames.add(node.address, position++, frame.function, frame.file, frame.line);
  }
  database.run("CREATE INDEX frames_by_address ON frames (address, position)");
}

// The figures that are no metric under the same name.
std::vector<figure_column> other_figures() {
  std::vector<figure_column> figures;
  for (const figure_column& each : figure_columns) {
    if (find_metric(each.name) == nullptr) figures.push_back(each);
  }
  return figures;
}

void store_sites(sqlite_database& database, const profile& p) {
  std::string columns =
      "id INTEGER PRIMARY KEY, stack INTEGER, process INTEGER, type TEXT, type_evidence TEXT, function TEXT, "
      "file TEXT, line INTEGER";
  for (const metric& each : metrics()) columns += ", " + std::string(each.name) + " REAL";
  for (const metric& each : metrics()) columns += ", " + std::string(each.name) + "_margin REAL";
  const std::vector<figure_column> figures = other_figures();
  for (const figure_column& each : figures) columns += std::string(", ") + each.name + " REAL";
  sqlite_table table(database, "sites", columns);
  const std::vector<metric_row> rows = metric_rows(p);
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const metric_row& row = rows[index];
    const std::vector<source_frame> path = row.frames(p);
    const source_frame own = label_of(path);
    const site none;
    const site& who = row.who != nullptr ? *row.who : none;
    table.put(index + 1);
    table.put(who.stack != 0 ? std::optional(who.stack) : std::nullopt);
    table.put(who.process);
    table.put(who.type);
    table.put(evidence_names[static_cast<std::size_t>(who.evidence)]);
    table.put(own.function);
    table.put(own.file);
    table.put(own.line);
    const site_figures sums = row.figures(p);
    for (const metric& each : metrics()) table.put(each.of(p, sums));
    for (const metric& each : metrics()) table.put(each.variance != nullptr ? margin_of(p, each, sums) : 0.0);
    for (const figure_column& each : figures) table.put(sums.*each.member);
    table.end_row();
  }
}

void store_details(sqlite_database& database, const profile& p) {
  sqlite_table sizes(database, "sizes", "site INTEGER, size INTEGER, count REAL, exact INTEGER");
  sqlite_table lifetimes(database, "lifetimes",
                         "site INTEGER, log2_ns INTEGER, log2_bytes INTEGER, count REAL, bytes REAL");
  sqlite_table handovers(database, "handovers",
                         "site INTEGER, from_thread INTEGER, to_thread INTEGER, count REAL, bytes REAL");
  for (std::size_t index = 0; index < p.sites.size(); ++index) {
    const site& one = p.sites[index];
    for (const size_count& each : one.sizes) sizes.add(index + 1, each.size, each.count, each.exact);
    for (const lifetime_count& each : one.lifetimes)
      lifetimes.add(index + 1, each.lifetime, each.size, each.count, each.bytes);
    for (const thread_pair& each : one.threads)
      handovers.add(index + 1, each.from, each.to, each.count, each.bytes);
  }
}

template <class Row, class Columns>
void store_rows(sqlite_database& database, const char* name, const std::vector<Row>& rows,
                const Columns& all) {
  std::string columns = "time_ns INTEGER";
  for (const auto& each : all) columns += std::string(", ") + each.name + " REAL";
  sqlite_table table(database, name, columns);
  for (const Row& row : rows) {
    table.put(row.time_ns);
    for (const auto& each : all) table.put(row.*each.member);
    table.end_row();
  }
}

void store_times(sqlite_database& database, const profile& p) {
  store_rows(database, "counters", p.counters, counter_columns);
  store_rows(database, "memory", p.memory.rows, memory_columns);
  sqlite_table parts(database, "memory_parts",
                     "time_ns INTEGER, kind TEXT, name TEXT, site INTEGER, bytes REAL, margin REAL");
  for (const memory_part& each : p.memory.parts) {
    parts.add(each.time_ns, each.kind, each.name, each.site != 0 ? std::optional(each.site) : std::nullopt,
              each.bytes, margin_of(each.variance));
  }
}

}  // namespace

void export_sqlite(const profile& p, const std::function<void(std::string_view)>& take) {
  sqlite_database database;
  database.run("PRAGMA user_version = 1; BEGIN");
  store_info(database, p);
  store_metrics(database, p);
  store_who(database, p);
  store_paths(database, p);
  store_sites(database, p);
  store_details(database, p);
  store_times(database, p);
  database.run("COMMIT");
  database.write(take);
}

#endif

}  // namespace tarn::profiler
