// SPDX-License-Identifier: MIT
#include "profiler/model/pprof_profile.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "profiler/format/pprof_message.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/call_paths.hpp"

namespace tarn::profiler {

namespace {

using pprof::message_field;
using pprof::message_reader;

// No heap profile comes near these.
constexpr std::size_t most_message_bytes = std::size_t{256} << 20;
constexpr std::size_t most_made_bytes = std::size_t{512} << 20;
constexpr std::size_t most_path_frames = std::size_t{1} << 20;  // of one call path
constexpr double usual_period = 512 << 10;  // of tarn's and of Go's profiles, where one does not say it

constexpr std::uint64_t named_from = std::uint64_t{1}
                                     << 31U;  // in a module: what has its names in the profile
constexpr char gzip_magic[] = {'\x1f', '\x8b'};

// Which value of a sample is which figure.
enum value_kind : std::size_t { live, live_bytes, allocations, bytes, value_kinds };
constexpr std::string_view value_names[] = {"inuse_objects", "inuse_space", "alloc_objects", "alloc_space"};
// By which `tarn export` calls them.
constexpr std::string_view metric_of_value[] = {"live", "live_bytes", "allocations", "bytes"};
// Of profiles that know only what lived: of V8, and what pprof makes of jemalloc's.
constexpr std::string_view short_names[] = {"objects", "space"};

class opened {
 public:
  // A pipe is not waited for.
  explicit opened(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~opened() {
    if (number_ >= 0) close(number_);
  }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;

  bool is_file() const {
    struct stat kind {};
    return number_ >= 0 && fstat(number_, &kind) == 0 && S_ISREG(kind.st_mode);
  }
  // From its beginning on.
  std::string take(std::size_t most) const {
    struct stat kind {};
    if (fstat(number_, &kind) != 0) return {};
    std::string text(std::min(most, static_cast<std::size_t>(kind.st_size)), '\0');
    std::size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < text.size();
         size += static_cast<std::size_t>(std::max<ssize_t>(0, got)))
      got = pread(number_, text.data() + size, text.size() - size, static_cast<off_t>(size));
    text.resize(size);
    return text;
  }

 private:
  int number_;
};

class pprof_reader {
 public:
  explicit pprof_reader(const std::string& path) : path_(path), text_(message_in(path)) {}

  profile run() {
    each_field(text_, [this](const message_field& field) {
      if (field.number == pprof::string_table) strings_.push_back(field.bytes);
      if (field.number == pprof::function) take_function(field.bytes);
      if (field.number == pprof::period) period_ = static_cast<double>(field.value);
      if (field.number == pprof::time_nanos) {
        if (time_ns_ != 0) refuse("it is several profiles, one behind the other; give them one by one");
        time_ns_ = field.value;
      }
      count(sizeof(std::string_view));
    });
    take_types();
    each_field(text_, [this](const message_field& field) {
      if (field.number == pprof::mapping) take_mapping(field.bytes);
    });
    each_field(text_, [this](const message_field& field) {
      if (field.number == pprof::location) take_location(field.bytes);
    });
    each_field(text_, [this](const message_field& field) {
      if (field.number == pprof::sample) take_sample(field.bytes);
    });
    for (auto& [stack, made] : sites_) {
      made.live_bytes_variance = std::min(made.live_bytes_variance, made.bytes_variance);
      p_.sites.push_back({.stack = stack, .figures = made, .sizes = {}});
    }
    p_.stacks = paths_.take();
    set_meta(
        p_,
        {{"program", program()},
         {"start", static_cast<double>(time_ns_) * 1e-9},
         {"mode", "sample"},
         {"only_known", known()},
         {"sample_bytes", is_of_export_ && period_ <= 1 ? 0 : period_},  // 0: of all blocks
         {"page_bytes", sysconf(_SC_PAGESIZE)},
         {"refused",
          {"page faults, times in malloc, sizes of blocks and threads: a profile of pprof has no figures of these"}}});
    return std::move(p_);
  }

