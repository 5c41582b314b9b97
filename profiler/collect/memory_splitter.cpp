// SPDX-License-Identifier: MIT
#include "profiler/collect/memory_splitter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "os/invariant.hpp"
#include "profiler/collect/pinned_memory.hpp"
#include "profiler/collect/timeline.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_rows = 1024;
constexpr std::size_t blocks_at_once = 1024;
constexpr std::uint64_t longest_interval_ns = 12'800'000'000;
constexpr std::size_t most_parts = 2000;  // of one kind; the smallest ones are summed up in one
constexpr const char* recorder_file = "libtarn_record.so";
constexpr const char* recorder_memory = "/memfd:tarn-";

bool is_recorders(const std::string& name) {
  return name.starts_with(recorder_memory) || name.find(recorder_file) != std::string::npos;
}

// Memory shared between processes: files in memory, System V segments, shared anonymous mappings.
bool is_shared_memory(const mapping& one) {
  return one.shared && (one.name.starts_with("/dev/shm/") || one.name.starts_with("/memfd:") ||
                        one.name.starts_with("/SYSV") || one.name.starts_with("/dev/zero") ||
                        one.name.starts_with("[anon_shmem") || one.name.empty());
}

bool is_without_file(const mapping& one) {
  if (one.shared) return false;
  return one.name.empty() || one.name == "[heap]" || one.name.starts_with("[stack") ||
         one.name.starts_with("[anon:") || one.name.starts_with("//anon");
}

memory_use use_by_name(const mapping& one) {
  if (one.undumped) return memory_use::recorder;
  if (one.name == "[heap]" || one.name.find("malloc") != std::string::npos) return memory_use::heap;
  return one.name.find("stack") != std::string::npos ? memory_use::stack : memory_use::other;
}

// A range of memory whose origin the collector knows.
struct known_range {
  std::uint64_t start;
  std::uint64_t end;
  memory_use use;
  std::uint32_t site;
};

std::vector<known_range> known_ranges(const process_model& model) {
  std::vector<known_range> ranges;
  model.for_each_region([&ranges](std::uint64_t start, std::uint64_t end, std::uint32_t site) {
    ranges.push_back({start, end, memory_use::mapped, site});
  });
  // Only the end is known: see cut().
  model.for_each_stack([&ranges](std::uint64_t end) {
    ranges.push_back({end - 1, end, memory_use::stack, 0});
  });
  std::stable_sort(ranges.begin(), ranges.end(), [](const known_range& left, const known_range& right) {
    return left.start < right.start;
  });
  return ranges;
}

// Cuts a mapping at the bounds of the known ranges within it; what lies between them keeps the use of `first`. A stack
// begins where what is known before it ends: mostly the mapping begins with it, behind its guard.
void cut(const mapping& whole, const memory_piece& first, const std::vector<known_range>& ranges,
         std::vector<memory_piece>& pieces) {
  memory_piece rest = first;
  auto next =
      std::lower_bound(ranges.begin(), ranges.end(), whole.start,
                       [](const known_range& one, std::uint64_t address) { return one.start < address; });
  if (next != ranges.begin() && std::prev(next)->end > whole.start) --next;
  for (; next != ranges.end() && next->start < whole.end; ++next) {
    const bool is_stack = next->use == memory_use::stack;
    const std::uint64_t start = is_stack ? rest.start : std::max(next->start, rest.start);
    const std::uint64_t end = std::min(next->end, whole.end);
    if (start >= end) continue;
    if (rest.start < start) {
      pieces.push_back(rest);
      pieces.back().end = start;
    }
    memory_piece& known = pieces.emplace_back(rest);
    known.start = start;
    known.end = end;
    known.use = next->use;
    known.site = next->site;
    known.name.clear();
    rest.start = end;
  }
  if (rest.start < whole.end) pieces.push_back(rest);
}

}  // namespace

