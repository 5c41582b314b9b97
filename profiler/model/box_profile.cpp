// SPDX-License-Identifier: MIT
#include "profiler/model/box_profile.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "profiler/format/build_id.hpp"
#include "profiler/format/openmetrics.hpp"
#include "profiler/model/call_paths.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/table_rows.hpp"
#include "samples/followed/box_format.hpp"

namespace tarn::profiler {

namespace {

using content_kind = tarn::box_record::content;

constexpr std::size_t most_frames = 64;
constexpr std::size_t longest_path = 4096;
constexpr double weight_unit = 1U << box_weight_shift;

void read_into(std::string& bytes, int file, std::size_t from, std::size_t count) {
  const std::size_t before = bytes.size();
  bytes.resize(before + count);
  const ssize_t got = pread(file, bytes.data() + before, count, static_cast<off_t>(from));
  bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
}

struct box_bytes {
  std::string
      records;  // and the header: up to the first part that has only zeros, since a box is a sparse file
  std::string figures;  // the newest text
  std::uint64_t figures_ns = 0;
};

// Reads a structure that may lie at any address, and whose atomics another process may be writing.
template <class T>
T copy_of(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data() + at, sizeof value);
  return value;
}

box_bytes bytes_of(const std::string& path, std::string& problem) {
  // A pipe of that name would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat kind {};
  if (file < 0 || fstat(file, &kind) != 0 || !S_ISREG(kind.st_mode)) {
    problem = path + ": " + (file < 0 ? std::strerror(errno) : "it is no regular file");
    if (file >= 0) close(file);
    return {};
  }
  box_bytes all;
  std::string& records = all.records;
  constexpr std::size_t part = std::size_t{64} << 10;
  read_into(records, file, 0, part);
  const bool is_known = records.size() >= sizeof(tarn::box_header) &&
                        copy_of<tarn::box_header>(records, 0).header_bytes == sizeof(tarn::box_header);
  for (bool goes_on = is_known; goes_on && records.size() < box_figures_at;) {
    const std::size_t before = records.size();
    read_into(records, file, before, part);
    goes_on = std::any_of(records.begin() + static_cast<std::ptrdiff_t>(before), records.end(),
                          [](char c) { return c != '\0'; });
  }
  const auto head =
      records.size() >= sizeof(tarn::box_header) ? copy_of<tarn::box_header>(records, 0) : tarn::box_header{};
  if (head.figures_written > 0) {
    const std::size_t newest = (head.figures_written - 1) % 2;
    all.figures_ns = head.figures[newest].time_ns;
    read_into(all.figures, file, box_figures_at + newest * box_figures_room,
              std::min<std::uint64_t>(head.figures[newest].bytes, box_figures_room));
  }
  close(file);
  return all;
}

std::string member_of(const metric_sample& one) {
  std::string name;
  const std::size_t begin = one.labels.find('"') + 1;  // LABEL="MEMBER"
  const std::size_t end = std::max(begin, one.labels.rfind('"'));
  for (std::size_t at = begin; at < end; ++at) {
    if (one.labels[at] == '\\' && at + 1 < end) ++at;
    name += one.labels[at];
  }
  return name.empty() ? "without a name" : name;
}

// A text that found no room may end in the midst of a number. What more than an address space is cannot be.
nlohmann::json figures_in(std::string_view text) {
  constexpr double most = 0x1p57;
  nlohmann::json out = nlohmann::json::object();
  for (const metric_family& family : read_metrics(text.substr(0, text.rfind('\n') + 1)).families) {
    for (const metric_sample& one : family.samples) {
      const double value = std::strtod(one.value.c_str(), nullptr);
      nlohmann::json& place = out[family.name];
      if (value > most) continue;
      if (one.labels.empty()) {
        if (!place.is_object()) place = value;
      } else if (place.is_null() || place.is_object()) {
        place[member_of(one)] = value;
      }
    }
  }
  return out;
}

std::string text_of(const char* room, std::size_t size) { return {room, strnlen(room, size)}; }

std::vector<std::string> words_in(const char* room, std::size_t size) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < size && room[at] != '\0';) {
    words.push_back(text_of(room + at, size - at));
    at += words.back().size() + 1;
  }
  return words;
}

