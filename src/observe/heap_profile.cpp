// SPDX-License-Identifier: MIT
#include "observe/heap_profile.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/text.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "observe/loaded_modules.hpp"
#include "observe/profile_snapshot.hpp"
#include "observe/protobuf.hpp"
#include "os/own_file.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::heap_profile {

namespace {

using protobuf::message;
using protobuf::output;

// Fields of profile.proto.
enum profile_field : unsigned {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  string_table = 6,
  time_nanos = 9,
  period_type = 11,
  period = 12,
  default_sample_type = 14,
};

// The string table begins with these.
enum text : unsigned {
  none,
  objects,
  count,
  bytes,
  space,
  alloc_objects,
  alloc_space,
  inuse_objects,
  inuse_space,
  inuse_resident,
  freed_lifetime,
  milliseconds,
  texts
};
constexpr const char* names[texts] = {"",
                                      "objects",
                                      "count",
                                      "bytes",
                                      "space",
                                      "alloc_objects",
                                      "alloc_space",
                                      "inuse_objects",
                                      "inuse_space",
                                      "inuse_resident",
                                      "freed_lifetime",
                                      "milliseconds"};

struct value_type {
  text name;
  text unit;
};
constexpr value_type values[] = {{alloc_objects, count},  {alloc_space, bytes},
                                 {inuse_objects, count},  {inuse_space, bytes},
                                 {inuse_resident, bytes}, {freed_lifetime, milliseconds}};
constexpr std::size_t value_count = sizeof values / sizeof *values;

std::uint64_t whole_blocks(std::uint64_t weight) {
  constexpr std::uint64_t unit = std::uint64_t{1} << byte_samples::weight_shift;
  return (weight + unit / 2) / unit;
}

tarn_profile_site site_of(const snapshot_site& s) {
  static_assert(tarn_profile_lifetimes == site_figures::lifetime_classes);
  const site_figures& f = s.figures;
  return {s.frames,
          s.count,
          whole_blocks(f.live_blocks),
          f.live_bytes,
          s.resident_bytes,
          whole_blocks(f.blocks),
          f.bytes,
          f.samples,
          f.live_samples,
          static_cast<std::uint64_t>(f.lifetime_seconds * 1e3),
          f.lifetimes,
          s.number};
}

// All addresses of the paths, each once.
class addresses {
 public:
  explicit addresses(const profile_snapshot& all) {
    for (std::size_t i = 0; i < all.count(); ++i) room_ += all[i].count;
    list_ = static_cast<std::uintptr_t*>(
        engine::blocks.allocate(std::max<std::size_t>(room_, 1) * sizeof *list_));
    if (list_ == nullptr) return;
    for (std::size_t i = 0; i < all.count(); ++i) {
      if (all[i].figures.samples == 0) continue;
      for (std::size_t k = 0; k < all[i].count; ++k) list_[count_++] = all[i].frames[k];
    }
    std::make_heap(list_, list_ + count_);
    std::sort_heap(list_, list_ + count_);
    count_ = static_cast<std::size_t>(std::unique(list_, list_ + count_) - list_);
  }
  ~addresses() {
    if (list_ != nullptr) engine::blocks.deallocate(list_, std::max<std::size_t>(room_, 1) * sizeof *list_);
  }
  addresses(const addresses&) = delete;
  addresses& operator=(const addresses&) = delete;

  [[nodiscard]] bool valid() const { return list_ != nullptr; }
  [[nodiscard]] const std::uintptr_t* begin() const { return list_; }
  [[nodiscard]] const std::uintptr_t* end() const { return list_ + count_; }
  // From 1 on.
  [[nodiscard]] std::uint64_t number_of(std::uintptr_t address) const {
    return static_cast<std::uint64_t>(std::lower_bound(begin(), end(), address) - begin()) + 1;
  }

 private:
  std::uintptr_t* list_ = nullptr;
  std::size_t room_ = 0;
  std::size_t count_ = 0;
};

void write_head(output& out, view shown) {
  for (const value_type& v : values)
    message<32>().number(1, v.name).number(2, v.unit).write(out, sample_type);
  message<32>().number(1, space).number(2, bytes).write(out, period_type);
  message<64> rest;
  rest.number(period, rate());
  timespec now{};
  if (!os::in_sandbox()) os::system_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
  rest.number(time_nanos,
              static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec));
  rest.number(default_sample_type, shown == view::heap ? inuse_space : alloc_space);
  rest.write_content(out);
}

