// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/export/block_list.hpp"
#include "profiler/export/event_rows.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

// Generated allocations at most; heaptrack reads about 10^6 lines a second.
constexpr double most_made_up = 2e6;
// Limit for portions; a profile with contradictory figures would need more, so its portions become coarser.
constexpr double most_portions = 4 * most_made_up;
constexpr double ns_per_ms = 1e6;
constexpr double largest_size = 9e18;

// Lines of hexadecimal numbers, each led by its kind's letter.
class line_writer {
 public:
  explicit line_writer(const std::function<void(std::string_view)>& take) : out_(take) {}

  template <class... Numbers>
  void line(char kind, Numbers... numbers) {
    line_.assign(1, kind);
    (fmt::format_to(std::back_inserter(line_), " {:x}", static_cast<std::uint64_t>(numbers)), ...);
    text(line_);
  }

  void text(std::string_view line) {
    out_.write(line);
    out_.write("\n");
  }

  void flush() { out_.flush(); }

 private:
  piece_writer out_;
  std::string line_;
};

class heaptrack_writer {
 public:
  heaptrack_writer(const profile& p, const std::function<void(std::string_view)>& take) : p_(p), out_(take) {}

  heaptrack_outcome run(const std::string& path) {
    heaptrack_outcome outcome;
    write_header();
    write_paths();
    if (!path.empty() && p_.mode == profile_mode::full) write_events(path, outcome);
    if (!outcome.from_events) outcome.each_stands_for = make_up_events();
    out_.flush();
    return outcome;
  }

 private:
  // The allocations that one line '+' represents.
  struct portion {
    std::uint64_t info = 0;
    std::uint64_t count = 0;
  };
  // A site's blocks of one size, by lifetime: freed before the peak; alive at the peak only; alive at the peak and
  // at the end; alive at the end only.
  struct share {
    portion passing, at_peak, staying, late;
  };

  void write_header() {
    constexpr unsigned version = 0x010400, format = 3;
    out_.line('v', version, format);
    std::string words;
    if (p_.meta.is_object() && p_.meta.contains("arguments") && p_.meta["arguments"].is_array()) {
      for (const auto& word : p_.meta["arguments"]) {
        if (word.is_string()) words += " " + word.get<std::string>();
      }
    }
    if (words.empty()) words = " (unknown)";
    std::replace(words.begin(), words.end(), '\n', ' ');
    out_.text("X" + words);
    out_.line('I', positive_in(p_.meta, "page_bytes", 4096), 0);
  }

  std::uint64_t string_id(const std::string& text) {
    if (text.empty()) return 0;
    const auto [at, is_new] = strings_.try_emplace(text, strings_.size() + 1);
    if (is_new) {
      std::string line = text;
      std::replace(line.begin(), line.end(), '\n', ' ');
      out_.text(fmt::format("s {:x} {}", line.size(), line));
    }
    return at->second;
  }

  std::uint64_t address_id(std::uint64_t address) {
    const auto [at, is_new] = addresses_.try_emplace(address, addresses_.size() + 1);
    if (!is_new) return at->second;
    const module_info* const holder = module_at(p_, address - 1);
    const std::uint64_t module = string_id(holder == nullptr ? std::string() : holder->path);
    const auto found = p_.symbols.find(address);
    std::string line = fmt::format("i {:x} {:x}", address, module);
    if (found != p_.symbols.end()) {
      for (const source_frame& frame : found->second) {
        const std::uint64_t function = string_id(frame.function);
        const std::uint64_t file = string_id(frame.file);
        fmt::format_to(std::back_inserter(line), " {:x} {:x} {:x}", function, file, frame.line);
      }
    }
    out_.text(line);
    return at->second;
  }

  // All paths: their numbers are those of the profile's nodes.
  void write_paths() {
    for (std::size_t node = 1; node < p_.stacks.size(); ++node) {
      const std::uint64_t address = address_id(p_.stacks[node].address);
      out_.line('t', address, p_.stacks[node].parent);
    }
  }

