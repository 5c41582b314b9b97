// SPDX-License-Identifier: MIT
#include "profiler/report/report_file.hpp"

#include <algorithm>

#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/merge.hpp"
#include "profiler/report/report_data.hpp"

namespace tarn::profiler {

namespace {

constexpr std::string_view title_mark = "@TITLE@";
constexpr std::string_view data_mark = "@DATA@";
constexpr std::string_view first_line = "<!DOCTYPE html><!-- tarn report -->";
constexpr std::size_t fewest_sites = 100;

// Inside <script type="application/json">: what could end the element, or begin a comment in it, cannot occur.
std::string escape_script(const std::string& text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 64);
  for (const char letter : text) {
    if (letter == '<') {
      escaped += "\\u003c";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// The program's name as it was called; otherwise the name of its file.
std::string program_of(const nlohmann::json& meta) {
  const nlohmann::json* words = member_in(meta, "arguments");
  if (words != nullptr && words->is_array() && !words->empty() && words->front().is_string())
    return words->front().get<std::string>();
  return text_in(meta, "program");
}

std::string title_of(const profile& p) {
  std::string program = program_of(p.meta);
  if (program.empty()) program = "a program";
  // Through JSON, which replaces invalid UTF-8.
  const nlohmann::json safe = program.substr(program.find_last_of('/') + 1);
  const std::string quoted = json_text(safe);
  return escape_markup(nlohmann::json::parse(quoted).get<std::string>()) + " – tarn report";
}

std::string data_text(const nlohmann::json& data) {
  std::string text = json_text(data);
  text =
      escape_json(std::move(text));  // by statements of their own: at most two of the three texts are alive
  return escape_script(text);
}

struct fitted_data {
  nlohmann::json data;
  std::string text;
};

// `parts`: how many such data share the page.
fitted_data fit_data(const profile& p, const std::vector<advice>& actions, const report_settings& settings,
                     std::size_t parts = 1) {
  report_limits limits;
  limits.most_source_bytes = settings.most_source_bytes / parts;
  const std::size_t most_bytes = settings.most_bytes / parts;
  const report_summary words = settings.summary ? settings.summary(p, actions) : report_summary();
  const auto describe = [&] {
    nlohmann::json made = report_data(p, actions, limits, settings.slices);
    made["summary"] = {{"problem", words.problem}, {"next", words.next}};
    if (!settings.changes.is_null()) made["difference"] = settings.changes;
    return made;
  };
  nlohmann::json data = describe();
  std::string text = data_text(data);
  while (text.size() > most_bytes && limits.sites.most > fewest_sites) {
    limits.sites.most = std::max(fewest_sites, std::min(limits.sites.most, p.sites.size()) / 2);
    limits.most_detailed = limits.sites.most / 4;
    limits.most_places = limits.sites.most / 4;
    data = nullptr;  // not held beside the next one
    std::string().swap(text);
    data = describe();
    text = data_text(data);
  }
  return {std::move(data), std::move(text)};
}

// `text`: the content of the data element. `others`: the elements after it, without the last one's end.
report_file make_file(const profile& p, const nlohmann::json& data, const std::string& text,
                      const std::string& others = {}) {
  report_file made;
  made.all_sites = p.sites.size();
  const auto& kinds = data["sites"]["kind"];
  made.named_sites = static_cast<std::size_t>(std::count(kinds.begin(), kinds.end(), 0));
  const std::string_view shell = report_page();
  const std::size_t title = shell.find(title_mark);
  const std::size_t place = shell.find(data_mark);
  made.html.reserve(shell.size() + text.size() + others.size() + 256);
  made.html.append(shell.substr(0, title)).append(title_of(p));
  made.html.append(shell.substr(title + title_mark.size(), place - title - title_mark.size()));
  made.html.append(text).append(others).append(shell.substr(place + data_mark.size()));
  return made;
}

std::string name_of(const nlohmann::json& meta) {
  if (!meta.is_object()) return "?";
  std::string name = meta.value("command", meta.value("program", std::string("?")));
  const double count = meta.value("processes", 1.0);
  if (count > 1) return name + " (" + std::to_string(static_cast<std::uint64_t>(count)) + " processes)";
  return name + " " + std::to_string(meta.value("pid", std::uint64_t{0}));
}

}  // namespace

report_file render_report(const profile& p, const std::vector<advice>& actions,
                          const report_settings& settings) {
  const fitted_data fitted = fit_data(p, actions, settings);
  return make_file(p, fitted.data, fitted.text);
}

report_file render_report_of_processes(profile parts, const report_settings& settings) {
  struct process_cost {
    std::size_t index = 0;
    double ns = 0;
  };
  std::vector<process_cost> order;
  for (const profile& each : figures_by_process(parts))
    order.push_back({order.size(), cost_of_all(each).total()});
  std::stable_sort(order.begin(), order.end(),
                   [](const process_cost& left, const process_cost& right) { return left.ns > right.ns; });
  const std::size_t shown = std::min(settings.most_processes, order.size());
  report_settings of_one = settings;
  of_one.changes = nullptr;
  std::string others;
  nlohmann::json names = nlohmann::json::array();
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const nlohmann::json& meta = parts.processes[order[rank].index].meta;
    names.push_back({{"name", name_of(meta)}, {"cost_ns", order[rank].ns}, {"has_data", rank < shown}});
    if (rank >= shown) continue;
    const borrowed_process borrowed(parts, order[rank].index);
    const profile& one = borrowed.get();
    others += "</script>\n<script type=\"application/json\" class=\"process\">";
    others += fit_data(one, advise(one), of_one, shown).text;
  }
  // Last, so that the joined sites can take the place of the processes' sites: each may be most of the memory.
  join_sites(parts);
  fitted_data fitted = fit_data(parts, advise(parts), settings);
  fitted.data["processes"] = std::move(names);
  return make_file(parts, fitted.data, data_text(fitted.data), others);
}

bool begins_like_report(std::string_view text) { return text.starts_with(first_line); }

}  // namespace tarn::profiler
