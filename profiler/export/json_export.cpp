// SPDX-License-Identifier: MIT
// Writes a profile as JSON, site by site: a site's call path is composed of texts that are made once per return
// address, so memory does not grow with the number of call paths.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/table_rows.hpp"

namespace tarn::profiler {

namespace {

std::string text_of(const nlohmann::json& value) { return escape_json(json_text(value)); }

// Everything of a site except its frames.
nlohmann::json site_json(const profile& p, const site& one) {
  nlohmann::json lifetimes = nlohmann::json::array();
  for (const lifetime_count& each : one.lifetimes) {
    lifetimes.push_back({{"log2_ns", each.lifetime},
                         {"log2_bytes", each.size},
                         {"count", each.count},
                         {"bytes", each.bytes}});
  }
  nlohmann::json margins = nlohmann::json::object();
  for (const metric& each : metrics()) {
    if (each.variance != nullptr) margins[std::string(each.name)] = margin_of(p, each, one.figures);
  }
  const cost price = cost_of(p, one.figures);
  return {{"type", one.type},
          {"type_evidence", evidence_names[static_cast<std::size_t>(one.evidence)]},
          {"cost_ns",
           {{"malloc", price.malloc_ns},
            {"fault", price.fault_ns},
            {"unmap", price.unmap_ns},
            {"total", price.total()}}},
          {"figures", as_json(one.figures)},
          {"margins", margins},
          {"sizes", as_json(one.sizes)},
          {"lifetimes", lifetimes},
          {"threads", as_json(one.threads)}};
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
      at->second += text_of(as_json(frame));
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
  nlohmann::json modules = nlohmann::json::array();
  for (const module_info& each : p.modules)
    modules.push_back({{"path", each.path}, {"build_id", each.build_id}});
  return {{"format", "tarn-profile"},
          {"version", 1},
          {"meta", p.meta},
          {"prices_ns", as_json(p.prices)},
          {"totals", totals},
          {"margins", margins},
          {"other_faults", p.other_faults},
          {"unseen_faults", p.unseen_faults},
          {"lost_events", p.lost_events},
          {"unwind_error_rate", p.unwind_error_rate},
          {"damage", p.damage},
          {"threads", as_json(p.threads)},
          {"modules", modules},
          {"counters", as_json(p.counters)},
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
  out.flush();
}

}  // namespace tarn::profiler
