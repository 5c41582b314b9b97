// SPDX-License-Identifier: MIT
#include "samples/followed/black_box.hpp"

#include <fcntl.h>
#include <link.h>
#include <linux/falloc.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "os/clock.hpp"
#include "os/held_signals.hpp"
#include "os/input_file.hpp"
#include "os/memory.hpp"
#include "os/own_file.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "samples/byte_samples.hpp"
#include "samples/followed/call_sites.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn {

namespace {

// So much is backed at a time.
constexpr std::size_t backed_at_once = 64 * kib;
// What a site of the deepest path with a module for each frame may take.
constexpr std::size_t least_room = 32 * kib;
// And at once where the kernel (before 5.14) does not back pages of a file when asked.
constexpr std::size_t fixed_bytes = 1 * mib;
constexpr std::size_t fixed_figures_bytes = 64 * kib;  // of each text
constexpr int populate_write = 23;                     // MADV_POPULATE_WRITE; not in older headers
constexpr std::int64_t figures_ms = 1000;
constexpr std::int64_t figures_missing_ms = 3000;

// When the process started, in the clock ticks of /proc/PID/stat: with its id, who it is. 0: not known.
std::uint64_t own_start_ticks() {
  char text[1024];
  os::input_file file("/proc/self/stat");
  const std::size_t size = file.read(text, sizeof text);
  std::string_view rest(text, size);
  // The name in parentheses may contain anything.
  rest.remove_prefix(std::min(rest.size(), rest.rfind(')') + 1));
  constexpr int fields_before = 20;
  for (int i = 0; i < fields_before; ++i) take_until(rest, ' ');
  std::uint64_t ticks = 0;
  return take_number(rest, ticks) ? ticks : 0;
}

using name_buffer = text_buffer<black_box::longest_folder + 64>;

// How many images of a process may have left a file that the next one cannot remove.
constexpr std::uint32_t most_images = 9;

// The id and the start are a process's own within its namespace.
void put_name(name_buffer& out, const char* folder, std::uint64_t ticks, std::uint64_t pid_namespace,
              std::uint32_t image) {
  out.put(folder).put('/').number(static_cast<std::uint64_t>(os::system_call(SYS_getpid)));
  out.put('-').number(ticks).put('-').number(pid_namespace);
  if (image > 0) out.put('-').number(image);
  out.put(".box").put('\0');
}

// A new file that only this user may read. Another of this name is of an earlier image of this process, if `is_own_name`: it stays
// where that had another user and the folder is sticky (mode 1777).
long create(const char* path, bool is_own_name) {
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  long descriptor = os::system_call(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (descriptor != -EEXIST || !is_own_name) return descriptor;
  os::system_call(SYS_unlinkat, AT_FDCWD, path, 0);
  return os::system_call(SYS_openat, AT_FDCWD, path, flags, 0600);
}

void complain(const char* folder, const char* what, long error) {
  text_buffer<600> line;
  line.put("tarn: no black box in ").put(folder).put(" (TARN_BLACK_BOX): ").put(what);
  if (error < 0) line.put(" (error ").number(static_cast<std::uint64_t>(-error)).put(')');
  line.put('\n');
  os::write_notice(line);
}

bool back_pages(void* base, std::size_t from, std::size_t to) {
  return !os::is_error(
      os::system_call(SYS_madvise, static_cast<char*>(base) + from, to - from, populate_write));
}

// Code on a thread's own stack stays mapped while the thread is here, and so do its module's tables.
void find_build_id(const ElfW(Phdr) & part, std::uintptr_t bias, box_module& out) {
  const std::uint64_t unit = part.p_align == 8 ? 8 : 4;
  std::uintptr_t at = bias + part.p_vaddr;
  const std::uintptr_t end = at + std::min<std::uint64_t>(part.p_memsz, 16 * kib);
  while (at + sizeof(ElfW(Nhdr)) + 4 <= end) {
    const auto& note = *reinterpret_cast<const ElfW(Nhdr)*>(at);
    const std::size_t content = align_up(sizeof note + note.n_namesz, unit);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(reinterpret_cast<const char*>(at) + sizeof note, "GNU", 4) == 0) {
      out.build_id_length = std::min<std::uint32_t>(note.n_descsz, sizeof out.build_id);
      std::memcpy(out.build_id, reinterpret_cast<const char*>(at) + content, out.build_id_length);
      return;
    }
    at += content + align_up(note.n_descsz, unit);
  }
}

// The segment that has the address, and the build id. False: the program headers are not where they usually are.
bool find_segment(const unwind::loaded_module& found, std::uintptr_t address, box_module& out) {
  const ElfW(Phdr)* parts = nullptr;
  std::size_t count = 0;
  if (found.path == nullptr || *found.path == '\0') {
    // The program itself, whose parts may lie apart: the linker then knows a part by itself.
    parts = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
    count = getauxval(AT_PHNUM);
  } else {
    const auto& head = *reinterpret_cast<const ElfW(Ehdr)*>(found.start);
    if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof *parts) return false;
    parts = reinterpret_cast<const ElfW(Phdr)*>(found.start + head.e_phoff);
    count = head.e_phnum;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t start = found.base + parts[i].p_vaddr;
    if (parts[i].p_type == PT_NOTE && out.build_id_length == 0) find_build_id(parts[i], found.base, out);
    if (parts[i].p_type == PT_LOAD && address - start < parts[i].p_filesz) {
      out.start = start;
      out.end = start + parts[i].p_filesz;
      out.file_offset = parts[i].p_offset;
    }
  }
  return out.end != 0;
}

