// SPDX-License-Identifier: MIT
#include "profiler/replay/trace.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "profiler/analyze/site_group.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/record/session.hpp"
#include "profiler/replay/event_rows.hpp"
#include "profiler/replay/sampled_events.hpp"
#include "profiler/replay/work_code.hpp"

namespace tarn::profiler {

namespace {

constexpr double most_work_part = 3;     // of the cost of allocation
constexpr std::uint64_t unnumbered = 0;  // a mapping, in files of older versions

[[noreturn]] void refuse(const std::string& path, const std::string& problem, const std::string& advice) {
  throw profile_error(path + ": " + problem + "; " + advice);
}

struct live_block {
  std::uint32_t place = 0;
  std::uint32_t lane = 0;
  std::uint32_t op = 0;  // of the lane: its allocation
  std::uint64_t size = 0;
  std::uint8_t route = 0;
  std::uint64_t mapped_bytes = 0;  // of a mapping: bytes that are not unmapped yet
  bool touched = false;            // a touch event has been met
  bool mapped = false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> touches;  // lane and operation
};

// Turns events into operations.
class compiler {
 public:
  compiler(const std::string& path, const profile& p, const trace_settings& settings, trace& out)
      : path_(path), p_(p), settings_(settings), out_(out) {
    for (std::size_t index = 0; index < p.sites.size(); ++index) {
      site_of_stack_.emplace(p.sites[index].stack, static_cast<std::uint32_t>(index));
    }
    out_.page_bytes = static_cast<std::uint64_t>(std::max(512.0, page_bytes_of(p)));
  }

  void run(const std::vector<event_row>& events) {
    assign_lanes(events);
    find_shared(events);
    out_.lanes.resize(empty_places_.size());
    last_time_.resize(empty_places_.size());
    for (row_ = 0; row_ < events.size(); ++row_) compile(events[row_]);
    fit_work();
    for (const replay_lane& lane : out_.lanes) out_.operations += lane.ops.size();
    if (!events.empty()) {
      out_.duration_ns = static_cast<double>(events.back().time) - static_cast<double>(events.front().time);
    }
  }

 private:
  void fit_work() {
    double found = 0;
    for (const replay_lane& lane : out_.lanes) {
      for (const replay_op& op : lane.ops) found += static_cast<double>(work_of_code(op.work));
    }
    double recorded = 0;
    for (const site& one : p_.sites) recorded += one.figures.allocations;
    const double charged = cost_of_all(p_).total();
    const double own = std::min(std::max(0.0, processor_ns(p_) - charged), most_work_part * charged);
    const double part = recorded > 0 ? std::min(1.0, static_cast<double>(out_.allocations) / recorded) : 0;
    const double factor = found > 0 ? std::min(1.0, part * own / found) : 0;
    for (replay_lane& lane : out_.lanes) {
      for (replay_op& op : lane.ops) {
        op.work =
            code_of_work(static_cast<std::uint64_t>(factor * static_cast<double>(work_of_code(op.work))));
        out_.work_ns += static_cast<double>(work_of_code(op.work));
      }
    }
  }

  // Threads whose lives, from their first event to their last, do not overlap share a lane.
  void assign_lanes(const std::vector<event_row>& events) {
    struct life {
      std::size_t first = 0;
      std::size_t last = 0;
      std::uint32_t thread = 0;
    };
    std::unordered_map<std::uint32_t, life> lives;
    for (std::size_t row = 0; row < events.size(); ++row) {
      const auto [found, is_new] = lives.try_emplace(events[row].thread, life{row, row, events[row].thread});
      found->second.last = row;
    }
    std::vector<life> order;
    for (const auto& [thread, one] : lives) order.push_back(one);
    std::sort(order.begin(), order.end(), [](const life& a, const life& b) { return a.first < b.first; });
    std::vector<std::size_t> ends;
    for (const life& one : order) {
      auto lane = std::find_if(ends.begin(), ends.end(), [&one](std::size_t end) { return end < one.first; });
      if (lane == ends.end()) lane = ends.insert(ends.end(), 0);
      if (ends.size() > settings_.most_lanes) break;
      *lane = one.last;
      lane_of_[one.thread] = static_cast<std::uint32_t>(lane - ends.begin());
    }
    if (ends.size() > settings_.most_lanes) {
      refuse(path_,
             "more of its threads lived at once than the " + std::to_string(settings_.most_lanes) +
                 " that can be replayed",
             "record a run with fewer threads");
    }
    out_.threads = lives.size();
    empty_places_.resize(ends.size());
  }

