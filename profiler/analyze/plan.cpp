// SPDX-License-Identifier: MIT
#include "profiler/analyze/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "profiler/format/chunk.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

// A site outside of the plan may share the frames of a site in the plan if it allocates less than this share of its
// blocks.
constexpr double negligible = 0.02;

bool can_be_placed(advice_kind kind) {
  return kind == advice_kind::typed_pool || kind == advice_kind::object_pool ||
         kind == advice_kind::buffer_pool;
}

std::vector<std::uint64_t> addresses_of(const profile& p, std::uint32_t stack) {
  std::vector<std::uint64_t> addresses;
  while (stack != 0 && stack < p.stacks.size() && addresses.size() < most_plan_frames) {
    addresses.push_back(p.stacks[stack].address);
    if (p.stacks[stack].parent >= stack) break;
    stack = p.stacks[stack].parent;
  }
  return addresses;
}

class plan_maker {
 public:
  explicit plan_maker(const profile& p) : p_(p) {
    for (const site& one : p.sites) paths_.push_back(addresses_of(p, one.stack));
  }

  void add(plan& into, const advice& one, bool alone) {
    const std::vector<bool> meant = flags_of(one.sites);
    std::vector<plan_site> added;
    for (const std::uint32_t index : one.sites) {
      plan_site next;
      next.use = one.kind == advice_kind::buffer_pool ? plan_use::buffers : plan_use::pool;
      next.size = next.use == plan_use::pool ? size_of(one) : 0;
      next.group = group_;
      next.type = one.type;
      next.place = one.place;
      if (!set_frames(next, index, meant) || is_there(added, next)) continue;
      added.push_back(std::move(next));
      if (into.sites.size() + added.size() >= most_plan_sites) break;
    }
    if (added.empty()) return;
    ++group_;
    into.sites.insert(into.sites.end(), added.begin(), added.end());
    into.on_tarn = true;
    if (alone || one.instead_of < 0) note(into, one);
  }

  static void note(plan& into, const advice& one) { into.headlines.push_back(one.headline); }

 private:
  std::vector<bool> flags_of(const std::vector<std::uint32_t>& sites) const {
    std::vector<bool> flags(p_.sites.size(), false);
    for (const std::uint32_t site : sites) flags[site] = true;
    return flags;
  }

  std::uint64_t size_of(const advice& one) const {
    std::map<std::uint64_t, double> counts;
    for (const std::uint32_t site : one.sites) {
      for (const size_count& each : p_.sites[site].sizes) {
        if (each.exact) counts[each.size] += each.count;
      }
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most != counts.end() ? most->first : 0;
  }

  // Whether the first `depth` frames of site `index` also match a site outside of the plan.
  bool is_ambiguous(std::uint32_t index, std::size_t depth, const std::vector<bool>& meant) const {
    const std::vector<std::uint64_t>& path = paths_[index];
    double others = 0;
    for (std::size_t other = 0; other < paths_.size(); ++other) {
      if (meant[other] || paths_[other].size() < depth) continue;
      if (std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth),
                     paths_[other].begin())) {
        others += p_.sites[other].figures.allocations;
      }
    }
    return others > negligible * p_.sites[index].figures.allocations;
  }

  bool set_frames(plan_site& site, std::uint32_t index, const std::vector<bool>& meant) const {
    const std::vector<std::uint64_t>& path = paths_[index];
    std::size_t depth = 1;
    while (depth < path.size() && is_ambiguous(index, depth, meant)) ++depth;
    if (path.empty()) return false;
    for (std::size_t frame = 0; frame < depth; ++frame) {
      const module_info* const module = module_at(p_, path[frame] - 1);
      if (module == nullptr) return false;
      site.frames.push_back(
          {module->path, module->build_id, path[frame] - module->start + module->file_offset});
    }
    return site.use == plan_use::buffers || site.size != 0;
  }

  static bool is_there(const std::vector<plan_site>& sites, const plan_site& one) {
    return std::any_of(sites.begin(), sites.end(), [&one](const plan_site& other) {
      return std::equal(other.frames.begin(), other.frames.end(), one.frames.begin(), one.frames.end(),
                        [](const plan_frame& a, const plan_frame& b) {
                          return a.module == b.module && a.offset == b.offset;
                        });
    });
  }

  const profile& p_;
  std::vector<std::vector<std::uint64_t>> paths_;
  std::uint32_t group_ = 0;
};

const std::string_view profile_start(reinterpret_cast<const char*>(file_magic.data()), file_magic.size());

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  // Never by the name of this file: it may be another file of the user's, which would be overwritten.
  throw profile_error(name + ": " + problem + "; write a new plan: tarn advise FILE --plan plan.json");
}

