// SPDX-License-Identifier: MIT
#include "cli/agent/answer_budget.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include "cli/show/json_output.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_text_bytes = 400;  // where texts must be cut
constexpr std::size_t most_how_bytes = 600;
// For the member that says what was left out: its rows have few bytes each, and there are at most so many.
constexpr std::size_t bytes_of_left_out = 2000;
constexpr std::size_t most_cuts = 12;

std::size_t bytes_of(const nlohmann::json& value) { return json_text(value).size(); }

// Calls `take` with each value, and with its place, outer ones first.
void visit(nlohmann::json& value, const std::string& place,
           const std::function<void(nlohmann::json& value, const std::string& place)>& take) {
  take(value, place);
  if (!value.is_structured()) return;
  for (auto each = value.begin(); each != value.end(); ++each) {
    const std::string name = value.is_object() ? each.key() : std::to_string(each - value.begin());
    visit(*each, place + "/" + name, take);
  }
}

// Digits beyond what is known cost tokens.
void round_numbers(nlohmann::json& answer) {
  visit(answer, "", [](nlohmann::json& value, const std::string&) {
    if (!value.is_number_float()) return;
    const double number = value.get<double>();
    if (number == std::round(number) && std::abs(number) < 1e5) {
      value = static_cast<std::int64_t>(number);
    } else {
      value = std::strtod(fmt::format("{:.5g}", number).c_str(), nullptr);
      if (std::abs(number) >= 1e5 && std::abs(number) < 9e18)
        value = static_cast<std::int64_t>(value.get<double>());
    }
  });
}

std::string cut_text(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  return profiler::cut_at_character(std::move(text), bytes) + "…";
}

struct cutting {
  nlohmann::json answer;
  nlohmann::json cuts = nlohmann::json::array();

  bool fits() const { return bytes_of(answer) <= most_answer_bytes - bytes_of_left_out; }

  void note(nlohmann::json cut) {
    if (cuts.size() < most_cuts) cuts.push_back(std::move(cut));
  }

  // No array keeps more than `most` elements, its first ones.
  void shorten_arrays(std::size_t most) {
    visit(answer, "", [this, most](nlohmann::json& value, const std::string& place) {
      if (!value.is_array() || value.size() <= most) return;
      note({{"where", cut_text(place, 100)}, {"shown", most}, {"of", value.size()}});
      value.erase(value.begin() + static_cast<std::ptrdiff_t>(most), value.end());
    });
  }

  void shorten_texts() {
    visit(answer, "", [this](nlohmann::json& value, const std::string& place) {
      if (!value.is_string() || value.get_ref<const std::string&>().size() <= most_text_bytes) return;
      const std::size_t all = value.get_ref<const std::string&>().size();
      value = cut_text(value.get<std::string>(), most_text_bytes);
      note({{"where", cut_text(place, 100)}, {"shown_bytes", most_text_bytes}, {"of", all}});
    });
  }

  void remove_largest_member() {
    auto largest = answer.begin();
    for (auto each = answer.begin(); each != answer.end(); ++each) {
      if (bytes_of(*each) > bytes_of(*largest)) largest = each;
    }
    note({{"where", "/" + cut_text(largest.key(), 100)}, {"shown", 0}});
    answer.erase(largest);
  }
};

// With the longest arrays that fit, all of one length at most, so that neither a tree's first path nor the first row's details take
// the room of all others.
cutting with_short_arrays(const nlohmann::json& answer) {
  cutting best{answer};
  best.shorten_arrays(1);
  std::size_t fitting = 1;
  for (std::size_t beyond = most_answer_bytes; fitting + 1 < beyond;) {
    const std::size_t middle = fitting + (beyond - fitting) / 2;
    cutting tried{answer};
    tried.shorten_arrays(middle);
    if (tried.fits()) {
      fitting = middle;
      best = std::move(tried);
    } else {
      beyond = middle;
    }
  }
  return best;
}

}  // namespace

std::string fitting_text(nlohmann::json answer, const std::string& how) {
  round_numbers(answer);
  if (bytes_of(answer) <= most_answer_bytes) return json_text(answer);
  cutting cut = with_short_arrays(answer);
  if (!cut.fits()) cut.shorten_texts();
  while (!cut.fits() && !cut.answer.empty()) cut.remove_largest_member();
  cut.answer["left_out"] = {{"what", cut.cuts}, {"how", cut_text(how, most_how_bytes)}};
  return json_text(cut.answer);
}

}  // namespace tarn::cli