std::uint64_t now_since_1970() {
  timespec now{};
  os::system_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// The number of the namespace in which the process's id is one; 0: not known.
std::uint64_t own_pid_namespace() {
  char text[64];
  const long size = os::system_call(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", text, sizeof text);
  if (size <= 0) return 0;
  std::string_view rest(text, static_cast<std::size_t>(size));
  take_until(rest, '[');
  std::uint64_t number = 0;
  return take_number(rest, number) ? number : 0;
}

// The file of the program. Where the dynamic linker was called with its name, it is not the one that was executed.
template <std::size_t Room>
void find_program(char (&path)[Room]) {
  os::system_call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, Room - 1);
  if (getauxval(AT_BASE) != 0) return;
  const std::uintptr_t headers = getauxval(AT_PHDR);
  os::line_reader<Room + 128> maps("/proc/self/maps");
  for (std::string_view line; maps.next(line);) {
    const std::uintptr_t start = hexadecimal(take_until(line, '-'));
    const std::uintptr_t end = hexadecimal(take_until(line, ' '));
    if (headers < start || headers >= end) continue;
    const std::string_view name = part_of(line, line.find('/'));
    if (name.empty() || name.size() >= Room) return;
    std::memset(path, 0, Room);
    std::memcpy(path, name.data(), name.size());
    return;
  }
}

// A byte that is 0 in each child until it is set there. Null: the system has none.
std::uint8_t* make_sentinel() {
  const std::size_t bytes = os::system_page_size();
  const long page =
      os::system_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (os::is_error(page)) return nullptr;
  constexpr int wipe_on_fork = 18;  // MADV_WIPEONFORK
  if (os::is_error(os::system_call(SYS_madvise, page, bytes, wipe_on_fork))) {
    os::system_call(SYS_munmap, page, bytes);
    return nullptr;
  }
  return reinterpret_cast<std::uint8_t*>(page);
}

}  // namespace

// ---- the file ----

