// SPDX-License-Identifier: MIT
#include "profiler/replay/sampled_events.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace tarn::profiler {

namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t none = 0xffffffff;

struct time_span {
  double begin = 0;
  double end = 0;
  double at(double part) const { return begin + part * (end - begin); }
};

// One sampled block.
struct sampled_life {
  event_row begin;
  event_row end;  // time `never`: the block lives to the end
  std::uint64_t touched_pages = 0;
  std::uint32_t grown_from = none;  // the life of the block that realloc enlarged to this one
  bool moved = false;               // realloc has replaced it by another block
  double stands_for = 1;
  time_span begins;
  time_span ends;
};

bool allocates(const event_row& row) { return row.kind <= event_new || row.kind == event_realloc; }

class expander {
 public:
  expander(double sample_bytes, std::uint64_t always, std::size_t most_events)
      : sample_bytes_(sample_bytes), always_(always), most_events_(most_events) {}

  std::vector<event_row> run(const std::vector<event_row>& rows) {
    if (rows.empty()) return {};
    first_ = static_cast<double>(rows.front().time);
    last_ = static_cast<double>(rows.back().time);
    for (const event_row& row : rows) read(row);
    spread(lives_in_order(false), false);
    spread(lives_in_order(true), true);
    choose_part();
    for (std::uint32_t index = 0; index < lives_.size(); ++index) emit(index);
    std::stable_sort(made_.begin(), made_.end(),
                     [](const event_row& a, const event_row& b) { return a.time < b.time; });
    return std::move(made_);
  }

 private:
  // ---- what the rows say ----

  void read(const event_row& row) {
    if (allocates(row)) return begin_life(row);
    const auto found = living_.find(row.block);
    if (found == living_.end()) return;
    sampled_life& one = lives_[found->second];
    if (row.kind == event_touch) one.touched_pages += row.extra;
    if (row.kind != event_free && row.kind != event_delete) return;
    one.end = row;
    living_.erase(found);
  }

  void begin_life(const event_row& row) {
    sampled_life one;
    one.begin = row;
    one.end.time = never;
    one.stands_for = weight_of(row.size);
    const auto old = row.kind == event_realloc ? living_.find(row.extra) : living_.end();
    if (row.kind == event_realloc) {
      one.begin.kind = event_malloc;
      one.begin.extra = 0;
    }
    if (old != living_.end()) {
      sampled_life& before = lives_[old->second];
      before.end = row;
      before.end.kind = event_free;
      if (before.stands_for <= 1 && one.stands_for <= 1) {
        before.moved = true;
        one.grown_from = old->second;
      }
      living_.erase(old);
    }
    living_[row.block] = static_cast<std::uint32_t>(lives_.size());
    lives_.push_back(one);
  }

  double weight_of(std::uint64_t size) const {
    if (size >= always_ || size == 0 || sample_bytes_ <= 0) return 1;
    return 1 / -std::expm1(-static_cast<double>(size) / sample_bytes_);
  }

  // ---- where copies lie in time ----

  using life_group = std::vector<std::uint32_t>;

