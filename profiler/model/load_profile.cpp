// SPDX-License-Identifier: MIT
// load_profile: loads a profile from its file. What is inconsistent (a damaged file, or one written by a faulty
// program) is left out and described in `damage`; only a file that is no profile at all is an error.
#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "profiler/format/chunk.hpp"
#include "profiler/format/core_file.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/box_profile.hpp"
#include "profiler/model/core_profile.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/merge.hpp"
#include "profiler/model/pprof_profile.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/table_rows.hpp"

namespace tarn::profiler {

namespace {

// Of a site that was left out.
constexpr std::uint32_t no_stack = std::numeric_limits<std::uint32_t>::max();
// Limit for the memory of all tables and of what is made from their rows, so that a malicious file cannot exhaust
// memory. No real profile comes near it.
constexpr std::size_t most_profile_bytes = std::size_t{1} << 30;
// Memory of a process's JSON object, besides its text.
constexpr std::size_t most_process_bytes = 4096;

// Appends the table's rows.
template <class Row>
void append_rows(table& rows, std::vector<Row>& into) {
  const std::size_t first = into.size();
  into.resize(first + rows.rows);
  read_columns<Row>(rows, [&](std::size_t row) -> auto& { return into[first + row]; });
}

// Renumbers the sites of the parts after sites with stays[site] == false were removed. Returns the number of parts
// whose site was removed; they keep their bytes.
std::size_t place_memory_parts(std::vector<memory_part>& parts, const std::vector<bool>& stays) {
  std::vector<std::uint32_t> rows(stays.size() + 1);
  std::uint32_t kept = 0;
  for (std::size_t index = 0; index < stays.size(); ++index) {
    if (stays[index]) rows[index + 1] = ++kept;
  }
  std::size_t bad = 0;
  for (memory_part& part : parts) {
    if (part.site == 0) continue;
    part.site = part.site < rows.size() ? rows[part.site] : 0;
    if (part.site == 0) ++bad;
  }
  return bad;
}

class loader {
 public:
  explicit loader(const std::string& path) : path_(path) { p_.stacks.emplace_back(); }

  profile run(bool joined, profile_detail detail) {
    const read_outcome outcome = read_tables(
        path_, [this](table&& rows) { take(std::move(rows)); },
        [detail](std::string_view name) {
          return name != "events" && (detail == profile_detail::all || !name.starts_with("site_"));
        },
        {"sites", [this](table_part&& part) { take_sites(std::move(part)); }});
    // Of a recording that goes on, or was killed, the last checkpoint may be there in part.
    const bool is_torn = outcome.ends_early && flag_in(p_.meta, "unfinished");
    if (!outcome.damage.empty() && !is_torn)
      remark(outcome.damage_words() + "; what comes before it is shown");
    if (!has_meta_) {
      throw profile_error(
          "the profile " + path_ + " holds nothing that can be shown" +
          (outcome.damage.empty() ? std::string() : " (" + outcome.damage + ")") +
          ": the profiler was stopped too early, or the file is damaged; record the program again: tarn "
          "profile -- PROGRAM");
    }
    drop_what_does_not_fit();
    if (joined && !p_.processes.empty()) join_sites(p_);
    fit_costs(p_);
    make_printable(p_);
    return std::move(p_);
  }

 private:
  struct taker {
    void (loader::*take)(table&);
    // Memory made from one row; texts count once, as those of the table are released.
    std::size_t row_bytes;
  };

  void remark(const std::string& what) {
    if (!p_.damage.empty()) p_.damage += "; ";
    p_.damage += what;
  }