bool take_site(std::string_view content, box_content& into) {
  if (content.size() < sizeof(tarn::box_site)) return false;
  boxed_site one{copy_of<tarn::box_site>(content, 0), {}};
  const std::size_t count = one.figures.count;
  if (count > most_frames || content.size() < sizeof one.figures + count * sizeof(std::uint64_t))
    return false;
  one.frames.resize(count);
  std::memcpy(one.frames.data(), content.data() + sizeof one.figures, count * sizeof(std::uint64_t));
  into.add(std::move(one));
  return true;
}

using modules_by_start = std::map<std::uint64_t, module_info>;

bool take_module(std::string_view content, const std::string& program, modules_by_start& into) {
  if (content.size() < sizeof(tarn::box_module)) return false;
  const auto found = copy_of<tarn::box_module>(content, 0);
  if (found.path_length > longest_path || content.size() < sizeof found + found.path_length ||
      found.build_id_length > sizeof found.build_id || found.start >= found.end)
    return false;
  module_info one;
  one.path = content.substr(sizeof found, found.path_length);
  one.start = found.start;
  one.end = found.end;
  one.file_offset = found.file_offset;
  if (one.path.empty()) one.path = program;
  one.build_id = build_id_text({reinterpret_cast<const char*>(found.build_id), found.build_id_length});
  // A later one has taken the place of those that it overlaps.
  auto at = into.upper_bound(one.start);
  if (at != into.begin() && std::prev(at)->second.end > one.start) --at;
  while (at != into.end() && at->first < one.end) at = into.erase(at);
  const std::uint64_t start = one.start;
  into.emplace(start, std::move(one));
  return true;
}

void take_records(std::string_view bytes, box_content& into) {
  modules_by_start modules;
  for (std::size_t at = (sizeof(tarn::box_header) + box_unit - 1) / box_unit * box_unit;
       at + sizeof(tarn::box_record) <= bytes.size();) {
    std::uint32_t head[2];
    std::memcpy(head, bytes.data() + at, sizeof head);
    const auto kind = static_cast<content_kind>(head[0]);
    const std::size_t size = head[1];
    if (size < box_unit || size % box_unit != 0 || size > bytes.size() - at) {
      // Of a record that has no length yet, and what lies behind the last one, there are only zeros.
      at += box_unit;
      continue;
    }
    const std::string_view content =
        bytes.substr(at + sizeof(tarn::box_record), size - sizeof(tarn::box_record));
    const bool fits = (kind == content_kind::site && take_site(content, into)) ||
                      (kind == content_kind::module && take_module(content, into.program, modules));
    if (!fits) ++into.left_out;
    at += size;
  }
  for (auto& [start, one] : modules) into.modules.push_back(std::move(one));
}

double weighted(std::uint64_t figure) { return static_cast<double>(figure); }

// Below zero after a torn read, or in a damaged box.
double difference(double all, double part) { return std::max(0.0, all - part); }

// Of a site whose samples are few, others may have been missed: as if one more block like those had been sampled.
site_figures figures_of(const tarn::box_site& from) {
  site_figures to;
  to.samples = weighted(from.samples);
  to.allocations = weighted(from.blocks) / weight_unit;
  to.live = weighted(from.live_blocks) / weight_unit;
  to.frees = difference(to.allocations, to.live);
  to.bytes = to.usable_bytes = weighted(from.bytes);
  to.live_bytes = weighted(from.live_bytes);
  to.freed_bytes = difference(to.bytes, to.live_bytes);
  to.peak_bytes = to.bytes_at_peak = to.live_bytes;
  to.lifetime_ns = std::isfinite(from.lifetime_seconds) ? std::max(0.0, from.lifetime_seconds) * 1e9 : 0;
  const double with_one_more = 1 + 1 / std::max(1.0, to.samples);
  to.allocations_variance = variance_of(from.blocks_variance) * with_one_more;
  to.bytes_variance = variance_of(from.bytes_variance) * with_one_more;
  to.live_bytes_variance = variance_of(from.live_bytes_variance);
  return to;
}