std::vector<memory_piece> pieces_of(const std::vector<mapping>& mappings, const process_model& model,
                                    const std::set<std::uint64_t>& anchors) {
  const std::vector<known_range> ranges = known_ranges(model);
  std::vector<memory_piece> pieces;
  for (std::size_t index = 0; index < mappings.size(); ++index) {
    const mapping& whole = mappings[index];
    if (!is_without_file(whole)) continue;
    memory_piece first{.start = whole.start, .end = whole.end, .use = use_by_name(whole), .whole = index};
    if (const mapping* const file = file_of_static_data(mappings, index);
        file != nullptr && first.use == memory_use::other) {
      first.use = is_recorders(file->name) ? memory_use::recorder : memory_use::written;
      first.name = file->name;
    }
    if (first.use == memory_use::other || first.use == memory_use::written) {
      cut(whole, first, ranges, pieces);
    } else {
      pieces.push_back(first);
    }
  }
  for (const std::uint64_t address : anchors) {
    memory_piece* piece = piece_at(pieces, address);
    if (piece != nullptr && (piece->use == memory_use::other || piece->use == memory_use::written))
      piece->use = memory_use::heap;
  }
  return pieces;
}

memory_piece* piece_at(std::vector<memory_piece>& pieces, std::uint64_t address) {
  auto above =
      std::upper_bound(pieces.begin(), pieces.end(), address,
                       [](std::uint64_t wanted, const memory_piece& piece) { return wanted < piece.start; });
  if (above == pieces.begin()) return nullptr;
  --above;
  return address < above->end ? &*above : nullptr;
}

// The state of one take().
struct memory_splitter::split {
  struct site_bytes {
    double bytes = 0;
    double variance = 0;

    // What lives and has no sample included.
    [[nodiscard]] double whole_variance() const {
      return bytes > 0 ? variance + variance_of_none(variance / bytes) : 0;
    }
  };

  struct placed_block {
    std::uint64_t address;
    std::uint64_t size;
    double weight;
    std::uint32_t site;
  };

  split(std::uint32_t process, std::vector<mapping> all, const process_model& known,
        const std::function<void()>& between)
      : mappings(std::move(all)), model(known), meanwhile(between), pages(mappings.size()) {
    blocks.reserve(model.known_blocks());
    model.for_each_living([this](const living_block& block, double weight) {
      blocks.push_back({block.address, block.size, weight, block.site});
    });
    const std::string path = "/proc/" + std::to_string(process) + "/pagemap";
    pagemap = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~split() {
    if (pagemap >= 0) close(pagemap);
  }
  split(const split&) = delete;
  split& operator=(const split&) = delete;

  const resident_pages& pages_of(std::size_t whole) {
    std::optional<resident_pages>& known = pages[whole];
    const mapping& one = mappings[whole];
    if (!known) known.emplace(pagemap, one.start, one.end, one.resident_bytes);
    return *known;
  }

  void take_files();
  void take_blocks(std::set<std::uint64_t>& anchors);
  void take_pieces();
  void take_heap();
  void take_pinned();
  void add_part(const char* kind, const std::string& name, std::uint32_t site, double bytes, double variance);
  std::vector<memory_part> parts() const;

  std::vector<mapping> mappings;
  const process_model& model;
  const std::function<void()>& meanwhile;
  std::vector<placed_block> blocks;  // the model's may change meanwhile
  std::vector<std::optional<resident_pages>> pages;
  std::vector<memory_piece> pieces;
  std::map<std::uint32_t, site_bytes> live;
  std::map<std::string, std::map<std::pair<std::string, std::uint32_t>, site_bytes>> by_kind;
  memory_row row;
  double heap = 0;
  int pagemap = -1;
};

void memory_splitter::split::add_part(const char* kind, const std::string& name, std::uint32_t site,
                                      double bytes, double variance) {
  if (bytes <= 0) return;
  site_bytes& part = by_kind[kind][{name, site}];
  part.bytes += bytes;
  part.variance += variance;
}

void memory_splitter::split::take_files() {
  for (const mapping& one : mappings) {
    if (is_without_file(one)) continue;
    if (is_recorders(one.name)) {
      row.recorder += one.resident_bytes;
      continue;
    }
    if (is_shared_memory(one)) {
      row.shared += one.resident_bytes;
      add_part("shared", one.name, 0, one.resident_bytes, 0);
      continue;
    }
    const double copied = std::min(one.anonymous_bytes, one.resident_bytes);
    row.files += one.resident_bytes - copied;
    row.written += copied;
    add_part("files", one.name, 0, one.resident_bytes - copied, 0);
    add_part("written", one.name, 0, copied, 0);
  }
}

void memory_splitter::split::take_blocks(std::set<std::uint64_t>& anchors) {
  memory_piece* last = nullptr;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const auto& [address, size, weight, of_site] = blocks[index];
    if (index % blocks_at_once == 0) meanwhile();
    if (last == nullptr || address < last->start || address >= last->end) last = piece_at(pieces, address);
    if (last == nullptr || last->use == memory_use::mapped) continue;
    if (last->use != memory_use::heap) {
      last->use = memory_use::heap;
      anchors.insert(address);
    }
    const double resident = pages_of(last->whole).bytes_in(address, address + size);
    row.untouched += weight * std::max(0.0, static_cast<double>(size) - resident);
    if (resident <= 0) continue;
    site_bytes& site = live[of_site];
    site.bytes += weight * resident;
    site.variance += resident * resident * weight * (weight - 1);
  }
}