// Maps a new file whose first pages are backed. `is_first`: at load; a child has lost the rights to the folder, perhaps by
// intention, and is silent.
bool black_box::make_file(bool is_first) {
  const auto refused = [this, is_first](const char* what, long error) {
    if (is_first) complain(folder_, what, error);
    return false;
  };
  if (!os::may_write(most_box_bytes))
    return refused("the limit on the size of files (ulimit -f) is below 8 MiB", 0);
  start_ticks_ = own_start_ticks();
  pid_namespace_ = own_pid_namespace();
  long descriptor = -EEXIST;
  for (image_ = 0; descriptor == -EEXIST && image_ <= most_images; ++image_) {
    name_buffer path;
    put_name(path, folder_, start_ticks_, pid_namespace_, image_);
    descriptor = create(path.data(), start_ticks_ != 0 && pid_namespace_ != 0);
  }
  --image_;
  if (descriptor == -EEXIST) return refused("remove the files of this process's id there", descriptor);
  if (descriptor == -ENOSPC || descriptor == -EDQUOT)
    return refused("the file system has no room for another file", descriptor);
  if (descriptor == -EMFILE || descriptor == -ENFILE)
    return refused("there are too many open files", descriptor);
  if (descriptor < 0) {
    return refused(
        "the file cannot be made: the folder must exist, and this user must be able to write to it",
        descriptor);
  }
  const char* problem = "the file cannot have 8 MiB";
  void* base = nullptr;
  std::size_t backed = backed_at_once;
  long result = os::held_signals().taken(os::system_call(SYS_ftruncate, descriptor, most_box_bytes));
  if (result >= 0) {
    problem = "there is no address space for it";
    result = os::system_call(SYS_mmap, 0, most_box_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                             descriptor, 0);
  }
  if (!os::is_error(result)) {
    base = reinterpret_cast<void*>(result);
    grows_ = back_pages(base, 0, backed_at_once);
    if (!grows_) {
      problem = "the file system has no room";
      backed = fixed_bytes;
      result = os::system_call(SYS_fallocate, descriptor, 0, 0, fixed_bytes);
      for (const std::size_t at : {box_figures_at, box_figures_at + box_figures_room})
        if (result >= 0) result = os::system_call(SYS_fallocate, descriptor, 0, at, fixed_figures_bytes);
    }
    figures_backed_ = grows_ ? 0 : fixed_figures_bytes;
  }
  os::system_call(SYS_close, descriptor);
  if (os::is_error(result)) {
    if (base != nullptr) os::system_call(SYS_munmap, base, most_box_bytes);
    remove_file();
    return refused(problem, result);
  }
  backed_.store(backed, std::memory_order_relaxed);
  begin(base);
  return true;
}

void black_box::begin(void* base) {
  auto* const h = static_cast<box_header*>(base);
  h->header_bytes = sizeof(box_header);
  h->site_bytes = sizeof(box_site);
  h->bytes = most_box_bytes;
  h->process = static_cast<std::uint64_t>(os::system_call(SYS_getpid));
  h->start_ticks = start_ticks_;
  h->pid_namespace = pid_namespace_;
  h->start_ns = now_since_1970();
  h->mean = mean_;
  find_program(h->program);
  os::input_file("/proc/self/cmdline").read(h->arguments, sizeof h->arguments - 1);
  std::memcpy(h->magic, box_magic, sizeof box_magic);
  const box_header* const parents = header_;
  const std::uint64_t of_parents = std::exchange(modules_, 0);
  header_ = h;
  next_.store(align_up(sizeof(box_header), box_unit), std::memory_order_relaxed);
  if (parents != nullptr) copy_modules(parents, of_parents);
  ++epoch_;
  // release: partner of the acquire in is_own(): the box is complete.
  __atomic_store_n(sentinel_, std::uint8_t{1}, __ATOMIC_RELEASE);
}

bool black_box::open(const char* folder) {
  if (is_wanted() || std::strlen(folder) >= longest_folder) return false;
  sentinel_ = make_sentinel();
  if (sentinel_ == nullptr) {
    complain(folder, "the kernel cannot tell a child from its parent (MADV_WIPEONFORK)", 0);
    return false;
  }
  std::memcpy(folder_, folder, std::strlen(folder) + 1);
  if (make_file(true)) return true;
  folder_[0] = '\0';
  return false;
}

void black_box::note_mean(std::size_t bytes) {
  mean_ = bytes;
  if (is_own()) header_->mean = bytes;
}

void black_box::prepare() {
  if (os::has_entered_sandbox()) return;
  if (!is_own()) {
    // In a child, whose other threads, if it has any, go on without a box meanwhile.
    if (is_opening_.exchange(true, std::memory_order_relaxed)) return;
    if (!make_file(false)) folder_[0] = '\0';
    is_opening_.store(false, std::memory_order_relaxed);
    return;
  }
  const std::int64_t now_ms = os::now_ms();
  if (now_ms - figures_due_ms_.load(std::memory_order_relaxed) >= figures_missing_ms) {
    figures_due_ms_.store(now_ms, std::memory_order_relaxed);
    figures_are_missing();
  }
  // Of threads that race, each may back the same pages.
  std::size_t backed = backed_.load(std::memory_order_relaxed);
  if (next_.load(std::memory_order_relaxed) + least_room <= backed || !grows_ || backed >= box_figures_at)
    return;
  const std::size_t to = std::min(backed + backed_at_once, box_figures_at);
  if (!back_pages(header_, backed, to)) {
    grows_ = false;
    return;
  }
  while (backed < to && !backed_.compare_exchange_weak(backed, to, std::memory_order_relaxed)) {
  }
}