void write_sample(output& out, const snapshot_site& from, const addresses& known) {
  const tarn_profile_site s = site_of(from);
  std::uint64_t numbers[call_sites::most_frames];
  for (std::size_t i = 0; i < s.frame_count; ++i) numbers[i] = known.number_of(s.frames[i]);
  const std::uint64_t figures[value_count] = {s.blocks,     s.bytes,          s.live_blocks,
                                              s.live_bytes, s.resident_bytes, s.lifetime_ms};
  message<10 * (call_sites::most_frames + value_count) + 32> m;
  m.numbers(1, numbers, s.frame_count).numbers(2, figures, value_count).write(out, sample);
}

// Frames are return addresses; the call that made them ends one byte before.
void write_locations(output& out, const addresses& known, const loaded_modules& modules) {
  std::uint64_t number = 0;
  for (const std::uintptr_t address : known) {
    const std::size_t module = modules.index_of(address - 1);
    message<64>()
        .number(1, ++number)
        .number(2, module < modules.count() ? module + 1 : 0)
        .number(3, address - 1)
        .write(out, location);
  }
}

// Each segment has two strings: the path and the build id.
void write_mappings(output& out, const loaded_modules& modules) {
  for (std::size_t i = 0; i < modules.count(); ++i) {
    message<96>()
        .number(1, i + 1)
        .number(2, modules[i].start)
        .number(3, modules[i].end)
        .number(4, modules[i].file_offset)
        .number(5, texts + 2 * i)
        .number(6, modules[i].build_id_length != 0 ? texts + 2 * i + 1 : 0)
        .write(out, mapping);
  }
}

void write_strings(output& out, const loaded_modules& modules) {
  for (const char* name : names) protobuf::write_text(out, string_table, name);
  for (std::size_t i = 0; i < modules.count(); ++i) {
    const loaded_segment& s = modules[i];
    protobuf::write_text(out, string_table, s.path);
    char digits[2 * loaded_segment::longest_build_id];
    for (std::size_t k = 0; k < s.build_id_length; ++k) {
      digits[2 * k] = "0123456789abcdef"[s.build_id[k] >> 4U];
      digits[2 * k + 1] = "0123456789abcdef"[s.build_id[k] & 15U];
    }
    protobuf::write_text(out, string_table, {digits, 2 * s.build_id_length});
  }
}

// A descriptor that a profile is written to, and the first error.
struct target {
  long descriptor;
  bool is_new_file = false;
  std::size_t written = 0;
  long error = 0;

  static void write(void* context, const char* data, std::size_t size) {
    target& to = *static_cast<target*>(context);
    to.written += size;
    if (to.error == 0 && to.is_new_file && !os::may_write(to.written)) to.error = -EFBIG;
    if (to.error == 0) to.error = os::write_all(to.descriptor, data, size);
  }
};

// A process of a tree has a file of its own. The name is not one that another user could have put there: O_EXCL.
[[gnu::destructor]] void dump_at_exit() {
  const char* const path = options::profile_at_exit();
  if (path == nullptr || os::has_entered_sandbox()) return;
  text_buffer<512> name;
  name.put(path).put('.').number(static_cast<std::uint64_t>(os::system_call(SYS_getpid))).put('\0');
  const long descriptor =
      os::system_call(SYS_openat, AT_FDCWD, name.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  target to{.descriptor = descriptor, .is_new_file = true};
  const bool written = descriptor >= 0 && write(view::heap, target::write, &to) && to.error == 0;
  if (descriptor >= 0) os::system_call(SYS_close, descriptor);
  if (written) return;
  text_buffer<600> complaint;
  complaint.put("tarn: cannot write the heap profile to ").put(name.data()).put(" (TARN_PROFILE_FILE)\n");
  os::write_notice(complaint);
}

}  // namespace

bool start(std::size_t rate) {
  text_buffer<32> value;
  value.number(rate).put('\0');
  engine::attach_thread();
  return options::set("profile", rate == 0 ? "on" : value.data()) == 0;
}

void stop() {
  engine::attach_thread();
  options::set("profile", "off");
}

std::size_t rate() { return engine::profile_samples.mean(); }

bool visit_sites(site_visitor visit, void* context) {
  const profile_snapshot all;
  if (!all.valid()) return false;
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (all[i].figures.samples == 0) continue;
    const tarn_profile_site site = site_of(all[i]);
    visit(context, &site);
  }
  return true;
}

bool write(view shown, receiver write, void* context) {
  const profile_snapshot all;
  const loaded_modules modules;
  if (!all.valid() || !modules.valid()) return false;
  const addresses known(all);
  if (!known.valid()) return false;
  output out(write, context);
  write_head(out, shown);
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (all[i].figures.samples != 0) write_sample(out, all[i], known);
  }
  write_mappings(out, modules);
  write_locations(out, known, modules);
  write_strings(out, modules);
  out.flush();
  return true;
}

int dump(int descriptor) {
  target to{.descriptor = descriptor};
  return write(view::heap, target::write, &to) ? static_cast<int>(-to.error) : ENOMEM;
}

}  // namespace tarn::heap_profile