  std::uint64_t info_id(std::uint64_t size, std::uint64_t stack) {
    const auto [at, is_new] = infos_.try_emplace({size, stack}, next_info_);
    if (is_new) {
      out_.line('a', size, stack);
      ++next_info_;
    }
    return at->second;
  }

  // ---- as it ran ----

  // Writes time stamps and resident memory up to `time_ns`.
  void write_time(std::uint64_t time_ns) {
    const auto now = static_cast<std::uint64_t>(static_cast<double>(time_ns) / ns_per_ms);
    if (now <= last_ms_) return;
    last_ms_ = now;
    out_.line('c', now);
    const double page = positive_in(p_.meta, "page_bytes", 4096);
    while (next_counter_ < p_.counters.size() && p_.counters[next_counter_].time_ns <= time_ns) {
      out_.line('R', p_.counters[next_counter_++].resident_bytes / page);
    }
  }

  void write_allocation(std::uint64_t block, std::uint64_t size, std::uint64_t stack) {
    const std::uint64_t info = info_id(size, stack < p_.stacks.size() ? stack : 0);
    out_.line('+', info);
    living_[block] = info;
  }

  void write_free(std::uint64_t block) {
    const auto found = living_.find(block);
    if (found == living_.end()) return;  // it is older than the profile, or its events were lost
    out_.line('-', found->second);
    living_.erase(found);
  }

  void write_event_rows(const table& rows) {
    const auto& time = rows.whole("time_ns");
    const auto& kind = rows.whole("kind");
    const auto& block = rows.whole("block");
    const auto& size = rows.whole("size");
    const auto& stack = rows.whole("stack");
    const auto& extra = rows.whole("extra");
    for (std::size_t row = 0; row < rows.rows; ++row) {
      write_time(time[row]);
      switch (kind[row]) {
        case event_malloc:
        case event_calloc:
        case event_aligned:
        case event_new: write_allocation(block[row], size[row], stack[row]); break;
        case event_realloc:
          write_free(extra[row]);
          write_allocation(block[row], size[row], stack[row]);
          break;
        case event_free:
        case event_delete: write_free(block[row]); break;
        default: break;
      }
    }
  }

  void write_events(const std::string& path, heaptrack_outcome& outcome) {
    outcome.damage = read_events(path, [&](const table& rows) {
      outcome.from_events = outcome.from_events || rows.rows != 0;
      write_event_rows(rows);
    });
  }

  // ---- made up ----

  // `count` allocations of `bytes` together, as about one line per `scale` allocations; more lines if one of them
  // would be large compared with the peak.
  portion make_portion(double count, double bytes, std::uint32_t stack, double scale) {
    portion result;
    if (count <= 0) return result;
    constexpr double most_of_peak = 1.0 / 32;
    if (bytes > 0) scale = std::clamp(most_of_peak * peak_bytes_ / (bytes / count), 1.0, scale);
    const double wanted = std::min(std::round(count / scale), most_portions - portions_);
    result.count = static_cast<std::uint64_t>(std::max(1.0, wanted));
    portions_ += static_cast<double>(result.count);
    result.info = info_id(static_cast<std::uint64_t>(
                              std::round(std::min(largest_size, bytes / static_cast<double>(result.count)))),
                          stack);
    return result;
  }

  // The exact sizes, then the remaining blocks as one size.
  static std::vector<std::pair<double, double>> sizes_of(const site& one) {
    std::vector<std::pair<double, double>> sizes;  // size, count
    double count = one.figures.allocations;
    double bytes = one.figures.bytes;
    for (const size_count& each : one.sizes) {
      const double more = static_cast<double>(each.size) * each.count;
      if (!each.exact || each.count > count || more > bytes) continue;
      sizes.emplace_back(static_cast<double>(each.size), each.count);
      count -= each.count;
      bytes -= more;
    }
    if (count >= 0.5) sizes.emplace_back(bytes / count, count);
    return sizes;
  }