  void take(table&& rows) {
    static const std::map<std::string_view, taker> takers = {
        {"meta", {&loader::take_meta, 0}},
        {"modules", {&loader::take_modules, sizeof(module_info)}},
        {"stacks", {&loader::take_stacks, sizeof(stack_node)}},
        {"threads", {&loader::take_threads, sizeof(thread_info)}},
        {"site_sizes", {&loader::take_sizes, 2 * sizeof(size_count)}},
        {"site_lifetimes", {&loader::take_lifetimes, 2 * sizeof(lifetime_count)}},
        {"site_threads", {&loader::take_pairs, 2 * sizeof(thread_pair)}},
        {"counters", {&loader::take_counters, sizeof(counter_row)}},
        {"memory", {&loader::take_memory, sizeof(memory_row)}},
        {"memory_parts", {&loader::take_memory_parts, sizeof(memory_part)}},
        {"processes", {&loader::take_processes, most_process_bytes}},
        {"process_counters", {&loader::take_process_counters, 2 * sizeof(counter_row)}},
        {"proof", {&loader::take_proof, 0}},
        {"symbols", {&loader::take_symbols, 2 * sizeof(source_frame)}}};
    const auto found = takers.find(rows.name);
    const std::size_t bytes =
        memory_of(rows) + (found == takers.end() ? 0 : found->second.row_bytes) * rows.rows;
    count_bytes(bytes);
    if (found != takers.end()) (this->*found->second.take)(rows);
    // A checkpoint's memory is released when the next one has replaced it.
    if (rows.replaces) bytes_ -= std::exchange(replaced_bytes_[rows.name], bytes);
  }

  void count_bytes(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > most_profile_bytes) {
      throw profile_error(
          "the profile " + path_ +
          " holds more than any profiler writes, so it was not made by tarn; make one: tarn profile -- "
          "PROGRAM");
    }
  }

  void take_meta(table& rows) {
    if (rows.rows == 0) return;
    std::string problem;
    nlohmann::json meta = read_meta(rows.text("json").back(), problem);
    if (!problem.empty()) remark(problem);
    if (!meta.is_object()) return;
    has_meta_ = true;
    set_meta(p_, std::move(meta));
  }

  void take_processes(table& rows) {
    if (rows.replaces) p_.processes.clear();
    for (const std::string& text : rows.text("json")) {
      std::string problem;
      nlohmann::json meta = read_meta(text, problem);
      if (!problem.empty()) remark(problem);
      if (!meta.is_object()) meta = nlohmann::json::object();
      p_.processes.push_back({std::move(meta), {}});
    }
  }

  void take_process_counters(table& rows) {
    const auto& process = rows.whole("process");
    std::vector<counter_row> all;
    append_rows(rows, all);
    process_counters_.clear();
    for (std::size_t row = 0; row < rows.rows; ++row) process_counters_.emplace_back(process[row], all[row]);
  }

  void take_proof(table& rows) {
    if (rows.rows == 0) return;
    std::string problem;
    p_.proven = read_proof(read_json_object(rows.text("json").back(), "proof", problem));
    if (!problem.empty()) remark(problem);
  }

  void take_modules(table& rows) {
    if (rows.replaces) p_.modules.clear();
    append_rows(rows, p_.modules);
  }

  void take_stacks(table& rows) {
    const auto& parent = rows.whole("parent");
    const auto& address = rows.whole("address");
    if (rows.replaces) p_.stacks.resize(1);
    p_.stacks.reserve(p_.stacks.size() + rows.rows);
    for (std::size_t row = 0; row < rows.rows; ++row) {
      const bool fits = parent[row] < p_.stacks.size();
      if (!fits) ++bad_stacks_;
      p_.stacks.push_back({fits ? static_cast<std::uint32_t>(parent[row]) : 0, address[row]});
    }
  }

  void take_threads(table& rows) {
    const integers process = processes_in(rows);
    if (rows.replaces) p_.threads.clear();
    const std::size_t first = p_.threads.size();
    append_rows(rows, p_.threads);
    for (std::size_t row = 0; row < rows.rows; ++row)
      p_.threads[first + row].process = static_cast<std::uint32_t>(process[row]);
  }

  // There may be many sites: their table comes in parts, each of which is released before the next one comes.
  void take_sites(table_part&& part) {
    if (part.begins) begin_sites(part.all_rows);
    const std::size_t bytes = memory_of(part.rows) + sizeof(site) * part.rows.rows;
    count_bytes(bytes);
    coming_.bytes += bytes;
    add_sites(part.rows);
    if (!part.ends) return;
    sites_ = std::exchange(coming_.sites, {});
    site_stacks_ = std::exchange(coming_.stacks, {});
    bytes_ -= std::exchange(replaced_bytes_["sites"], std::exchange(coming_.bytes, 0));
  }