nlohmann::json refused_by(const box_content& box, const std::string& what) {
  nlohmann::json refused = {
      "page faults, times in malloc, sizes of blocks and threads: " + what + " has no figures of these",
      "what lived at the peak: " + what + " knows what lives, and the columns of the peak show that"};
  const bool has_callers = std::any_of(box.sites.begin(), box.sites.end(),
                                       [](const boxed_site& one) { return one.frames.size() > 1; });
  if (!has_callers && !box.sites.empty())
    refused.push_back(
        "callers: the process could not go through its stack, as with glibc before 2.35; a static program needs "
        "-static-pie or -Wl,--eh-frame-hdr");
  if (box.is_of_core) {
    refused.push_back("the memory of typed pools, buffer pools and scopes by name: a black box has it");
    return refused;
  }
  if (box.left_out > 0)
    refused.push_back(std::to_string(box.left_out) +
                      " call paths, which the process had not finished writing");
  if (box.engine.empty())
    refused.push_back(
        "the memory of typed pools, buffer pools and scopes by name: the engine's background thread had not written it");
  if (box.is_engine_cut)
    refused.push_back("some pools or scopes: there was no room in the box for the figures of so many");
  return refused;
}

double sum_in(const nlohmann::json& engine, const char* metric) {
  double sum = 0;
  const nlohmann::json* const members = member_in(engine, metric);
  if (members == nullptr || !members->is_object()) return 0;
  for (const auto& [name, bytes] : members->items()) sum += number_in(*members, name.c_str());
  return sum;
}

// A sampled block has pages of its own, and is in no class. Large ones are counted with the others of their kind.
double sampled_blocks(const box_content& box) {
  constexpr double largest_in_class = 0x1p18;
  double sum = 0;
  for (const boxed_site& one : box.sites) {
    const double blocks = weighted(one.figures.live_blocks) / weight_unit;
    const double size = blocks > 0 ? weighted(one.figures.live_bytes) / blocks : 0;
    if (size <= largest_in_class) sum += weighted(one.figures.live_samples) * size;
  }
  return sum;
}

void take_ranges(const tarn::box_header& head, box_content& box) {
  if (head.ranges_written == 0) return;
  const auto& newest = head.ranges[(head.ranges_written - 1) % 2];
  box.has_lost_ranges = newest.count > box_range::most;
  if (box.has_lost_ranges) return;
  auto& ranges = box.heap_ranges;
  for (std::size_t at = 0; at < newest.count; ++at)
    ranges.emplace_back(newest.all[at].start, newest.all[at].end);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t end = 0;
  const bool fit = std::all_of(ranges.begin(), ranges.end(), [&end](const auto& one) {
    return one.first >= std::exchange(end, one.second) && one.second > one.first;
  });
  if (!fit) ranges.clear();
}

// In use, without pages of free objects that went back to the system.
double backed_in(const nlohmann::json& engine) {
  return difference(number_in(engine, "tarn_in_use_bytes"), number_in(engine, "tarn_span_dropped_bytes"));
}