void memory_splitter::split::take_pieces() {
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t end = first;
    double sum = 0;
    const std::size_t whole = pieces[first].whole;
    for (; end < pieces.size() && pieces[end].whole == whole; ++end) {
      const bool is_alone =
          pieces[end].start == mappings[whole].start && pieces[end].end == mappings[whole].end;
      pieces[end].resident_bytes = is_alone ? mappings[whole].resident_bytes
                                            : pages_of(whole).bytes_in(pieces[end].start, pieces[end].end);
      sum += pieces[end].resident_bytes;
    }
    // The two readings (smaps, pagemap) are not of the same moment: scale the pieces to the sum that smaps gives.
    const double fit = sum > 0 ? mappings[whole].resident_bytes / sum : 0;
    if (sum <= 0) pieces[first].resident_bytes = mappings[whole].resident_bytes;
    for (; first < end; ++first) {
      memory_piece& piece = pieces[first];
      if (sum > 0) piece.resident_bytes *= fit;
      const double bytes = piece.resident_bytes;
      if (piece.use == memory_use::heap) heap += bytes;
      if (piece.use == memory_use::mapped) row.mapped += bytes;
      if (piece.use == memory_use::stack) row.stacks += bytes;
      if (piece.use == memory_use::written) row.written += bytes;
      if (piece.use == memory_use::recorder) row.recorder += bytes;
      if (piece.use == memory_use::other) row.other += bytes;
      if (piece.use == memory_use::mapped) add_part("mapped", "", piece.site + 1, bytes, 0);
      if (piece.use == memory_use::written) add_part("written", piece.name, 0, bytes, 0);
    }
  }
}

// Blocks cannot take more than the resident heap; an estimate beyond that is sampling error, and is scaled down.
void memory_splitter::split::take_heap() {
  site_bytes sum;
  double rounding = 0;
  for (const auto& [site, one] : live) {
    sum.bytes += one.bytes;
    sum.variance += one.variance;
    rounding += one.bytes * model.rounding_of(site);
  }
  const double fit = sum.bytes > heap ? heap / sum.bytes : 1;
  row.live = fit * sum.bytes;
  row.live_variance = fit * fit * sum.whole_variance();
  row.rounding = std::min(fit * rounding, heap - row.live);
  row.kept = heap - row.live - row.rounding;
  for (const auto& [site, one] : live)
    add_part("live", "", site + 1, fit * one.bytes, fit * fit * one.whole_variance());
}

