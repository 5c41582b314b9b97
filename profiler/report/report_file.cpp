// SPDX-License-Identifier: MIT
#include "profiler/report/report_file.hpp"

#include <algorithm>

#include "profiler/report/report_page.hpp"

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

std::string escape_title(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        escaped += "&lt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      default:
        escaped += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
  }
  return escaped;
}

// As it was called, or else as the file is called.
std::string program_of(const nlohmann::json& meta) {
  if (!meta.is_object()) return {};
  const auto words = meta.find("arguments");
  if (words != meta.end() && words->is_array() && !words->empty() && words->front().is_string()) {
    return words->front().get<std::string>();
  }
  const auto program = meta.find("program");
  return program != meta.end() && program->is_string() ? program->get<std::string>() : std::string();
}

std::string title_of(const profile& p) {
  std::string program = program_of(p.meta);
  if (program.empty()) program = "a program";
  // Through JSON, which puts right what is no UTF-8.
  const nlohmann::json safe = program.substr(program.find_last_of('/') + 1);
  const std::string quoted = safe.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return escape_title(nlohmann::json::parse(quoted).get<std::string>()) + " – tarn report";
}

std::string data_text(const nlohmann::json& data) {
  return escape_script(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

report_file render_report(const profile& p, const std::vector<advice>& actions, std::size_t most_bytes,
                          report_limits limits) {
  nlohmann::json data = report_data(p, actions, limits);
  std::string text = data_text(data);
  while (text.size() > most_bytes && limits.sites.most > fewest_sites) {
    limits.sites.most = std::max(fewest_sites, std::min(limits.sites.most, p.sites.size()) / 2);
    limits.most_detailed = limits.sites.most / 4;
    limits.most_places = limits.sites.most / 4;
    data = report_data(p, actions, limits);
    text = data_text(data);
  }
  report_file made;
  made.all_sites = p.sites.size();
  const auto& kinds = data["sites"]["kind"];
  made.named_sites = static_cast<std::size_t>(std::count(kinds.begin(), kinds.end(), 0));
  const std::string_view page = report_page();
  const std::size_t title = page.find(title_mark);
  const std::size_t place = page.find(data_mark);
  made.html.reserve(page.size() + text.size() + 256);
  made.html.append(page.substr(0, title)).append(title_of(p));
  made.html.append(page.substr(title + title_mark.size(), place - title - title_mark.size()));
  made.html.append(text).append(page.substr(place + data_mark.size()));
  return made;
}

bool begins_like_report(std::string_view text) { return text.starts_with(first_line); }

}  // namespace tarn::profiler
