// SPDX-License-Identifier: MIT
#include "cli/show/text_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace tarn::cli {

namespace {

constexpr std::string_view gap = "  ";

}  // namespace

text_table::text_table(std::vector<std::string> headings, std::vector<std::size_t> left)
    : widths_(headings.size()), is_left_(headings.size()), stays_(headings.size(), true) {
  for (const std::size_t column : left) is_left_[column] = true;
  std::vector<table_cell> cells;
  for (std::string& each : headings) cells.push_back({std::move(each), style::bold});
  add(std::move(cells));
}

void text_table::add(std::vector<table_cell> cells) {
  for (std::size_t column = 0; column < cells.size(); ++column)
    widths_[column] = std::max(widths_[column], display_width(cells[column].text));
  rows_.push_back(std::move(cells));
}

void text_table::add(const std::vector<std::string>& cells) {
  std::vector<table_cell> plain;
  for (const std::string& each : cells) plain.push_back({each});
  add(std::move(plain));
}

std::size_t text_table::fit(std::size_t room, std::vector<std::size_t> by_priority) {
  if (room == 0) return 0;
  if (by_priority.empty()) {
    by_priority.resize(widths_.size());
    std::iota(by_priority.begin(), by_priority.end(), std::size_t{0});
  }
  stays_.assign(widths_.size(), false);
  for (const std::size_t column : by_priority) {
    if (width() > 0 && width() + widths_[column] + gap.size() > room) break;
    stays_[column] = true;
  }
  return room > width() ? room - width() : 1;
}

std::string text_table::without_room() const {
  std::vector<std::string> names;
  for (std::size_t column = 0; column < widths_.size(); ++column) {
    if (!stays_[column]) names.push_back(rows_[0][column].text);
  }
  return names.empty() ? "" : "no room for " + join(names, ", ");
}

std::size_t text_table::shown() const {
  return static_cast<std::size_t>(std::count(stays_.begin(), stays_.end(), true));
}

std::size_t text_table::width() const {
  std::size_t sum = 0;
  for (std::size_t column = 0; column < widths_.size(); ++column)
    sum += stays_[column] ? widths_[column] + gap.size() : 0;
  return sum;
}

std::string text_table::line(const std::vector<table_cell>& cells, bool colour,
                             std::string_view follows) const {
  std::string text;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    if (!stays_[column]) continue;
    const auto pad = is_left_[column] ? pad_right : pad_left;
    text += paint(pad(cells[column].text, widths_[column]), cells[column].how, colour);
    text += gap;
  }
  text += follows;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string text_table::heading(bool colour, std::string_view follows) const {
  return line(rows_[0], colour, paint(follows, style::bold, colour && !follows.empty()));
}

std::string text_table::row(std::size_t index, bool colour, std::string_view follows) const {
  return line(rows_[index + 1], colour, follows);
}

std::string text_table::text(bool colour) const {
  std::string lines = heading(colour) + "\n";
  for (std::size_t index = 0; index < rows(); ++index) lines += row(index, colour) + "\n";
  return lines;
}

std::size_t room_beside(std::size_t used) {
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  return terminal == 0 ? 0 : std::max<std::size_t>(terminal, used + 30) - used;
}

}  // namespace tarn::cli
