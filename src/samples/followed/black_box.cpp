// SPDX-License-Identifier: MIT
#include "samples/followed/black_box.hpp"

#include <fcntl.h>
#include <link.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <string_view>

#include "base/text.hpp"
#include "base/units.hpp"
#include "os/input_file.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn {

namespace {

// So much is backed at a time.
constexpr std::size_t step = 64 * kib;
// And at once where the kernel (before 5.14) does not back pages of a file when asked.
constexpr std::size_t fixed_bytes = 1 * mib;
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE; not in older headers

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

void put_name(name_buffer& out, const char* folder, std::uint64_t ticks) {
  out.put(folder).put('/').number(static_cast<std::uint64_t>(os::system_call(SYS_getpid)));
  out.put('-').number(ticks).put(".box").put('\0');
}

// A new file that only this user may read. Another of this name is of an earlier image of this process.
long create(const char* path) {
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  long descriptor = os::system_call(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (descriptor != -EEXIST) return descriptor;
  os::system_call(SYS_unlinkat, AT_FDCWD, path, 0);
  return os::system_call(SYS_openat, AT_FDCWD, path, flags, 0600);
}

// A longer file than the process may write would end it by SIGXFSZ.
bool may_write(std::size_t bytes) {
  rlimit limit{};
  const long result = os::system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, static_cast<rlimit*>(nullptr), &limit);
  return !os::is_error(result) && limit.rlim_cur >= bytes;
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

}  // namespace

// Maps a new file whose first pages are backed. Null: there is none, and a notice says why.
void* black_box::map_file(const char* folder) {
  if (start_ticks_ == 0) start_ticks_ = own_start_ticks();
  name_buffer path;
  put_name(path, folder, start_ticks_);
  if (!may_write(most_box_bytes)) {
    complain(folder, "the limit on the size of files (ulimit -f) is below 8 MiB", 0);
    return nullptr;
  }
  const long descriptor = create(path.data());
  if (descriptor < 0) {
    complain(folder,
             "the file cannot be made: the folder must exist, and this user must be able to write to it",
             descriptor);
    return nullptr;
  }
  const char* problem = nullptr;
  long result = os::system_call(SYS_ftruncate, descriptor, most_box_bytes);
  if (result < 0) problem = "the file cannot have 8 MiB";
  void* base = nullptr;
  if (problem == nullptr) {
    result = os::system_call(SYS_mmap, 0, most_box_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                             descriptor, 0);
    if (os::is_error(result)) {
      problem = "there is no address space for it";
    } else {
      base = reinterpret_cast<void*>(result);
    }
  }
  std::size_t backed = step;
  grows_ = base != nullptr && back_pages(base, 0, step);
  if (base != nullptr && !grows_) {
    result = os::system_call(SYS_fallocate, descriptor, 0, 0, fixed_bytes);
    backed = fixed_bytes;
    if (result < 0) {
      problem = "the file system has no room";
      os::system_call(SYS_munmap, base, most_box_bytes);
    }
  }
  os::system_call(SYS_close, descriptor);
  if (problem == nullptr) {
    backed_.store(backed, std::memory_order_relaxed);
    return base;
  }
  os::system_call(SYS_unlinkat, AT_FDCWD, path.data(), 0);
  complain(folder, problem, result);
  return nullptr;
}

// Of an image that has just begun, or a forked child.
void black_box::describe_process() {
  box_header& h = *header_;
  timespec now{};
  os::system_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
  h.process = static_cast<std::uint64_t>(os::system_call(SYS_getpid));
  h.start_ticks = start_ticks_;
  h.start_ns = static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
  h.has_ended = 0;
}

bool black_box::open(const char* folder) {
  if (is_open() || std::strlen(folder) >= longest_folder) return false;
  void* const base = map_file(folder);
  if (base == nullptr) return false;
  std::strcpy(folder_, folder);
  auto* const h = static_cast<box_header*>(base);
  h->header_bytes = sizeof(box_header);
  h->site_bytes = sizeof(call_site);
  h->bytes = most_box_bytes;
  os::system_call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", h->program, sizeof h->program - 1);
  os::input_file("/proc/self/cmdline").read(h->arguments, sizeof h->arguments - 1);
  new (&h->other) call_site;
  header_ = h;
  describe_process();
  next_.store(align_up(sizeof(box_header), box_unit), std::memory_order_relaxed);
  std::memcpy(h->magic, box_magic, sizeof box_magic);
  return true;
}

bool black_box::back(std::size_t end) {
  std::size_t backed = backed_.load(std::memory_order_relaxed);
  if (end <= backed) return true;
  if (!grows_ || end > most_box_bytes) return false;
  const std::size_t to = std::min(align_up(end, step), most_box_bytes);
  if (!back_pages(header_, backed, to)) return false;
  // Of threads that race, each has backed its own part: the least is what all of them have.
  while (backed < to && !backed_.compare_exchange_weak(backed, to, std::memory_order_relaxed)) {
  }
  return true;
}

// The content of a new record, zeroed and not published; null: the box is full.
void* black_box::reserve(std::size_t bytes) {
  const std::size_t all = align_up(sizeof(box_record) + bytes, box_unit);
  std::size_t at = next_.load(std::memory_order_relaxed);
  do {
    if (!back(at + all)) return nullptr;
  } while (!next_.compare_exchange_weak(at, at + all, std::memory_order_relaxed));
  auto* const record = reinterpret_cast<box_record*>(reinterpret_cast<char*>(header_) + at);
  record->bytes = static_cast<std::uint32_t>(all);
  return record + 1;
}

namespace {

void publish(void* content, box_record::content kind) {
  (static_cast<box_record*>(content) - 1)->kind.store(kind, std::memory_order_release);
}

}  // namespace

void* black_box::reserve_site(std::size_t bytes, const std::uintptr_t* frames, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!knows(frames[i] - 1)) add_module(frames[i] - 1);
  }
  return reserve(bytes);
}