  // Finds the blocks that a lane touches or frees without having allocated them. Each has a place of its own, so
  // that the other lane cannot find an earlier block there.
  void find_shared(const std::vector<event_row>& events) {
    std::unordered_map<std::uint64_t, std::uint32_t> owners;
    const auto use = [&owners, this](std::uint64_t block, std::uint32_t lane) {
      const auto owner = owners.find(block);
      if (owner != owners.end() && owner->second != lane) shared_.insert(block);
      return owner;
    };
    for (const event_row& e : events) {
      const std::uint32_t lane = lane_of_.at(e.thread);
      if (e.kind == event_realloc) {
        const auto old = use(e.extra, lane);
        if (old != owners.end()) owners.erase(old);
      }
      if (e.kind == event_munmap) {  // may be of a part
        use(e.block, lane);
      } else if (e.kind == event_free || e.kind == event_delete || e.kind == event_touch) {
        const auto owner = use(e.block, lane);
        if (owner != owners.end() && e.kind != event_touch) owners.erase(owner);
      } else {
        owners[e.block] = lane;
      }
    }
  }

  // Adds an event to its lane. The time since the lane's last event was work of the program, or sleep.
  void compile(const event_row& e) {
    lane_ = lane_of_.at(e.thread);
    if (e.kind == event_touch) return touch(e);
    std::uint64_t& before = last_time_[lane_];
    const std::uint64_t gap = before != 0 && e.time > before ? e.time - before : 0;
    before = e.time;
    has_added_ = false;
    compile_one(e);
    if (has_added_ && !out_.lanes[lane_].ops.empty()) out_.lanes[lane_].ops.back().work = code_of_work(gap);
  }

  void compile_one(const event_row& e) {
    switch (e.kind) {
      case event_malloc:
        return allocate(e, replay_kind::allocate);
      case event_calloc:
        return allocate(e, replay_kind::zeroed);
      case event_aligned:
        return allocate(e, replay_kind::aligned);
      case event_new:
        return allocate(e, replay_kind::by_new);
      case event_mmap:
        if (e.block != unnumbered) allocate(e, replay_kind::map);
        return;
      case event_free:
        return release(e, replay_kind::free);
      case event_delete:
        return release(e, replay_kind::by_delete);
      case event_munmap:
        return unmap(e);
      case event_realloc:
        return reallocate(e);
      default:
        break;  // a newer writer's
    }
  }

  replay_op& add(replay_kind kind, std::uint32_t place, std::uint64_t size) {
    replay_op op;
    op.kind = kind;
    op.place = place;
    op.size = size;
    op.order = static_cast<std::uint32_t>(row_ / order_step);
    out_.lanes[lane_].ops.push_back(op);
    has_added_ = true;
    return out_.lanes[lane_].ops.back();
  }

  std::uint32_t take_place(std::uint64_t number) {
    if (shared_.contains(number)) return out_.places++;
    std::vector<std::uint32_t>& empty = empty_places_[lane_];
    if (empty.empty()) return out_.places++;
    const std::uint32_t place = empty.back();
    empty.pop_back();
    return place;
  }

