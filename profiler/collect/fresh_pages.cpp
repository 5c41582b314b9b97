// SPDX-License-Identifier: MIT
#include "profiler/collect/fresh_pages.hpp"

#include <algorithm>

namespace tarn::profiler {

void fresh_pages::given(std::uint64_t address, std::uint64_t time_ns, double weight) {
  constexpr double newest_part = 1.0 / 16;
  const std::uint64_t page = address / page_bytes;
  const auto before = gifts_.find(page - 1);
  if (before != gifts_.end() && before->second.time_ns < time_ns) {
    const auto took = static_cast<double>(time_ns - before->second.time_ns);
    // A page that waited very long, for example between two phases of the program, must not distort the average.
    const double counted = usual_ns_ > 0 && took > patience * usual_ns_ ? patience * usual_ns_ : took;
    usual_ns_ = usual_ns_ > 0 ? usual_ns_ + newest_part * (counted - usual_ns_) : counted;
  }
  const auto pages = static_cast<std::uint64_t>(std::clamp(weight, 1.0, most_ahead));
  for (std::uint64_t ahead = 0; ahead < pages; ++ahead) {
    if (gifts_.size() < most_pages || gifts_.contains(page + ahead)) gifts_[page + ahead] = {time_ns, false};
  }
}

bool fresh_pages::is_fresh(std::uint64_t page_address, std::uint64_t time_ns) const {
  const std::uint64_t page = page_address / page_bytes;
  const auto found = gifts_.find(page);
  if (found == gifts_.end() || found->second.is_used_up) return false;
  const gift& mine = found->second;
  const auto successor = gifts_.find(page + 1);
  if (successor != gifts_.end() && successor->second.time_ns > mine.time_ns &&
      successor->second.time_ns < time_ns) {
    return false;
  }
  const double age = time_ns > mine.time_ns ? static_cast<double>(time_ns - mine.time_ns) : 0;
  return usual_ns_ <= 0 || age <= patience * usual_ns_;
}

void fresh_pages::use_up(std::uint64_t page_address) {
  const auto found = gifts_.find(page_address / page_bytes);
  if (found != gifts_.end()) found->second.is_used_up = true;
}

}  // namespace tarn::profiler
