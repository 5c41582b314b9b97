// SPDX-License-Identifier: MIT
#include "profiler/model/load_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "profiler/model/sane_figures.hpp"

namespace tarn::profiler {

std::vector<memory_row> read_memory_rows(table& rows) {
  const auto& time = rows.whole("time_ns");
  std::vector<memory_row> read(rows.rows);
  for (std::size_t row = 0; row < rows.rows; ++row) read[row].time_ns = time[row];
  for (const memory_column& each : memory_columns) {
    const reals values = take_figures(rows, each.name);
    for (std::size_t row = 0; row < rows.rows; ++row) read[row].*each.member = values[row];
  }
  return read;
}

std::vector<memory_part> read_memory_parts(table& rows) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const auto& time = rows.whole("time_ns");
  const auto& kind = rows.text("kind");
  const auto& name = rows.text("name");
  const auto& site = rows.whole("site");
  const reals bytes = take_figures(rows, "bytes");
  const reals variance = take_figures(rows, "variance", variance_of);
  std::vector<memory_part> read;
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const auto at = static_cast<std::uint32_t>(std::min(site[row], most));
    read.push_back({time[row], kind[row], name[row], at, bytes[row], variance[row]});
  }
  return read;
}

std::size_t place_memory_parts(std::vector<memory_part>& parts, const std::vector<bool>& stays) {
  std::vector<std::uint32_t> rows(stays.size() + 1);
  std::uint32_t kept = 0;
  for (std::size_t index = 0; index < stays.size(); ++index) {
    if (stays[index]) rows[index + 1] = ++kept;
  }
  std::size_t bad = 0;
  for (memory_part& part : parts) {
    if (part.site == 0) continue;
    part.site = part.site < rows.size() ? rows[part.site] : 0;
    if (part.site == 0) ++bad;
  }
  return bad;
}

}  // namespace tarn::profiler