  block_list<share> make_shares(double scale) {
    block_list<share> shares;
    for (const site& one : p_.sites) {
      const site_figures& f = one.figures;
      if (f.allocations <= 0) continue;
      const double at_peak = f.bytes > 0 ? std::min(1.0, f.bytes_at_peak / f.bytes) : 0;
      const double stays = f.bytes > 0 ? std::min(1.0, f.live_bytes / f.bytes) : f.live / f.allocations;
      for (const auto& [size, count] : sizes_of(one)) {
        share result;
        const double peak = count * at_peak, end = count * stays;
        const double staying = std::min(peak, end);
        const double passing = count - std::max(peak, end);
        result.passing = make_portion(passing >= 0.5 ? passing : 0, passing * size, one.stack, scale);
        result.at_peak = make_portion(peak - staying, (peak - staying) * size, one.stack, scale);
        result.staying = make_portion(staying, staying * size, one.stack, scale);
        result.late = make_portion(end - staying, (end - staying) * size, one.stack, scale);
        shares.push_back(result);
      }
      infos_.clear();  // another site's infos are others, and a profile has millions
    }
    return shares;
  }

  // Generates first the blocks freed before the peak, then those up to the peak, then the frees after it, then the
  // later allocations. Returns the scale.
  double make_up_events() {
    double allocations = 0;
    for (const site& one : p_.sites) {
      allocations += one.figures.allocations;
      peak_bytes_ += one.figures.bytes_at_peak;
    }
    const double scale = std::max(1.0, std::ceil(allocations / most_made_up));
    const block_list<share> shares = make_shares(scale);
    const auto highest = std::max_element(
        p_.counters.begin(), p_.counters.end(),
        [](const counter_row& a, const counter_row& b) { return a.live_bytes < b.live_bytes; });
    for (const share& each : shares) {
      for (std::uint64_t count = 0; count < each.passing.count; ++count) {
        out_.line('+', each.passing.info);
        out_.line('-', each.passing.info);
      }
    }
    if (highest != p_.counters.end()) write_time(highest->time_ns);
    repeat(shares, '+', &share::at_peak);
    repeat(shares, '+', &share::staying);
    repeat(shares, '-', &share::at_peak);
    write_time(static_cast<std::uint64_t>(positive_in(p_.meta, "duration_ns", 0)));
    repeat(shares, '+', &share::late);
    return scale;
  }

  void repeat(const block_list<share>& shares, char kind, portion share::*which) {
    for (const share& each : shares) {
      for (std::uint64_t count = 0; count < (each.*which).count; ++count) out_.line(kind, (each.*which).info);
    }
  }

  const profile& p_;
  line_writer out_;
  std::map<std::string, std::uint64_t> strings_;
  std::unordered_map<std::uint64_t, std::uint64_t> addresses_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> infos_;  // by size and stack
  std::uint64_t next_info_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> living_;  // block: allocation info
  double peak_bytes_ = 0;
  double portions_ = 0;
  std::uint64_t last_ms_ = 0;
  std::size_t next_counter_ = 0;
};

}  // namespace

heaptrack_outcome export_heaptrack(const profile& p, const std::string& path,
                                   const std::function<void(std::string_view)>& take) {
  return heaptrack_writer(p, take).run(path);
}

export_notes notes_of(const heaptrack_outcome& outcome) {
  export_notes notes{.damage = outcome.damage};
  std::vector<std::string>& sentences = notes.approximations;
  if (!outcome.from_events) {
    sentences.emplace_back(
        "the profile does not contain all events (only tarn profile --mode full records them); "
        "their order was derived from the sums of each site, so \"temporary\" has no meaning");
  }
  if (outcome.each_stands_for > 1) {
    sentences.push_back(
        fmt::format("each allocation in the output stands for about {0:.0f} of its site: bytes are right, "
                    "counts are {0:.0f} times too low",
                    outcome.each_stands_for));
  }
  return notes;
}

}  // namespace tarn::profiler