// At most what was in use and not known to be free, which has the rest of the pages of sampled blocks, too; at least the blocks that
// were counted.
std::optional<box_content::bounds> live_between(const box_content& box, double change,
                                                double change_variance) {
  const nlohmann::json& engine = box.engine;
  for (const char* const metric : {"tarn_in_use_bytes", "tarn_cached_bytes", "tarn_span_free_bytes"})
    if (member_in(engine, metric) == nullptr) return std::nullopt;
  const double cached = number_in(engine, "tarn_cached_bytes");
  const double idle = difference(sum_in(engine, "tarn_pool_bytes"), sum_in(engine, "tarn_pool_live_bytes")) +
                      sum_in(engine, "tarn_buffer_pool_kept_bytes");
  const double most = difference(number_in(engine, "tarn_in_use_bytes"),
                                 cached + number_in(engine, "tarn_span_free_bytes") + idle);
  double counted =
      sum_in(engine, "tarn_class_taken_bytes") + number_in(engine, "tarn_large_bytes") + sampled_blocks(box);
  for (const auto& [name, bytes] : box.unsampled()) counted += bytes;
  const double least = std::min(most, difference(counted, cached));
  return box_content::bounds{least, most, backed_in(engine), change, change_variance};
}

}  // namespace

void box_content::add(boxed_site&& one) {
  // A figure of what lives is a part of the whole; of a torn read, the one that is too large is lowered.
  one.figures.live_bytes = std::min(one.figures.live_bytes, one.figures.bytes);
  one.figures.live_blocks = std::min(one.figures.live_blocks, one.figures.blocks);
  one.figures.live_samples = std::min(one.figures.live_samples, one.figures.samples);
  sites.push_back(std::move(one));
}

double box_content::live_bytes() const {
  double sum = 0;
  for (const boxed_site& one : sites) sum += weighted(one.figures.live_bytes);
  return sum;
}

std::vector<std::pair<std::string, double>> box_content::unsampled() const {
  std::vector<std::pair<std::string, double>> all;
  for (const auto& [metric, kind] : {std::pair{"tarn_pool_live_bytes", "typed pool "},
                                     std::pair{"tarn_buffer_pool_live_bytes", "buffer pool "}}) {
    const nlohmann::json* const of = member_in(engine, metric);
    if (of == nullptr || !of->is_object()) continue;
    for (const auto& [name, bytes] : of->items()) all.emplace_back(kind + name, number_in(*of, name.c_str()));
  }
  if (const double arenas = number_in(engine, "tarn_arena_bytes"); arenas > 0)
    all.emplace_back("arenas", arenas);
  return all;
}

double box_content::bytes_per_sample() const {
  double bytes = 0;
  double variance = 0;
  for (const boxed_site& one : sites) {
    bytes += weighted(one.figures.bytes);
    variance += variance_of(one.figures.bytes_variance);
  }
  return bytes > 0 ? std::max(sample_bytes, variance / bytes) : sample_bytes;
}

double box_content::live_variance() const {
  double sum = variance_of_none(bytes_per_sample());
  for (const boxed_site& one : sites) sum += variance_of(one.figures.live_bytes_variance);
  return sum;
}

double box_content::live_blocks() const {
  double sum = 0;
  for (const boxed_site& one : sites) sum += weighted(one.figures.live_blocks);
  return sum / weight_unit;
}

bool is_box(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  char magic[sizeof tarn::box_magic] = {};
  struct stat kind {};
  const bool is_one = fstat(file, &kind) == 0 && S_ISREG(kind.st_mode) &&
                      pread(file, magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) &&
                      std::memcmp(magic, tarn::box_magic, sizeof magic) == 0;
  close(file);
  return is_one;
}