  // The lives of each thread and call path, sorted by the time of their beginning or their end.
  std::map<std::pair<std::uint32_t, std::uint32_t>, life_group> lives_in_order(bool of_ends) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, life_group> groups;
    for (std::uint32_t index = 0; index < lives_.size(); ++index) {
      const sampled_life& one = lives_[index];
      if (one.stands_for <= 1 || (of_ends && one.end.time == never)) continue;
      groups[{one.begin.thread, one.begin.stack}].push_back(index);
    }
    if (!of_ends) return groups;  // lives are in the order of their beginnings
    for (auto& [key, group] : groups) {
      std::stable_sort(group.begin(), group.end(), [this](std::uint32_t a, std::uint32_t b) {
        return lives_[a].end.time < lives_[b].end.time;
      });
    }
    return groups;
  }

  void spread(const std::map<std::pair<std::uint32_t, std::uint32_t>, life_group>& groups, bool of_ends) {
    const auto time_of = [&](std::uint32_t index) {
      return static_cast<double>(of_ends ? lives_[index].end.time : lives_[index].begin.time);
    };
    for (const auto& [key, group] : groups) {
      for (std::size_t at = 0; at < group.size(); ++at) {
        const double time = time_of(group[at]);
        const double before = at > 0 ? (time - time_of(group[at - 1])) / 2 : -1;
        const double after = at + 1 < group.size() ? (time_of(group[at + 1]) - time) / 2 : -1;
        time_span& where = of_ends ? lives_[group[at]].ends : lives_[group[at]].begins;
        // The first and the last sample get the same distance outwards as to their only neighbour.
        where.begin = std::max(first_, time - (before >= 0 ? before : std::max(0.0, after)));
        where.end = std::min(last_, time + (after >= 0 ? after : std::max(0.0, before)));
      }
    }
  }

  // ---- which part of the run ----

  static double events_of(const sampled_life& one) {
    return one.end.time == never ? one.stands_for : 2 * one.stands_for;
  }

  void choose_part() {
    double all = 0;
    for (const sampled_life& one : lives_) all += events_of(one);
    part_begin_ = 0;
    part_end_ = never;
    const auto most = static_cast<double>(most_events_);
    if (all <= most) return;
    // Half of the events are for blocks that are alive when the part begins.
    double before = (all - most / 2) / 2;
    std::size_t index = 0;
    for (; index < lives_.size() && before > 0; ++index) before -= events_of(lives_[index]);
    if (index == lives_.size()) --index;
    part_begin_ = lives_[index].begin.time;
    double room = most / 2;
    for (; index < lives_.size() && room > 0; ++index) room -= events_of(lives_[index]);
    if (index < lives_.size()) part_end_ = lives_[index].begin.time;
    double living = 0;
    for (const sampled_life& one : lives_) {
      if (lives_before(one)) living += events_of(one);
    }
    if (living > most / 2) thinned_ = most / 2 / living;
  }

  bool lives_before(const sampled_life& one) const {
    return one.begin.time < part_begin_ && one.end.time != never ? one.end.time >= part_begin_
                                                                 : one.begin.time < part_begin_;
  }

  // ---- events ----

  void put(event_row row, double time, std::uint64_t block) {
    row.time = static_cast<std::uint64_t>(std::max(0.0, time));
    row.block = block;
    made_.push_back(row);
  }

  bool is_in_part(const sampled_life& one) const {
    return one.begin.time >= part_begin_ && one.begin.time < part_end_;
  }

  void emit(std::uint32_t index) {
    const sampled_life& one = lives_[index];
    const bool prefilled = lives_before(one);
    if (!prefilled && !is_in_part(one)) return;
    if (one.stands_for <= 1) return emit_itself(index, prefilled);
    rest_ += prefilled ? one.stands_for * thinned_ : one.stands_for;
    const double room = static_cast<double>(most_events_) - static_cast<double>(made_.size());
    const double copies = std::min(std::floor(rest_), std::max(0.0, room));
    rest_ -= std::floor(rest_);
    for (double copy = 0; copy < copies; ++copy) emit_copy(one, (copy + 0.5) / copies, prefilled);
  }

  void emit_itself(std::uint32_t index, bool prefilled) {
    const sampled_life& one = lives_[index];
    const std::uint64_t number = ++last_number_;
    number_of_[index] = number;
    event_row begin = one.begin;
    const auto old = one.grown_from != none ? number_of_.find(one.grown_from) : number_of_.end();
    if (!prefilled && old != number_of_.end()) {
      begin.kind = event_realloc;
      begin.extra = old->second;
    }
    put(begin, static_cast<double>(prefilled ? part_begin_ : one.begin.time), number);
    if (one.touched_pages > 0) {
      event_row touch = begin;
      touch.kind = event_touch;
      touch.extra = one.touched_pages;
      put(touch, static_cast<double>(std::max(begin.time, part_begin_)), number);
    }
    if (one.end.time <= part_end_ && one.end.time != never && !one.moved)
      put(one.end, static_cast<double>(one.end.time), number);
  }

  void emit_copy(const sampled_life& one, double part, bool prefilled) {
    const std::uint64_t number = ++last_number_;
    const auto earliest = static_cast<double>(part_begin_);
    const double begin = prefilled ? earliest : std::max(earliest, one.begins.at(part));
    put(one.begin, begin, number);
    if (one.end.time == never || one.end.time > part_end_) return;
    const auto age = static_cast<double>(one.end.time - one.begin.time);
    const bool is_short = age < one.begins.end - one.begins.begin;
    const double end = is_short && !prefilled ? begin + age : one.ends.at(part);
    put(one.end, std::max(begin, end), number);
  }

  double sample_bytes_;
  std::uint64_t always_;
  std::size_t most_events_;
  double first_ = 0;
  double last_ = 0;
  double rest_ = 0;     // of copies, below one
  double thinned_ = 1;  // the part of what lives before that there is room for
  std::uint64_t part_begin_ = 0;
  std::uint64_t part_end_ = never;
  std::uint64_t last_number_ = 0;
  std::vector<sampled_life> lives_;
  std::unordered_map<std::uint64_t, std::uint32_t> living_;     // by the recording's block
  std::unordered_map<std::uint32_t, std::uint64_t> number_of_;  // of lives that stand for themselves
  std::vector<event_row> made_;
};

}  // namespace

std::vector<event_row> expand_samples(const std::vector<event_row>& rows, double sample_bytes,
                                      std::uint64_t always, std::size_t most_events) {
  return expander(sample_bytes, always, most_events).run(rows);
}

}  // namespace tarn::profiler