void black_box::publish_site(call_site* site) {
  if (is_open()) publish(site, box_record::content::site);
}

// ---- modules ----

bool black_box::knows(std::uintptr_t address) const {
  const char* const base = reinterpret_cast<const char*>(header_);
  // acquire: partner of the release in add_module(): the module is complete.
  for (std::uint64_t at = modules_.load(std::memory_order_acquire); at != 0;) {
    const auto& m = *reinterpret_cast<const box_module*>(base + at);
    if (address >= m.start && address < m.end) return true;
    at = m.older;
  }
  return false;
}

namespace {

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

// The segment that has the address, and the build id. False: the file's head is not mapped where it usually is.
bool find_segment(const unwind::loaded_module& found, std::uintptr_t address, box_module& out) {
  const auto& head = *reinterpret_cast<const ElfW(Ehdr)*>(found.start);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr))) return false;
  const auto* const parts = reinterpret_cast<const ElfW(Phdr)*>(found.start + head.e_phoff);
  for (unsigned i = 0; i < head.e_phnum; ++i) {
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

}  // namespace

void black_box::add_module(std::uintptr_t address) {
  unwind::loaded_module found;
  box_module m{};
  if (!unwind::find_module_lock_free(address, found) || !find_segment(found, address, m)) return;
  const char* const path = found.path != nullptr ? found.path : "";
  m.path_length = static_cast<std::uint32_t>(std::strlen(path));
  void* const content = reserve(sizeof m + m.path_length);
  if (content == nullptr) return;
  const auto at = static_cast<std::uint64_t>(static_cast<char*>(content) - reinterpret_cast<char*>(header_));
  auto* const copy = static_cast<box_module*>(content);
  std::memcpy(static_cast<char*>(content) + sizeof m, path, m.path_length);
  m.older = modules_.load(std::memory_order_relaxed);
  do {
    *copy = m;
    // release: partner of the acquire in knows().
  } while (
      !modules_.compare_exchange_weak(m.older, at, std::memory_order_release, std::memory_order_relaxed));
  publish(content, box_record::content::module);
}

// ---- ends ----

// Once in each child that samples, under the lock, as nothing else can run in it yet that would wait.
void black_box::leave_parents_slow() {
  const std::size_t used = next_.load(std::memory_order_relaxed);
  start_ticks_ = 0;
  void* copy = os::has_entered_sandbox() || folder_[0] == '\0' ? nullptr : map_file(folder_);
  bool is_file = copy != nullptr;
  const std::size_t backed = align_up(used, step);
  if (is_file && backed > backed_.load(std::memory_order_relaxed)) {
    is_file = grows_ && back_pages(copy, 0, backed);
    if (is_file) {
      backed_.store(backed, std::memory_order_relaxed);
    } else {
      os::system_call(SYS_munmap, copy, most_box_bytes);
      remove_file();
    }
  }
  if (!is_file) {
    const long mapped = os::system_call(SYS_mmap, 0, most_box_bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (os::is_error(mapped)) return;  // without address space: at the next sample
    copy = reinterpret_cast<void*>(mapped);
    backed_.store(most_box_bytes, std::memory_order_relaxed);
  }
  std::memcpy(copy, header_, used);
  const long moved = os::system_call(SYS_mremap, copy, most_box_bytes, most_box_bytes,
                                     MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<void*>(header_));
  if (os::is_error(moved)) return;
  is_parents_ = false;
  if (!is_file) folder_[0] = '\0';
  describe_process();
}

void black_box::end(int status) {
  if (!is_open() || is_parents_ || folder_[0] == '\0') return;
  if (header_->process != static_cast<std::uint64_t>(os::system_call(SYS_getpid))) return;
  header_->status = status;
  header_->has_ended = 1;
  if (status == 0 && !os::has_entered_sandbox()) remove_file();
}

void black_box::remove_file() const {
  name_buffer path;
  put_name(path, folder_, start_ticks_);
  os::system_call(SYS_unlinkat, AT_FDCWD, path.data(), 0);
}

}  // namespace tarn
