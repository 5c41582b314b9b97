// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "profiler/format/chunk.hpp"

namespace tarn::profiler {

namespace {

const column* find_column(const table& where, std::string_view name) {
  const auto found = std::find_if(where.columns.begin(), where.columns.end(),
                                  [name](const column& each) { return each.name == name; });
  return found == where.columns.end() ? nullptr : &*found;
}

template <class Values>
const Values& values_of(const table& where, std::string_view name, const char* kind) {
  const column* found = find_column(where, name);
  const Values* values = found == nullptr ? nullptr : std::get_if<Values>(&found->values);
  if (values == nullptr) {
    throw profile_error("the profile's table '" + where.name + "' has no column '" + std::string(name) +
                        "' of " + kind +
                        "; it may be of another version of tarn: make a new one with tarn profile");
  }
  return *values;
}

}  // namespace

const integers& table::whole(std::string_view column_name) const {
  return values_of<integers>(*this, column_name, "whole numbers");
}

const reals& table::real(std::string_view column_name) const {
  return values_of<reals>(*this, column_name, "reals");
}

const texts& table::text(std::string_view column_name) const {
  return values_of<texts>(*this, column_name, "texts");
}

reals table::take_real(std::string_view column_name) {
  const reals& values = real(column_name);
  for (column& each : columns) {
    auto* found = std::get_if<reals>(&each.values);
    if (found == &values) return std::move(*found);
  }
  return {};
}

bool table::has(std::string_view column_name) const noexcept {
  return find_column(*this, column_name) != nullptr;
}

std::size_t memory_of(const table& contents) {
  std::size_t bytes = 0;
  for (const column& each : contents.columns) {
    bytes += contents.rows * number_bytes;
    if (const auto* values = std::get_if<texts>(&each.values)) {
      for (const std::string& value : *values) bytes += text_bytes - number_bytes + value.size();
    }
  }
  return bytes;
}

table empty_like(const table& rows) {
  table empty{.name = rows.name, .replaces = rows.replaces};
  for (const column& each : rows.columns) {
    std::visit(
        [&](const auto& values) {
          empty.columns.push_back({each.name, std::decay_t<decltype(values)>()});
        },
        each.values);
  }
  return empty;
}

bool have_same_columns(const table& first, const table& second) {
  return std::equal(first.columns.begin(), first.columns.end(), second.columns.begin(), second.columns.end(),
                    [](const column& one, const column& other) {
                      return one.name == other.name && one.values.index() == other.values.index();
                    });
}

bool add_rows(table& whole, table&& more) {
  if (whole.name != more.name || !have_same_columns(whole, more)) return false;
  for (std::size_t index = 0; index < whole.columns.size(); ++index) {
    column& into = whole.columns[index];
    column& from = more.columns[index];
    std::visit(
        [&from](auto& values) {
          auto& added = std::get<std::decay_t<decltype(values)>>(from.values);
          values.insert(values.end(), std::make_move_iterator(added.begin()),
                        std::make_move_iterator(added.end()));
        },
        into.values);
  }
  whole.rows += more.rows;
  return true;
}

}  // namespace tarn::profiler