std::optional<box_content> read_box(const std::string& path, std::string& problem) {
  const box_bytes all = bytes_of(path, problem);
  if (!problem.empty()) return std::nullopt;
  const std::string& bytes = all.records;
  // All versions begin with the magic and the header's size.
  const std::size_t end_of_size = offsetof(tarn::box_header, header_bytes) + sizeof(std::uint32_t);
  const bool has_magic =
      bytes.size() >= end_of_size && std::memcmp(bytes.data(), tarn::box_magic, sizeof tarn::box_magic) == 0;
  const auto header_bytes =
      has_magic ? copy_of<std::uint32_t>(bytes, offsetof(tarn::box_header, header_bytes)) : 0;
  if (!has_magic || (header_bytes == sizeof(tarn::box_header) && bytes.size() < header_bytes)) {
    problem = path + " is no black box, or the process ended before it was complete";
    return std::nullopt;
  }
  const auto head =
      header_bytes == sizeof(tarn::box_header) ? copy_of<tarn::box_header>(bytes, 0) : tarn::box_header{};
  if (head.header_bytes != sizeof head || head.site_bytes != sizeof(tarn::box_site)) {
    problem = path + " was made by another version of tarn: read it with that one";
    return std::nullopt;
  }
  box_content box;
  box.process = static_cast<std::uint32_t>(head.process);
  box.start_ticks = head.start_ticks;
  box.pid_namespace = head.pid_namespace;
  box.start_ns = head.start_ns;
  box.sample_bytes = std::max(1.0, static_cast<double>(head.mean));
  box.program = text_of(head.program, sizeof head.program);
  box.arguments = words_in(head.arguments, sizeof head.arguments);
  box.heap_in_use = static_cast<double>(head.heap_in_use);
  box.heap_free = static_cast<double>(head.heap_free) + static_cast<double>(head.heap_metadata);
  take_ranges(head, box);
  box.engine = figures_in(all.figures);
  box.engine_ns = all.figures_ns;
  box.is_engine_cut = !all.figures.empty() && !all.figures.ends_with("# EOF\n");
  // What pools take is seen by no sample.
  const bool is_newest = head.figures_written > head.figures_before;
  if (is_newest && box.engine.contains("tarn_in_use_bytes")) {
    box.heap_in_use = backed_in(box.engine);
    box.heap_free = number_in(box.engine, "tarn_resident_upper_bytes") - box.heap_in_use;
  }
  if (head.has_ended != 0) box.status = head.status;
  take_records(bytes, box);
  if (head.figures_written > 0) {
    const auto& then = head.figures[(head.figures_written - 1) % 2];
    box.live_between =
        live_between(box, static_cast<double>(head.sampled_change) - static_cast<double>(then.sampled_change),
                     variance_of(head.change_variance - then.change_variance));
  }
  return box;
}

profile profile_of(const box_content& box) {
  profile p;
  p.mode = profile_mode::sample;
  p.modules = box.modules;
  call_paths paths;
  for (const boxed_site& one : box.sites) {
    std::uint32_t node = 0;
    for (auto frame = one.frames.rbegin(); frame != one.frames.rend(); ++frame) {
      node = paths.find_or_add(node, *frame);
    }
    site made;
    made.stack = node;
    made.figures = figures_of(one.figures);
    p.sites.push_back(std::move(made));
  }
  p.stacks = paths.take();
  nlohmann::json meta = {{"program", box.program},
                         {"arguments", box.arguments},
                         {"pid", box.process},
                         {"mode", "sample"},
                         {"black_box", true},
                         {"sample_bytes", box.bytes_per_sample()},
                         {"page_bytes", sysconf(_SC_PAGESIZE)},
                         {"allocator", "tarn"}};
  meta["core_file"] = box.is_of_core;
  set_meta(p, meta);
  meta["refused"] = refused_by(box, origin_of(p));
  if (box.start_ns > 0) meta["start"] = static_cast<double>(box.start_ns) * 1e-9;
  if (box.has_lost_ranges) meta["heap_ranges_lost"] = true;
  if (!box.engine.empty()) {
    meta["engine"] = box.engine;
    meta["engine_cut"] = box.is_engine_cut;
    meta["engine_ns"] = box.engine_ns - std::min(box.engine_ns, box.start_ns);
  }
  if (box.status) meta["exit"] = {{"status", *box.status}};
  if (box.signal != 0) meta["exit"] = {{"signal", box.signal}};
  set_meta(p, std::move(meta));
  return p;
}

}  // namespace tarn::profiler