  // Pages of the block that were touched: all, or the resident share found at the blocks of its site.
  std::uint32_t pages_of(const event_row& e) const {
    auto pages = static_cast<double>(pages_in(e.size));
    const auto site = site_of_stack_.find(e.stack);
    if (site != site_of_stack_.end()) {
      const site_figures& f = p_.sites[site->second].figures;
      if (f.checked_bytes > 0) pages *= std::clamp(f.resident_bytes / f.checked_bytes, 0.0, 1.0);
    }
    constexpr double most = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::clamp(pages, 1.0, most));
  }

  std::uint8_t route_of(const event_row& e) const {
    const auto site = site_of_stack_.find(e.stack);
    if (site == site_of_stack_.end() || site->second >= settings_.route_of_site.size()) return 0;
    const std::uint8_t route = settings_.route_of_site[site->second];
    const replay_route& to = settings_.routes[route];
    if (to.kind == route_kind::pool && (e.size > to.size || e.size == 0)) return 0;
    if (to.kind == route_kind::buffers && e.size < 65536) return 0;
    return route;
  }

  void remember(const event_row& e, replay_kind kind, std::uint32_t place, std::uint8_t route) {
    live_block block;
    block.place = place;
    block.lane = lane_;
    block.op = static_cast<std::uint32_t>(out_.lanes[lane_].ops.size() - 1);
    block.size = e.size;
    block.route = route;
    block.mapped = kind == replay_kind::map;
    block.mapped_bytes = block.mapped ? e.size : 0;
    if (!live_.emplace(e.block, block).second) {
      refuse(
          path_,
          "event " + std::to_string(row_) + " allocates block " + std::to_string(e.block) + " a second time",
          "its events contradict each other; record the program again");
    }
    ++out_.allocations;
    out_.bytes += static_cast<double>(e.size);
    if (!block.mapped) live_bytes_ += static_cast<double>(e.size);
    out_.peak_bytes = std::max(out_.peak_bytes, live_bytes_);
  }

  void allocate(const event_row& e, replay_kind kind) {
    const std::uint32_t place = take_place(e.block);
    replay_op& op = add(kind, place, e.size);
    op.other = kind == replay_kind::map ? 0 : pages_of(e);
    if (kind == replay_kind::aligned && std::has_single_bit(e.extra) && e.extra <= (1U << 30)) {
      op.alignment = static_cast<std::uint8_t>(std::countr_zero(e.extra));
    }
    op.route = kind == replay_kind::aligned || kind == replay_kind::map ? std::uint8_t{0} : route_of(e);
    remember(e, kind, place, op.route);
  }

  // Removes the block that ends; false: its allocation is not in the file.
  bool take_live(std::uint64_t number, live_block& block) {
    const auto found = live_.find(number);
    if (found == live_.end()) {
      ++out_.unknown;
      return false;
    }
    block = found->second;
    live_.erase(found);
    if (!block.mapped) live_bytes_ -= static_cast<double>(block.size);
    return true;
  }

  // Pages that were resident at the block's end were written during its life. A touch by a lane that does not free
  // the block might come too late in a replay, so it is moved to the allocation.
  void settle_touches(const live_block& block) {
    std::vector<replay_op>& ops = out_.lanes[lane_].ops;
    std::uint64_t moved = 0;
    for (const auto& [lane, index] : block.touches) {
      const bool last = lane == lane_ && index + 1 == ops.size();
      if (lane == lane_ && !last) continue;
      moved += out_.lanes[lane].ops[index].other;
      out_.lanes[lane].ops[index].place = no_place;
      if (last) ops.pop_back();
    }
    replay_op& allocation = out_.lanes[block.lane].ops[block.op];
    if (allocation.kind != replay_kind::reallocate) {
      allocation.other =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(allocation.other + moved, pages_in(block.size)));
    }
  }

  std::uint64_t pages_in(std::uint64_t bytes) const {
    return (bytes + out_.page_bytes - 1) / out_.page_bytes;
  }

  void give_place_back(std::uint64_t number, const live_block& block) {
    if (!shared_.contains(number)) empty_places_[lane_].push_back(block.place);
  }