 private:
  struct module_place {
    std::uint64_t begin = 0;  // here; the addresses of several processes may be in one profile
    std::uint64_t start = 0;  // there
    std::uint64_t file_offset = 0;
    std::string_view path;
  };

  [[noreturn]] void refuse(const std::string& why) const {
    throw profile_error(path_ + " cannot be read as a heap profile of pprof: " + why);
  }
  [[noreturn]] void refuse_damaged() const { refuse("it is damaged; write or download it again"); }

  void count(std::size_t bytes) {
    made_bytes_ += bytes;
    if (made_bytes_ > most_made_bytes)
      refuse("it holds more than any process has; give the profile of one process");
  }

  std::string message_in(const std::string& path) const {
    const opened file(path);
    std::string text = file.take(most_message_bytes + 1);
    if (text.size() > most_message_bytes)
      refuse("it is larger than 256 MiB; give the profile of one process");
    return text.starts_with(std::string_view(gzip_magic, sizeof gzip_magic)) ? unpacked(text) : text;
  }

  std::string unpacked(std::string& text) const {
    z_stream stream = {};
    constexpr int with_header = 16;
    if (inflateInit2(&stream, MAX_WBITS + with_header) != Z_OK) refuse("there is no memory");
    const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, &inflateEnd);
    stream.next_in = reinterpret_cast<Bytef*>(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    std::string out;
    std::size_t size = 0;
    for (int state = Z_OK; state != Z_STREAM_END;) {
      // Once it is full, not for each part: there may be many, and new bytes are written with zeros.
      if (size == out.size())
        out.resize(std::min(most_message_bytes + 1, std::max<std::size_t>(1 << 16, 2 * size)));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
      stream.avail_out = static_cast<uInt>(out.size() - size);
      state = inflate(&stream, Z_NO_FLUSH);
      size = out.size() - stream.avail_out;
      if (size > most_message_bytes) refuse("it is larger than 256 MiB; give the profile of one process");
      if (state != Z_OK && state != Z_STREAM_END) refuse_damaged();
      // A file may have several parts.
      if (state == Z_STREAM_END && stream.avail_in != 0) {
        if (inflateReset(&stream) != Z_OK) refuse("there is no memory");
        state = Z_OK;
      }
    }
    out.resize(size);
    return out;
  }

  template <class Take>
  void each_field(std::string_view text, const Take& take) const {
    message_reader reader(text);
    for (message_field field; reader.next(field);) take(field);
    if (reader.is_broken()) refuse_damaged();
  }

  // A file that is cut off between two fields lacks what its first ones refer to.
  std::string_view string_at(std::uint64_t number) const {
    if (number < strings_.size()) return strings_[number];
    if (number != 0) refuse_damaged();
    return {};
  }

  void take_function(std::string_view text) {
    std::uint64_t id = 0;
    std::uint64_t system_name = 0;
    std::array<std::uint64_t, 2> made{};
    each_field(text, [&](const message_field& field) {
      if (field.number == 1) id = field.value;
      if (field.number == 2) made[0] = field.value;
      if (field.number == 3) system_name = field.value;
      if (field.number == 4) made[1] = field.value;
    });
    if (made[0] == 0) made[0] = system_name;  // string 0 is empty
    functions_.emplace(id, made);
    count(128);
  }