// ---- sites ----

// The content of a new record, zeroed and not published; null: there is no room.
void* black_box::reserve(std::size_t bytes) {
  const std::size_t all = align_up(sizeof(box_record) + bytes, box_unit);
  const std::size_t at = next_.load(std::memory_order_relaxed);
  if (at + all > backed_.load(std::memory_order_relaxed)) return nullptr;
  auto* const record = reinterpret_cast<box_record*>(reinterpret_cast<char*>(header_) + at);
  next_.store(at + all, std::memory_order_relaxed);
  record->bytes = static_cast<std::uint32_t>(all);
  return record + 1;
}

namespace {

void publish(void* content, box_record::content kind) {
  (static_cast<box_record*>(content) - 1)->kind.store(kind, std::memory_order_relaxed);
}

}  // namespace

bool black_box::write(call_site& site, bool is_here) {
  static_assert(box_weight_shift == byte_samples::weight_shift);
  if (!is_own()) return true;
  box_site* to = nullptr;
  if (site.box_epoch == epoch_) {
    to = reinterpret_cast<box_site*>(reinterpret_cast<char*>(header_) + site.box_at);
  } else {
    if (is_here) note_modules(site.frames, site.count);
    void* const content = reserve(sizeof(box_site) + site.count * sizeof(std::uintptr_t));
    if (content == nullptr) return false;
    to = static_cast<box_site*>(content);
    to->number = site.number;
    to->count = site.count;
    std::memcpy(to + 1, site.frames, site.count * sizeof(std::uintptr_t));
    site.box_at = static_cast<std::uint32_t>(reinterpret_cast<char*>(to) - reinterpret_cast<char*>(header_));
    site.box_epoch = epoch_;
    publish(to, box_record::content::site);
  }
  const site_figures& f = site.figures;
  to->blocks = f.blocks;
  to->bytes = f.bytes;
  to->live_blocks = f.live_blocks;
  to->live_bytes = f.live_bytes;
  to->samples = f.samples;
  to->live_samples = f.live_samples;
  to->blocks_variance = f.blocks_variance;
  to->bytes_variance = f.bytes_variance;
  to->live_bytes_variance = f.live_bytes_variance;
  to->lifetime_seconds = f.lifetime_seconds;
  return true;
}

void black_box::note_change(const heap_bytes& now, std::int64_t bytes, double variance) {
  if (!is_own()) return;
  header_->heap_in_use = now.in_use;
  header_->heap_free = now.free;
  header_->heap_metadata = now.metadata;
  header_->figures_before = __atomic_load_n(&header_->figures_written, __ATOMIC_RELAXED);
  header_->sampled_change += bytes;
  header_->change_variance += variance;
}

std::size_t black_box::ranges_version() const {
  if (!is_own()) return 0;
  const std::uint64_t written = __atomic_load_n(&header_->ranges_written, __ATOMIC_RELAXED);
  return written != 0 ? header_->ranges[(written - 1) % 2].version : 0;
}

void black_box::write_ranges(const heap_ranges& ranges, metadata_arena& metadata) {
  static_assert(box_range::most == heap_ranges::most + metadata_arena::most_regions);
  if (!is_own()) return;
  const std::uint64_t written = header_->ranges_written;
  auto& next = header_->ranges[written % 2];
  next.count = 0;
  for (const os::address_range& one : ranges.all()) next.all[next.count++] = {one.start, one.end};
  std::size_t regions = 0;
  metadata.for_each_region([&](const os::address_range& one) {
    next.all[next.count++] = {one.start, one.end};
    ++regions;
  });
  next.version = ranges.version() + regions;
  if (ranges.are_lost()) next.count = box_range::most + 1;
  // The process may be killed between any two writes: the compiler is not to count the copy before it is there.
  asm volatile("" : : "r"(&next) : "memory");
  __atomic_store_n(&header_->ranges_written, written + 1, __ATOMIC_RELAXED);
}