  void release(const event_row& e, replay_kind kind) {
    live_block block;
    if (!take_live(e.block, block)) return;
    settle_touches(block);
    replay_op& op = add(block.mapped ? replay_kind::unmap : kind, block.place, block.size);
    op.route = block.route;
    give_place_back(e.block, block);
  }

  // A mapping ends when its last part is unmapped.
  void unmap(const event_row& e) {
    const auto found = live_.find(e.block);
    if (found == live_.end() || !found->second.mapped) return;
    found->second.mapped_bytes -= std::min(found->second.mapped_bytes, e.size);
    if (found->second.mapped_bytes == 0) release(e, replay_kind::unmap);
  }

  void reallocate(const event_row& e) {
    live_block old;
    if (e.extra == 0 || !take_live(e.extra, old)) return allocate(e, replay_kind::allocate);
    settle_touches(old);
    if (old.route != 0) {  // pools do not resize
      allocate(e, replay_kind::allocate);
      add(replay_kind::free, old.place, old.size).route = old.route;
      return give_place_back(e.extra, old);
    }
    const std::uint32_t place = take_place(e.block);
    replay_op& op = add(replay_kind::reallocate, place, e.size);
    op.other = old.place;
    remember(e, replay_kind::reallocate, place, 0);
    if (e.size >= out_.page_bytes) add(replay_kind::touch, place, e.size).other = pages_of(e);
    give_place_back(e.extra, old);
  }

  void touch(const event_row& e) {
    const auto found = live_.find(e.block);
    if (found == live_.end() || e.extra == 0) return;
    live_block& block = found->second;
    replay_op& allocation = out_.lanes[block.lane].ops[block.op];
    if (!block.touched && allocation.kind != replay_kind::reallocate)
      allocation.other = 0;  // its touch event states the exact number of pages
    block.touched = true;
    add(replay_kind::touch, block.place, block.size).other =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(e.extra, pages_in(block.size)));
    block.touches.emplace_back(lane_, static_cast<std::uint32_t>(out_.lanes[lane_].ops.size() - 1));
  }

  const std::string& path_;
  const profile& p_;
  const trace_settings& settings_;
  trace& out_;
  std::unordered_map<std::uint32_t, std::uint32_t> site_of_stack_;
  std::unordered_map<std::uint32_t, std::uint32_t> lane_of_;
  std::unordered_map<std::uint64_t, live_block> live_;
  std::unordered_set<std::uint64_t> shared_;
  std::vector<std::uint64_t> last_time_;  // by lane: of its last event; 0: none
  bool has_added_ = false;
  std::vector<std::vector<std::uint32_t>> empty_places_;  // by lane, of blocks that only it used
  double live_bytes_ = 0;
  std::size_t row_ = 0;
  std::uint32_t lane_ = 0;
};

}  // namespace

trace load_trace(const std::string& path, const profile& p, const trace_settings& settings) {
  if (p.mode == profile_mode::faults) {
    refuse(path, "it holds page faults alone, and no calls", "record the program again: tarn profile");
  }
  trace out;
  event_rows events = read_events(path, settings.most_events);
  out.damage = events.damage;
  out.cut = events.cut;
  if (events.rows.empty()) {
    refuse(path,
           out.damage.empty() ? "it holds no events" : "it is damaged before its first event: " + out.damage,
           "record the program again, without --no-events");
  }
  if (p.mode == profile_mode::sample) {
    out.sampled = true;
    events.rows = expand_samples(events.rows, number_in(p.meta, "sample_bytes"), large_block_bytes,
                                 settings.most_expanded);
  }
  out.routes = settings.routes;
  if (out.routes.empty()) out.routes.emplace_back();
  compiler(path, p, settings, out).run(events.rows);
  if (out.allocations == 0) refuse(path, "its events allocate nothing", "there is nothing to replay");
  return out;
}

}  // namespace tarn::profiler