  void take_types() {
    std::size_t at = 0;
    each_field(text_, [&](const message_field& field) {
      if (field.number == pprof::period_type) {
        const auto [name, unit] = type_in(field.bytes);
        is_of_export_ = name == "bytes";
        has_bytes_period_ |= name == "space" || is_of_export_;
      }
      if (field.number != pprof::sample_type) return;
      const auto [name, unit] = type_in(field.bytes);
      if (const std::size_t kind = kind_of(name); kind != value_kinds) {
        if ((kind == live_bytes || kind == bytes) && unit != "bytes")
          refuse("its unit of " + std::string(name) + " is " + std::string(unit) + ", not bytes");
        kinds_[kind] = at;
      }
      ++at;
    });
    types_ = at;
    if (types_ == 0)
      refuse("it is empty; a query of a store that finds nothing gives this: ask for another time");
    if (!kinds_[live_bytes])
      refuse("it has no figures of live memory (inuse_space); for others: go tool pprof");
    if (!has_bytes_period_ || !(period_ > 0)) period_ = usual_period;
  }

  static std::size_t kind_of(std::string_view name) {
    for (const std::span<const std::string_view> names :
         {std::span<const std::string_view>(value_names), std::span<const std::string_view>(metric_of_value),
          std::span<const std::string_view>(short_names)}) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    }
    return value_kinds;
  }

  // Name and unit.
  std::pair<std::string_view, std::string_view> type_in(std::string_view type) const {
    std::uint64_t name = 0, unit = 0;
    each_field(type, [&](const message_field& field) {
      if (field.number == 1) name = field.value;
      if (field.number == 2) unit = field.value;
    });
    return {string_at(name), string_at(unit)};
  }

  // Stores may put a library first.
  std::string program() const {
    const auto found = std::find_if(p_.modules.begin(), p_.modules.end(), [](const module_info& each) {
      return each.path.find(".so") == std::string::npos && each.path.starts_with('/');
    });
    return found != p_.modules.end() ? found->path : std::string();
  }

  nlohmann::json known() const {
    nlohmann::json names = nlohmann::json::array();
    for (std::size_t kind = 0; kind < value_kinds; ++kind)
      if (kinds_[kind]) names.push_back(metric_of_value[kind]);
    return names;
  }

  void take_mapping(std::string_view text) {
    std::array<std::uint64_t, 7> found{};
    each_field(text, [&](const message_field& field) {
      if (field.number < found.size()) found[field.number] = field.value;
    });
    const auto [id, start, offset, path, build_id] =
        std::array{found[1], found[2], found[4], found[5], found[6]};
    const std::uint64_t begin = (std::uint64_t{modules_.size()} + 1) << 32U;
    if (!modules_.emplace(id, module_place{begin, start, offset, string_at(path)}).second) return;
    count(256 + string_at(path).size() + string_at(build_id).size());
    if (!string_at(path).empty())
      p_.modules.push_back({std::string(string_at(path)), std::string(string_at(build_id)), begin,
                            begin + (std::uint64_t{1} << 32U), offset});
  }

  void take_location(std::string_view text) {
    std::uint64_t id = 0, module = 0, address = 0;
    std::vector<source_frame> frames;
    each_field(text, [&](const message_field& field) {
      if (field.number == 1) id = field.value;
      if (field.number == 2) module = field.value;
      if (field.number == 3) address = field.value;
      if (field.number == 4) frames.push_back(frame_in(field.bytes));
    });
    const auto found = modules_.find(module);
    if (module != 0 && found == modules_.end()) refuse_damaged();
    const module_place where = found != modules_.end() ? found->second : module_place();
    // Without a name it keeps its place in its file, whose symbols may name it.
    const bool has_place = frames.empty() && !where.path.empty() && address - where.start < named_from;
    const std::uint64_t own =
        where.begin + (has_place ? address - where.start : named_from + locations_.size());
    if (!locations_.emplace(id, own).second) return;
    count(256);
    if (has_place) return;
    if (frames.empty()) {
      frames.push_back({.function = unnamed(where, address)});
      count(sizeof(source_frame) + frames.front().function.size());
    }
    for (std::size_t at = 0; at + 1 < frames.size(); ++at) frames[at].inlined = true;
    p_.symbols.emplace(own, std::move(frames));
  }

