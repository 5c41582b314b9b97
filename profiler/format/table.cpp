// SPDX-License-Identifier: MIT
#include <algorithm>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

const column* find_column(const table& where, std::string_view name) {
  const auto found = std::find_if(where.columns.begin(), where.columns.end(),
                                  [name](const column& each) { return each.name == name; });
  return found == where.columns.end() ? nullptr : &*found;
}

template <typename Values>
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

bool table::has(std::string_view column_name) const noexcept {
  return find_column(*this, column_name) != nullptr;
}

}  // namespace tarn::profiler