// The parts of what malloc keeps, by the sites whose blocks pin it. Only if all blocks are known.
void memory_splitter::split::take_pinned() {
  const bool is_exact =
      std::all_of(blocks.begin(), blocks.end(), [](const placed_block& one) { return one.weight == 1; });
  if (!is_exact || row.kept <= 0) return;
  pinned_memory pinned(meanwhile);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const placed_block& block = blocks[index];
    if (index % blocks_at_once == 0) meanwhile();
    const memory_piece* const piece = piece_at(pieces, block.address);
    if (piece == nullptr || piece->use != memory_use::heap) continue;
    const double bytes = static_cast<double>(block.size) * (1 + model.rounding_of(block.site));
    const auto end = block.address + static_cast<std::uint64_t>(std::llround(std::max(bytes, 1.0)));
    pinned.add_block(block.address, std::min(end, piece->end), block.site);
  }
  for (const memory_piece& piece : pieces) {
    if (piece.use != memory_use::heap || piece.resident_bytes <= 0) continue;
    const resident_pages& there = pages_of(piece.whole);
    pinned.add_range(piece.start, piece.end,
                     [&there](std::uint64_t from, std::uint64_t to) { return there.bytes_in(from, to); });
  }
  pinned.divide();
  double sum = pinned.by_nobody();
  for (const auto& [site, bytes] : pinned.by_site()) sum += bytes;
  if (sum <= 0) return;
  // Rounding is known as a mean of each site only.
  const double fit = row.kept / sum;
  for (const auto& [site, bytes] : pinned.by_site()) add_part("kept", "", site + 1, fit * bytes, 0);
  add_part("kept", pinned_by_nobody, 0, fit * pinned.by_nobody(), 0);
}

std::vector<memory_part> memory_splitter::split::parts() const {
  std::vector<memory_part> all;
  for (const auto& [kind, parts] : by_kind) {
    std::vector<memory_part> of_kind;
    for (const auto& [key, one] : parts)
      of_kind.push_back({row.time_ns, kind, key.first, key.second, one.bytes, one.variance});
    std::stable_sort(of_kind.begin(), of_kind.end(), [](const memory_part& left, const memory_part& right) {
      return left.bytes > right.bytes;
    });
    if (of_kind.size() > most_parts) {
      memory_part rest{row.time_ns, kind, "", 0, 0, 0};
      for (std::size_t index = most_parts; index < of_kind.size(); ++index) {
        rest.bytes += of_kind[index].bytes;
        rest.variance += of_kind[index].variance;
      }
      of_kind.resize(most_parts);
      of_kind.push_back(rest);
    }
    all.insert(all.end(), of_kind.begin(), of_kind.end());
  }
  return all;
}

void validate(const memory_row& row, const std::vector<mapping>& mappings) {
  double resident = 0;
  for (const mapping& one : mappings) resident += one.resident_bytes;
  TARN_INVARIANT("memory_splitter", &row, std::abs(row.sum() - resident) <= 1e-9 * (1 + resident));
}

bool memory_splitter::take(std::uint32_t process, const process_model& model, std::uint64_t time_ns,
                           const std::function<void()>& meanwhile) {
  const double resident = resident_bytes_of(process);
  auto mappings = read_mappings(process);
  if (!mappings || resident <= 0) return false;
  split now(process, std::move(*mappings), model, meanwhile);
  now.row.time_ns = time_ns;
  now.row.resident_bytes = resident;
  now.pieces = pieces_of(now.mappings, model, anchors_);
  std::erase_if(anchors_, [&now](std::uint64_t address) {
    const memory_piece* piece = piece_at(now.pieces, address);
    return piece == nullptr || piece->use != memory_use::heap;
  });
  now.take_files();
  now.take_blocks(anchors_);
  now.take_pieces();
  now.take_heap();
  now.take_pinned();
  if (os::is_check_due(now.mappings.size())) validate(now.row, now.mappings);
  add(now.row, now.parts());
  return true;
}

void memory_splitter::add(const memory_row& row, std::vector<memory_part>&& parts) {
  rows_.push_back(row);
  if (rows_.size() > most_rows) make_room(rows_, most_rows, interval_ns_, longest_interval_ns);
  if (says_more(row, highest_)) {
    highest_ = row;
    highest_parts_ = std::move(parts);
    last_parts_.clear();
  } else {
    last_parts_ = std::move(parts);
  }
}

memory_history memory_splitter::history() const {
  memory_history all{rows_, highest_parts_};
  const auto at =
      std::lower_bound(all.rows.begin(), all.rows.end(), highest_.time_ns,
                       [](const memory_row& row, std::uint64_t time_ns) { return row.time_ns < time_ns; });
  const bool is_there = at != all.rows.end() && at->time_ns == highest_.time_ns;
  if (!is_there && !rows_.empty()) all.rows.insert(at, highest_);
  all.parts.insert(all.parts.end(), last_parts_.begin(), last_parts_.end());
  return all;
}

}  // namespace tarn::profiler
