// SPDX-License-Identifier: MIT
// Writes a profile as JSON, site by site: a site's call path is composed of texts that are made once per return
// address, so memory does not grow with the number of call paths.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "profiler/export/exports.hpp"
#include "profiler/export/piece_writer.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::profiler {

namespace {

std::string text_of(const nlohmann::json& value) {
  // Names may contain any bytes; invalid UTF-8 is replaced.
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* evidence_name(type_evidence evidence) {
  switch (evidence) {
    case type_evidence::allocator:
      return "allocator";
    case type_evidence::constructor:
      return "constructor";
    case type_evidence::vtable:
      return "vtable";
    case type_evidence::none:
      break;
  }
  return "none";
}

// Everything of a site except its frames.
nlohmann::json site_json(const profile& p, const site& one) {
  nlohmann::json figures;
  for (const figure_column& each : figure_columns) figures[each.name] = one.figures.*each.member;
  nlohmann::json sizes = nlohmann::json::array();
  for (const size_count& each : one.sizes) {
    sizes.push_back({{"size", each.size}, {"count", each.count}, {"exact", each.exact}});
  }
  nlohmann::json lifetimes = nlohmann::json::array();
  for (const lifetime_count& each : one.lifetimes) {
    lifetimes.push_back({{"log2_ns", each.lifetime},
                         {"log2_bytes", each.size},
                         {"count", each.count},
                         {"bytes", each.bytes}});
  }
  nlohmann::json threads = nlohmann::json::array();
  for (const thread_pair& each : one.threads) {
    threads.push_back({{"from", each.from}, {"to", each.to}, {"count", each.count}, {"bytes", each.bytes}});
  }
  nlohmann::json margins = nlohmann::json::object();
  for (const metric& each : metrics()) {
    if (each.variance != nullptr) margins[std::string(each.name)] = margin_of(p, each, one.figures);
  }
  const cost price = cost_of(p, one.figures);
  return {{"type", one.type},
          {"type_evidence", evidence_name(one.evidence)},
          {"cost_ns",
           {{"malloc", price.malloc_ns},
            {"fault", price.fault_ns},
            {"unmap", price.unmap_ns},
            {"total", price.total()}}},
          {"figures", figures},
          {"margins", margins},
          {"sizes", sizes},
          {"lifetimes", lifetimes},
          {"threads", threads}};
}

// The frames of one return address, as the members of an array; made once each.
class frame_texts {
 public:
  explicit frame_texts(const profile& p) : p_(p) {}

  // The frames of a call path, as an array.
  std::string of_path(std::uint32_t stack) {
    std::string text = "[";
    for (; stack != 0 && stack < p_.stacks.size(); stack = p_.stacks[stack].parent) {
      if (text.size() > 1) text += ',';
      text += of_address(stack);
    }
    return text + "]";
  }

 private:
  const std::string& of_address(std::uint32_t stack) {
    const auto [at, is_new] = known_.try_emplace(p_.stacks[stack].address);
    if (!is_new) return at->second;
    for (const source_frame& frame : frames_of(p_, stack, 1)) {
      if (!at->second.empty()) at->second += ',';
      at->second += text_of({{"function", frame.function},
                             {"file", frame.file},
                             {"line", frame.line},
                             {"inlined", frame.inlined}});
    }
    return at->second;
  }

  const profile& p_;
  std::map<std::uint64_t, std::string> known_;
};

// What resident memory consisted of; `site` of a part is a row of "sites".
nlohmann::json memory_json(const memory_history& memory) {
  nlohmann::json rows = nlohmann::json::array();
  for (const memory_row& row : memory.rows) {
    nlohmann::json one = {{"time_ns", row.time_ns}, {"live_margin", margin_of(row.live_variance)}};
    for (const memory_column& each : memory_columns) {
      if (each.member != &memory_row::live_variance) one[each.name] = row.*each.member;
    }
    rows.push_back(std::move(one));
  }
  nlohmann::json parts = nlohmann::json::array();
  for (const memory_part& part : memory.parts) {
    parts.push_back({{"time_ns", part.time_ns},
                     {"kind", part.kind},
                     {"name", part.name},
                     {"site", part.site == 0 ? nlohmann::json() : nlohmann::json(part.site - 1)},
                     {"bytes", part.bytes},
                     {"margin", margin_of(part.variance)}});
  }
  return {{"over_time", rows}, {"parts", parts}};
}

// Everything of the profile except its sites.
nlohmann::json head_json(const profile& p) {
  nlohmann::json totals;
  nlohmann::json margins;
  for (const metric& each : metrics()) {
    totals[std::string(each.name)] = sum_of(p, each);
    if (each.variance != nullptr) margins[std::string(each.name)] = margin_of_sum(p, each);
  }
  nlohmann::json threads = nlohmann::json::array();
  for (const thread_info& each : p.threads) {
    threads.push_back(
        {{"id", each.id}, {"name", each.name}, {"start_ns", each.start_ns}, {"end_ns", each.end_ns}});
  }
  nlohmann::json modules = nlohmann::json::array();
  for (const module_info& each : p.modules)
    modules.push_back({{"path", each.path}, {"build_id", each.build_id}});
  nlohmann::json counters = nlohmann::json::array();
  for (const counter_row& row : p.counters) {
    nlohmann::json one = {{"time_ns", row.time_ns}};
    for (const counter_column& each : counter_columns) one[each.name] = row.*each.member;
    counters.push_back(std::move(one));
  }
  return {{"format", "tarn-profile"},
          {"version", 1},
          {"meta", p.meta},
          {"prices_ns",
           {{"fault", p.prices.fault},
            {"huge_fault", p.prices.huge_fault},
            {"costly_fault", p.prices.costly_fault},
            {"unmap_page", p.prices.unmap_page},
            {"zero_page", p.prices.zero_page},
            {"malloc_pair", p.prices.malloc_pair},
            {"timed_call", p.prices.timed_call}}},
          {"totals", totals},
          {"margins", margins},
          {"other_faults", p.other_faults},
          {"unseen_faults", p.unseen_faults},
          {"lost_events", p.lost_events},
          {"unwind_error_rate", p.unwind_error_rate},
          {"damage", p.damage},
          {"threads", threads},
          {"modules", modules},
          {"counters", counters},
          {"memory", memory_json(p.memory)}};
}

}  // namespace

void export_json(const profile& p, const std::function<void(std::string_view)>& take) {
  piece_writer out(take);
  std::string head = text_of(head_json(p));
  head.pop_back();  // the object's end
  out.write(head);
  out.write(",\n\"sites\":[");
  frame_texts frames(p);
  bool first = true;
  for (const site& each : p.sites) {
    out.write(first ? "\n{\"frames\":" : ",\n{\"frames\":");
    out.write(frames.of_path(each.stack));
    const std::string rest = text_of(site_json(p, each));
    out.write(",");
    out.write(std::string_view(rest).substr(1));
    first = false;
  }
  out.write("]}\n");
  out.finish();
}

}  // namespace tarn::profiler
