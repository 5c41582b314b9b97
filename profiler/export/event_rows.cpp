// SPDX-License-Identifier: MIT
#include "profiler/export/event_rows.hpp"

#include <algorithm>
#include <limits>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t most_size = std::uint64_t{1} << 46;

class event_reader {
 public:
  event_reader(const std::string& path, std::size_t most) : path_(path), most_(most) {}

  event_rows read() {
    const read_outcome outcome = read_tables(
        path_, [this](table&& rows) { take(rows); }, [](std::string_view name) { return name == "events"; });
    found_.damage = outcome.damage;
    const auto earlier = [](const event_row& a, const event_row& b) { return a.time < b.time; };
    if (!std::is_sorted(found_.rows.begin(), found_.rows.end(), earlier)) {
      std::stable_sort(found_.rows.begin(), found_.rows.end(), earlier);
    }
    return std::move(found_);
  }

 private:
  void take(const table& rows) {
    const integers& time = rows.whole("time_ns");
    const integers& thread = rows.whole("thread");
    const integers& kind = rows.whole("kind");
    const integers& block = rows.whole("block");
    const integers& size = rows.whole("size");
    const integers& stack = rows.whole("stack");
    const integers& extra = rows.whole("extra");
    for (std::size_t row = 0; row < rows.rows; ++row, ++row_) {
      if (found_.rows.size() == most_) {
        found_.cut = true;
        return;
      }
      if (thread[row] > std::numeric_limits<std::uint32_t>::max() || kind[row] > 255 ||
          size[row] > most_size) {
        throw profile_error(path_ + ": row " + std::to_string(row_) +
                            " of its events makes no sense; record the program again: tarn profile");
      }
      found_.rows.push_back({time[row], block[row], size[row], extra[row],
                             static_cast<std::uint32_t>(thread[row]), static_cast<std::uint32_t>(stack[row]),
                             static_cast<std::uint8_t>(kind[row])});
    }
  }

  const std::string& path_;
  std::size_t most_;
  std::size_t row_ = 0;
  event_rows found_;
};

}  // namespace

event_rows read_events(const std::string& path, std::size_t most) { return event_reader(path, most).read(); }

}  // namespace tarn::profiler