  void begin_sites(std::size_t count) {
    bytes_ -= coming_.bytes;
    coming_.bytes = 0;
    coming_.sites.clear();
    coming_.sites.reserve(count);
    coming_.stacks.clear();
    coming_.stacks.reserve(count);
  }

  void add_sites(table& rows) {
    const auto& stack = rows.whole("stack");
    const auto& type = rows.text("type");
    const auto& evidence = rows.whole("evidence");
    const integers process = processes_in(rows);
    std::vector<site>& sites = coming_.sites;
    const std::size_t first = sites.size();
    sites.resize(first + rows.rows);
    coming_.stacks.insert(coming_.stacks.end(), stack.begin(), stack.end());
    for (std::size_t row = 0; row < rows.rows; ++row) {
      site& one = sites[first + row];
      one.type = type[row];
      one.process = static_cast<std::uint32_t>(process[row]);
      if (evidence[row] <= static_cast<std::uint64_t>(type_evidence::vtable))
        one.evidence = static_cast<type_evidence>(evidence[row]);
    }
    const bool has_live_variance = rows.has("live_bytes_variance");
    read_columns<site_figures>(rows, [&](std::size_t row) -> auto& { return sites[first + row].figures; });
    if (has_live_variance) return;
    for (std::size_t row = first; row < sites.size(); ++row) {
      site_figures& of = sites[row].figures;
      if (of.bytes > 0) of.live_bytes_variance = of.bytes_variance * std::min(1.0, of.live_bytes / of.bytes);
    }
  }

  // 0 if the profile is of one process.
  static integers processes_in(const table& rows) {
    integers values = rows.has("process") ? rows.whole("process") : integers(rows.rows);
    for (std::uint64_t& value : values) {
      value = std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max());
    }
    return values;
  }

  // Rows of sites that may not be known yet.
  template <class Item>
  static void take_items(table& rows, std::deque<std::pair<std::uint64_t, Item>>& items) {
    const auto& at = rows.whole("site");
    items.clear();
    for (const std::uint64_t site : at) items.emplace_back(site, Item());
    read_columns<Item>(rows, [&](std::size_t row) -> auto& { return items[row].second; });
  }

  void take_sizes(table& rows) { take_items(rows, sizes_); }
  void take_lifetimes(table& rows) { take_items(rows, lifetimes_); }
  void take_pairs(table& rows) { take_items(rows, pairs_); }

  void take_counters(table& rows) {
    if (rows.replaces) p_.counters.clear();
    append_rows(rows, p_.counters);
  }

  void take_memory(table& rows) {
    if (rows.replaces) p_.memory.rows.clear();
    append_rows(rows, p_.memory.rows);
  }

  void take_memory_parts(table& rows) {
    p_.memory.parts.clear();
    append_rows(rows, p_.memory.parts);
  }

  void take_symbols(table& rows) {
    const auto& address = rows.whole("address");
    std::vector<source_frame> frames;
    append_rows(rows, frames);
    p_.symbols.clear();
    // Rows of one address were written in the order of depth.
    for (std::size_t row = 0; row < rows.rows; ++row)
      p_.symbols[address[row]].push_back(std::move(frames[row]));
  }

  // Moves each item to its site. `fits` tells whether the item is valid there.
  template <class Item, class Fits>
  void hand_out(std::deque<std::pair<std::uint64_t, Item>>& items, std::vector<Item> site::*list, Fits fits) {
    std::vector<std::uint32_t> counts(sites_.size());
    for (const auto& [at, item] : items) {
      if (at < counts.size()) ++counts[at];
    }
    // Each item is released once it has its place, and a site's list is allocated when its first item comes: there
    // may be many sites.
    for (; !items.empty(); items.pop_front()) {
      const auto& [at, item] = items.front();
      if (at >= sites_.size() || !fits(item)) {
        ++bad_rows_;
        continue;
      }
      std::vector<Item>& of_site = sites_[at].*list;
      if (of_site.empty()) of_site.reserve(counts[at]);
      of_site.push_back(item);
    }
  }