  source_frame frame_in(std::string_view line) {
    std::uint64_t id = 0, number = 0;
    each_field(line, [&](const message_field& field) {
      if (field.number == 1) id = field.value;
      if (field.number == 2) number = field.value;
    });
    const auto found = functions_.find(id);
    if (id != 0 && found == functions_.end()) refuse_damaged();
    const auto [name, file] = found != functions_.end() ? found->second : std::array<std::uint64_t, 2>{};
    count(sizeof(source_frame) + string_at(name).size() + string_at(file).size());
    return {.function = std::string(string_at(name)),
            .file = std::string(string_at(file)),
            .line = static_cast<std::uint32_t>(std::min<std::uint64_t>(number, UINT32_MAX))};
  }

  // As unknown_function(), but of the addresses in the process.
  static std::string unnamed(const module_place& where, std::uint64_t address) {
    const std::uint64_t in_file = address - where.start + where.file_offset;
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%" PRIx64 ")", in_file);
    return "?? (" + std::string(where.path.substr(where.path.rfind('/') + 1)) + offset;
  }

  // False: they are broken, or there are more than `most`. A number of a packed field ends with a byte below 128.
  static bool add_at_most(std::size_t most, const message_field& field, std::vector<std::uint64_t>& to) {
    const bool is_packed = field.bytes.data() != nullptr;
    const auto added = is_packed ? std::count_if(field.bytes.begin(), field.bytes.end(),
                                                 [](char each) { return (each & 0x80) == 0; })
                                 : 1;
    return to.size() + static_cast<std::size_t>(added) <= most && pprof::add_numbers(field, to);
  }

  void take_sample(std::string_view text) {
    path_of_sample_.clear();
    values_.clear();
    each_field(text, [this](const message_field& field) {
      if (field.number == 1 && !add_at_most(most_path_frames, field, path_of_sample_))
        refuse("it is damaged, or has a call path of more than a million frames; write or download it again");
      if (field.number == 2 && !add_at_most(types_, field, values_)) refuse_damaged();
    });
    if (values_.size() != types_) refuse_damaged();
    std::array<double, value_kinds> value{};
    for (std::size_t kind = 0; kind < value_kinds; ++kind) {
      if (!kinds_[kind]) continue;
      if (values_[*kinds_[kind]] > INT64_MAX)
        refuse("it has figures below zero, as a difference has; give the two profiles that it was made from");
      value[kind] = static_cast<double>(values_[*kinds_[kind]]);
    }
    if (!kinds_[allocations]) value[allocations] = value[live];
    if (!kinds_[bytes]) value[bytes] = value[live_bytes];
    std::uint32_t node = 0;
    for (auto each = path_of_sample_.rbegin(); each != path_of_sample_.rend(); ++each) {
      const auto found = locations_.find(*each);
      if (found == locations_.end()) refuse_damaged();
      const std::size_t before = paths_.nodes().size();
      node = paths_.find_or_add(node, found->second);
      if (paths_.nodes().size() != before) count(2 * sizeof(stack_node));
    }
    const auto [made, is_new] = sites_.try_emplace(node);
    if (is_new) count(sizeof(site) + sizeof(site_figures) + 64);
    site_figures& to = made->second;
    const estimate all =
        estimate_of(std::max(value[allocations], value[live]), std::max(value[bytes], value[live_bytes]));
    to.live += value[live];
    to.live_bytes += value[live_bytes];
    to.allocations += all.blocks;
    to.bytes += all.bytes;
    to.samples += all.samples;
    to.allocations_variance += all.blocks_variance;
    to.bytes_variance += all.bytes_variance;
    to.live_bytes_variance += estimate_of(value[live], value[live_bytes]).bytes_variance;
    to.usable_bytes = to.bytes;
    to.frees = to.allocations - to.live;
    to.freed_bytes = to.bytes - to.live_bytes;
    to.peak_bytes = to.bytes_at_peak = to.live_bytes;
  }