bool black_box::take_due_figures() {
  if (!is_own() || os::has_entered_sandbox()) return false;
  const std::int64_t now_ms = os::now_ms();
  if (now_ms < figures_due_ms_.load(std::memory_order_relaxed)) return false;
  figures_due_ms_.store(now_ms + figures_ms, std::memory_order_relaxed);
  auto& next = header_->figures[header_->figures_written % 2];
  next.sampled_change = header_->sampled_change;
  next.change_variance = header_->change_variance;
  return true;
}

void black_box::write_figures(std::string_view text) {
  text = part_of(text, 0, box_figures_room);
  const std::size_t needed = std::min(align_up(text.size(), fixed_figures_bytes), box_figures_room);
  if (grows_ && needed > figures_backed_) {
    for (const std::size_t at : {box_figures_at, box_figures_at + box_figures_room})
      if (!back_pages(header_, at + figures_backed_, at + needed)) return;
    figures_backed_ = needed;
  }
  text = part_of(text, 0, figures_backed_);
  const std::uint64_t written = header_->figures_written;
  const std::size_t which = written % 2;
  char* const to = reinterpret_cast<char*>(header_) + box_figures_at + which * box_figures_room;
  std::memcpy(to, text.data(), text.size());
  header_->figures[which].bytes = text.size();
  // The process may be killed between any two writes. The system call keeps the compiler from counting the text before it is there.
  header_->figures[which].time_ns = now_since_1970();
  __atomic_store_n(&header_->figures_written, written + 1, __ATOMIC_RELAXED);
}

// ---- modules ----

// Another library may have been loaded where one was that is known: the newest is compared.
void black_box::note_modules(const std::uintptr_t* frames, std::size_t count) {
  const char* const base = reinterpret_cast<const char*>(header_);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t address = frames[i] - 1;
    unwind::loaded_module found;
    if (!unwind::find_module_lock_free(address, found)) continue;
    const std::string_view path = found.path != nullptr ? found.path : "";
    const box_module* m = nullptr;
    for (std::uint64_t at = modules_; at != 0; at = m->older) {
      m = reinterpret_cast<const box_module*>(base + at);
      if (address >= m->start && address < m->end) break;
    }
    const bool is_known = m != nullptr && address >= m->start && address < m->end &&
                          std::string_view(reinterpret_cast<const char*>(m + 1), m->path_length) == path;
    if (!is_known) add_module(address, found, path);
  }
}

void black_box::add_module(std::uintptr_t address, const unwind::loaded_module& found,
                           std::string_view path) {
  box_module m{};
  if (!find_segment(found, address, m)) return;
  m.path_length = static_cast<std::uint32_t>(path.size());
  put_module(m, path);
}

void black_box::put_module(box_module m, std::string_view path) {
  m.older = modules_;
  void* const content = reserve(sizeof m + path.size());
  if (content == nullptr) return;
  std::memcpy(content, &m, sizeof m);
  std::memcpy(static_cast<char*>(content) + sizeof m, path.data(), path.size());
  modules_ = static_cast<std::uint64_t>(static_cast<char*>(content) - reinterpret_cast<char*>(header_));
  publish(content, box_record::content::module);
}

// Those of a forked child's parent, the oldest first: what a child has inherited need not be loaded any more.
void black_box::copy_modules(const box_header* from, std::uint64_t at) {
  if (at == 0) return;
  const auto* const m = reinterpret_cast<const box_module*>(reinterpret_cast<const char*>(from) + at);
  copy_modules(from, m->older);
  put_module(*m, {reinterpret_cast<const char*>(m + 1), m->path_length});
}

// ---- the end ----

void black_box::end(int status) {
  // In a sandbox the process may not even ask for its id. Without the mark its parent alone knows how it ended.
  if (!is_own() || os::has_entered_sandbox()) return;
  if (header_->process != static_cast<std::uint64_t>(os::system_call(SYS_getpid))) return;
  header_->status = status;
  header_->has_ended = 1;
  if (status == 0) remove_file();
}

void black_box::remove_file() const {
  name_buffer path;
  put_name(path, folder_, start_ticks_, pid_namespace_, image_);
  os::system_call(SYS_unlinkat, AT_FDCWD, path.data(), 0);
}

}  // namespace tarn