  // Threads with an invalid process are kept, as other tables refer to their index.
  void place_in_processes() {
    const std::size_t most = std::max<std::size_t>(1, p_.processes.size());
    for (thread_info& each : p_.threads) {
      if (each.process >= most) ++bad_rows_;
      if (each.process >= most) each.process = 0;
    }
    for (auto& [process, row] : process_counters_) {
      if (process < p_.processes.size()) {
        p_.processes[process].counters.push_back(row);
      } else {
        ++bad_rows_;
      }
    }
    for (std::size_t index = 0; index < sites_.size(); ++index) {
      if (sites_[index].process >= most) site_stacks_[index] = no_stack;
    }
  }

  void drop_what_does_not_fit() {
    place_in_processes();
    hand_out(sizes_, &site::sizes, [](const size_count&) { return true; });
    hand_out(lifetimes_, &site::lifetimes,
             [](const lifetime_count& one) { return one.lifetime <= 63 && one.size <= 63; });
    hand_out(pairs_, &site::threads, [this](const thread_pair& pair) {
      return pair.from < p_.threads.size() && pair.to < p_.threads.size();
    });
    for (std::size_t index = 0; index < sites_.size(); ++index) {
      const bool fits = site_stacks_[index] < p_.stacks.size();
      sites_[index].stack = fits ? static_cast<std::uint32_t>(site_stacks_[index]) : no_stack;
    }
    std::vector<bool> stays(sites_.size());
    for (std::size_t index = 0; index < sites_.size(); ++index)
      stays[index] = sites_[index].stack != no_stack;
    bad_rows_ += place_memory_parts(p_.memory.parts, stays);
    const std::size_t bad_sites =
        std::erase_if(sites_, [](const site& one) { return one.stack == no_stack; });
    p_.sites = std::move(sites_);
    if (bad_sites != 0)
      remark(std::to_string(bad_sites) + " sites refer to call paths or processes that are not there");
    if (bad_stacks_ != 0)
      remark(std::to_string(bad_stacks_) + " call paths refer to callers that are not there");
    if (bad_rows_ != 0)
      remark(std::to_string(bad_rows_) + " rows refer to sites or threads that are not there");
  }

  const std::string& path_;
  profile p_;
  bool has_meta_ = false;
  // Tables may come in any order: rows that refer to other tables are kept here until all tables are read.
  std::vector<site> sites_;
  integers site_stacks_;
  // Of a table of sites whose last part has not come yet.
  struct {
    std::vector<site> sites;
    integers stacks;
    std::size_t bytes = 0;
  } coming_;
  std::deque<std::pair<std::uint64_t, size_count>> sizes_;
  std::deque<std::pair<std::uint64_t, lifetime_count>> lifetimes_;
  std::deque<std::pair<std::uint64_t, thread_pair>> pairs_;
  std::vector<std::pair<std::uint64_t, counter_row>> process_counters_;
  std::size_t bad_stacks_ = 0;
  std::size_t bad_rows_ = 0;
  std::size_t bytes_ = 0;
  std::map<std::string, std::size_t, std::less<>> replaced_bytes_;
};

}  // namespace

namespace {

profile load(const std::string& path, bool joined, profile_detail detail) {
  if (is_pprof(path) || core_file::is_one(path)) {
    profile p = is_pprof(path) ? read_pprof(path) : profile_of_core(path);
    make_printable(p);
    return p;
  }
  if (!is_box(path)) return loader(path).run(joined, detail);
  std::string problem;
  const auto box = read_box(path, problem);
  if (!box) throw profile_error(problem);
  profile p = profile_of(*box);
  make_printable(p);
  return p;
}

}  // namespace

profile load_profile(const std::string& path, profile_detail detail) { return load(path, true, detail); }

profile load_parts(const std::string& path, profile_detail detail) { return load(path, false, detail); }

}  // namespace tarn::profiler