bool is_hexadecimal(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

plan_frame read_frame(const nlohmann::json& json, const std::string& name) {
  plan_frame frame;
  frame.module = json.at("module").get<std::string>();
  frame.build_id = json.value("build_id", std::string());
  const std::string offset = json.at("offset").get<std::string>();
  char* end = nullptr;
  frame.offset = std::strtoull(offset.c_str(), &end, 16);
  if (end == offset.c_str() || *end != 0) refuse(name, "'" + offset + "' is not an offset");
  if (!is_hexadecimal(frame.build_id) || frame.build_id.size() > 128) {
    refuse(name, "'" + frame.build_id + "' is not a build-id");
  }
  return frame;
}

plan_site read_site(const nlohmann::json& json, const std::string& name) {
  plan_site site;
  const std::string use = json.at("use").get<std::string>();
  if (use != "pool" && use != "buffers")
    refuse(name, "a site's use is 'pool' or 'buffers', not '" + use + "'");
  site.use = use == "pool" ? plan_use::pool : plan_use::buffers;
  site.size = json.value("size", std::uint64_t{0});
  site.group = json.value("group", std::uint32_t{0});
  site.type = printable(json.value("type", std::string()));
  site.place = printable(json.value("place", std::string()));
  for (const nlohmann::json& frame : json.at("frames")) site.frames.push_back(read_frame(frame, name));
  if (site.use == plan_use::pool && (site.size == 0 || site.size > 65536)) {
    refuse(name, "a pool's size is from 1 to 65536 bytes, not " + std::to_string(site.size));
  }
  if (site.frames.empty() || site.frames.size() > most_plan_frames) {
    refuse(name, "a site has 1 to " + std::to_string(most_plan_frames) + " frames");
  }
  return site;
}

plan read_object(const nlohmann::json& json, const std::string& name) {
  if (!json.is_object() || !json.contains("tarn_plan")) refuse(name, "it is not a plan");
  if (json.at("tarn_plan") != plan_version) refuse(name, "it is a plan of another version");
  plan result;
  result.program = json.value("program", std::string());
  const std::string malloc_name = json.value("malloc", std::string());
  result.on_tarn = malloc_name == "tarn";
  if (!result.on_tarn) result.library = malloc_name;
  const nlohmann::json variables = json.value("variables", nlohmann::json::object());
  for (const auto& [key, value] : variables.items()) {
    if (key.empty() || key.find('=') != std::string::npos)
      refuse(name, "'" + key + "' is not the name of a variable");
    result.variables.push_back({key, value.get<std::string>()});
  }
  const nlohmann::json sites = json.value("sites", nlohmann::json::array());
  if (!sites.empty() && !result.library.empty())
    refuse(name, "pools need tarn's malloc, not '" + malloc_name + "'");
  if (sites.size() > most_plan_sites) {
    refuse(name, "it has more than " + std::to_string(most_plan_sites) + " sites");
  }
  for (const nlohmann::json& site : sites) result.sites.push_back(read_site(site, name));
  for (const std::string& headline : json.value("advice", std::vector<std::string>())) {
    result.headlines.push_back(printable(headline));
  }
  return result;
}

}  // namespace

plan plan_of(const profile& p, const std::vector<advice>& all, int number) {
  plan result;
  if (p.meta.is_object()) result.program = p.meta.value("program", std::string());
  plan_maker maker(p);
  for (std::size_t index = 0; index < all.size(); ++index) {
    const advice& one = all[index];
    const bool chosen =
        number < 0 ? one.grade != advice_grade::refuted && (one.instead_of < 0 || can_be_placed(one.kind))
                   : static_cast<int>(index) == number;
    if (!chosen || !result.library.empty()) continue;
    if (can_be_placed(one.kind) && (number >= 0 || result.variables.empty())) {
      maker.add(result, one, number >= 0);
    } else if (one.kind == advice_kind::allocator && result.variables.empty() && !result.on_tarn) {
      result.on_tarn = one.library.empty();
      result.library = one.library;
      result.variables = one.variables;
      plan_maker::note(result, one);
    } else if (!one.variables.empty() && result.variables.empty() && !result.on_tarn) {
      result.variables = one.variables;
      result.library = one.library;
      plan_maker::note(result, one);
    }
  }
  return result;
}

std::string write_plan(const plan& what) {
  nlohmann::ordered_json json;
  json["tarn_plan"] = plan_version;
  json["program"] = what.program;
  json["advice"] = what.headlines;
  json["variables"] = nlohmann::ordered_json::object();
  for (const environment_variable& each : what.variables) json["variables"][each.name] = each.value;
  json["malloc"] = what.on_tarn ? "tarn" : what.library;
  json["sites"] = nlohmann::ordered_json::array();
  for (const plan_site& site : what.sites) {
    nlohmann::ordered_json one;
    one["use"] = site.use == plan_use::pool ? "pool" : "buffers";
    if (site.use == plan_use::pool) one["size"] = site.size;
    one["group"] = site.group;
    one["type"] = site.type;
    one["place"] = site.place;
    one["frames"] = nlohmann::ordered_json::array();
    for (const plan_frame& frame : site.frames) {
      one["frames"].push_back(
          {{"module", frame.module}, {"build_id", frame.build_id}, {"offset", hexadecimal(frame.offset)}});
    }
    json["sites"].push_back(std::move(one));
  }
  return escape_json(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

plan read_plan(const std::string& text, const std::string& name) {
  if (std::string_view(text).starts_with(profile_start)) {
    throw profile_error(name + ": it is a profile, not a plan; write its plan: tarn advise " + name +
                        " --plan plan.json");
  }
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse(name, "it is not JSON");
  try {
    return read_object(json, name);
  } catch (const nlohmann::json::exception& error) {
    refuse(name, std::string("it is not a plan (") + error.what() + ")");
  }
}

}  // namespace tarn::profiler
