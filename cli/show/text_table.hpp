// SPDX-License-Identifier: MIT
// text_table: aligned columns of text, as many of them as a line has room for. For one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/show/text.hpp"

namespace tarn::cli {

struct table_cell {
  std::string text;
  style how = style::plain;
};

class text_table {
 public:
  // `left`: the columns that are aligned to the left; the others are to the right.
  explicit text_table(std::vector<std::string> headings, std::vector<std::size_t> left = {});

  void add(std::vector<table_cell> cells);
  void add(const std::vector<std::string>& cells);  // plain

  // Keeps as many of the columns `by_priority` (empty: in their order), the first of them in any case, as fit into `room`
  // columns of characters; 0: all. Returns the room that is left for what follows; 0: any.
  std::size_t fit(std::size_t room, std::vector<std::size_t> by_priority = {});
  // "no room for CPU time, faults"; empty: there is room for all.
  std::string without_room() const;

  std::size_t shown() const;  // the number of columns that stay
  std::size_t width() const;  // of the columns that stay, with the gap behind each
  std::size_t rows() const { return rows_.size() - 1; }
  // Without a line end, and without blanks at the end; with the gap if more text follows.
  std::string heading(bool colour, std::string_view follows = {}) const;
  std::string row(std::size_t index, bool colour, std::string_view follows = {}) const;
  std::string text(bool colour) const;  // the heading and all rows as lines

 private:
  std::string line(const std::vector<table_cell>& cells, bool colour, std::string_view follows) const;

  std::vector<std::vector<table_cell>> rows_;  // the heading first
  std::vector<std::size_t> widths_;
  std::vector<bool> is_left_;
  std::vector<bool> stays_;
};

// The columns that are left on the terminal of standard output beside `used` ones, 30 at least; 0: it is no terminal.
std::size_t room_beside(std::size_t used);

}  // namespace tarn::cli