  // What one sample of the file stands for: blocks of one size, as a writer puts those of each size for themselves.
  struct estimate {
    double blocks = 0;
    double bytes = 0;
    double samples = 0;
    double blocks_variance = 0;
    double bytes_variance = 0;
  };

  // Of samples that each byte begins with the same probability: a block of s bytes is one with p = 1 - exp(-s / period), and
  // stands for 1 / p blocks.
  estimate estimate_of(double known_blocks, double bytes) const {
    estimate of{known_blocks, bytes};
    if (bytes <= 0) return of;
    const double blocks = known_blocks > 0 ? known_blocks : bytes;
    const double size = bytes / blocks;
    const double chance = -std::expm1(-size / period_);
    of.samples = blocks * chance;
    of.blocks_variance = blocks * (1 - chance) / chance;
    of.bytes_variance = of.blocks_variance * size * size;
    return of;
  }

  const std::string& path_;
  std::string text_;
  std::vector<std::string_view> strings_;                            // of text_
  std::map<std::uint64_t, std::array<std::uint64_t, 2>> functions_;  // name and file
  std::map<std::uint64_t, module_place> modules_;
  std::map<std::uint64_t, std::uint64_t> locations_;  // their addresses here
  std::array<std::optional<std::size_t>, value_kinds> kinds_;
  std::size_t types_ = 0;
  double period_ = 0;
  bool has_bytes_period_ = false;
  bool is_of_export_ = false;  // of tarn export
  std::uint64_t time_ns_ = 0;
  std::vector<std::uint64_t> path_of_sample_;
  std::vector<std::uint64_t> values_;
  call_paths paths_;
  std::map<std::uint32_t, site_figures> sites_;  // by path
  profile p_;
  std::size_t made_bytes_ = 0;
};

constexpr std::size_t looked_at = 512;

// Empty: it cannot be unpacked.
std::string unpacked_begin(std::string begin) {
  z_stream stream = {};
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) return "";
  std::string text(looked_at, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(begin.data());
  stream.avail_in = static_cast<uInt>(begin.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  text.resize(text.size() - stream.avail_out);
  return text;
}

// The most fields of each message within a profile, by its number; 0: it has no such message.
constexpr unsigned most_fields(unsigned number) {
  constexpr std::array<unsigned, 7> by_number = {0, 2, 3, 10, 5, 5, 0};
  return number == pprof::period_type ? 2 : number < by_number.size() ? by_number[number] : 0;
}

// Whether a profile may begin like that: writers put its messages in any order; Go's processor profiles begin with the time, in
// nanoseconds since 1970.
bool begins_as_pprof(std::string_view text) {
  message_reader fields(text);
  message_field first;
  constexpr std::uint64_t year_2001 = 1'000'000'000'000'000'000;
  if (!fields.next(first)) return false;
  if (first.number == pprof::time_nanos && first.bytes.data() == nullptr) return first.value >= year_2001;
  if (first.number == pprof::string_table) return first.bytes.data() != nullptr && first.bytes.empty();
  if (first.bytes.empty()) return false;
  const bool is_type = first.number == pprof::sample_type || first.number == pprof::period_type;
  message_reader inner(first.bytes);
  message_field each;
  while (inner.next(each))
    if (each.number > most_fields(first.number) || (is_type && each.bytes.data() != nullptr)) return false;
  return !inner.is_broken();
}

}  // namespace

bool is_pprof(const std::string& path) {
  const opened file(path);
  if (!file.is_file()) return false;
  const std::string begin = file.take(looked_at);
  if (!begin.starts_with(std::string_view(gzip_magic, sizeof gzip_magic))) return begins_as_pprof(begin);
  // Of another file that is packed, its own reader says what it is; one that cannot be unpacked is called damaged.
  const std::string text = unpacked_begin(begin);
  return text.empty() || begins_as_pprof(text);
}

profile read_pprof(const std::string& path) { return pprof_reader(path).run(); }

}  // namespace tarn::profiler
