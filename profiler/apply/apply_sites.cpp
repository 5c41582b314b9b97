// SPDX-License-Identifier: MIT
#include "profiler/apply/apply_sites.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <cstring>

namespace tarn::profiler {

namespace {

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

// One frame of the plan, and the address that it has in this process.
struct wanted_frame {
  bool by_name = false;
  unsigned char id[256];
  std::size_t id_length = 0;
  std::uint64_t offset = 0;
  std::uintptr_t address = 0;
};

const char* base_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

bool has_build_id(const dl_phdr_info& module, const wanted_frame& frame) {
  for (int index = 0; index < module.dlpi_phnum; ++index) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[index];
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(module.dlpi_addr + segment.p_vaddr);
    const unsigned char* const end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const unsigned char* const name = at + sizeof note;
      const unsigned char* const id = name + ((note.n_namesz + 3U) & ~3U);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        return note.n_descsz == frame.id_length && std::memcmp(id, frame.id, frame.id_length) == 0;
      }
      at = id + ((note.n_descsz + 3U) & ~3U);
    }
  }
  return false;
}

bool has_name(const dl_phdr_info& module, const wanted_frame& frame) {
  char self[1024];
  const char* path = module.dlpi_name;
  if (path == nullptr || *path == 0) {
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = 0;
    path = self;
  }
  const char* const name = base_name(path);
  return std::strlen(name) == frame.id_length && std::memcmp(name, frame.id, frame.id_length) == 0;
}

int resolve_in(dl_phdr_info* module, std::size_t, void* data) {
  auto& frame = *static_cast<wanted_frame*>(data);
  if (!(frame.by_name ? has_name(*module, frame) : has_build_id(*module, frame))) return 0;
  for (int index = 0; index < module->dlpi_phnum; ++index) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[index];
    if (segment.p_type != PT_LOAD || frame.offset < segment.p_offset) continue;
    if (frame.offset > segment.p_offset + segment.p_filesz) continue;
    frame.address = module->dlpi_addr + segment.p_vaddr + (frame.offset - segment.p_offset);
    if ((segment.p_flags & PF_X) != 0) break;
  }
  return 1;
}

bool read_frame(const char* begin, const char* end, wanted_frame& frame) {
  if (begin == end || (*begin != 'b' && *begin != 'n')) return false;
  frame.by_name = *begin == 'n';
  const char* at = begin + 1;
  while (at + 1 < end && *at != ':') {
    const int high = digit_of(at[0]);
    const int low = digit_of(at[1]);
    if (high < 0 || low < 0 || frame.id_length == sizeof frame.id) return false;
    frame.id[frame.id_length++] = static_cast<unsigned char>(high * 16 + low);
    at += 2;
  }
  if (at == end || *at != ':' || frame.id_length == 0) return false;
  for (++at; at < end; ++at) {
    const int digit = digit_of(*at);
    if (digit < 0) return false;
    frame.offset = frame.offset * 16 + static_cast<std::uint64_t>(digit);
  }
  return true;
}

// Reads the word at `at`, and moves `at` beyond it and the blank.
struct word {
  const char* begin;
  const char* end;
  bool is(const char* text) const {
    return std::strlen(text) == static_cast<std::size_t>(end - begin) &&
           std::memcmp(text, begin, static_cast<std::size_t>(end - begin)) == 0;
  }
};
word next_word(const char*& at, const char* end) {
  const char* const begin = at;
  while (at < end && *at != ' ') ++at;
  const word result = {begin, at};
  if (at < end) ++at;
  return result;
}

bool number_in(const word& text, std::size_t& value) {
  value = 0;
  for (const char* at = text.begin; at < text.end; ++at) {
    if (*at < '0' || *at > '9' || value > (std::size_t{1} << 40)) return false;
    value = value * 10 + static_cast<std::size_t>(*at - '0');
  }
  return text.begin != text.end;
}

struct unwound {
  std::uintptr_t addresses[64];
  std::uintptr_t places[64];  // stack addresses of the return addresses
  std::size_t count = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* data) {
  auto& all = *static_cast<unwound*>(data);
  if (all.count == 64) return _URC_END_OF_STACK;
  all.addresses[all.count] = _Unwind_GetIP(context);
  // On x86-64 the return address lies right below the frame of its callee.
  all.places[all.count] = _Unwind_GetCFA(context) - sizeof(void*);
  ++all.count;
  return _URC_NO_REASON;
}

constinit thread_local bool unwinding = false;

}  // namespace

bool apply_sites::load(const char* path_of_plan) {
  const int file = open(path_of_plan, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status = {};
  void* memory = MAP_FAILED;
  const bool is_there = fstat(file, &status) == 0;
  if (is_there && status.st_size > 0) {
    memory = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (is_there && status.st_size == 0) return true;  // a plan without sites
  if (memory == MAP_FAILED) return false;
  const char* at = static_cast<const char*>(memory);
  const char* const end = at + status.st_size;
  bool good = true;
  while (at < end) {
    const auto* line = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (line == nullptr) line = end;
    good = read_line(at, line) && good;
    at = line + 1;
  }
  munmap(memory, static_cast<std::size_t>(status.st_size));
  return good;
}

bool apply_sites::read_line(const char* begin, const char* end) {
  const char* at = begin;
  const word use = next_word(at, end);
  std::size_t number = 0;
  std::size_t size = 0;
  if (!number_in(next_word(at, end), number) || !number_in(next_word(at, end), size)) return false;
  if ((!use.is("pool") && !use.is("buffers")) || number >= most_apply_groups) return false;
  groups_[number] = {true, use.is("buffers"), size};
  ++sites_;
  if (found_ == most_apply_sites) return false;
  path& one = paths_[found_];
  one.depth = 0;
  while (at < end && one.depth < most_apply_frames) {
    const word text = next_word(at, end);
    wanted_frame frame;
    if (!read_frame(text.begin, text.end, frame)) return false;
    dl_iterate_phdr(resolve_in, &frame);
    if (frame.address == 0) return true;  // not in this process
    one.addresses[one.depth++] = frame.address;
  }
  if (one.depth == 0) return false;
  one.group = static_cast<std::uint8_t>(number);
  const std::size_t bit = hash(one.addresses[0]);
  one.next = first_[bit];
  first_[bit] = static_cast<std::uint16_t>(++found_);
  filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  return true;
}

int apply_sites::find_path(std::uintptr_t address, const std::uintptr_t* slot) noexcept {
  for (std::uint16_t index = first_[hash(address)]; index != 0; index = paths_[index - 1].next) {
    path& candidate = paths_[index - 1];
    if (candidate.addresses[0] == address && matches(candidate, slot)) return candidate.group;
  }
  return none;
}

bool apply_sites::matches(path& candidate, const std::uintptr_t* slot) noexcept {
  const auto* place = reinterpret_cast<const char*>(slot);
  for (std::size_t frame = 1; frame < candidate.depth; ++frame) {
    // Another thread may be updating the distance; every stored value is one that was observed.
    const std::uint8_t agreed = candidate.agreed[frame].load(std::memory_order_relaxed);
    if (agreed < trusted || agreed == varies) return unwind(candidate, slot);
    place += candidate.distances[frame].load(std::memory_order_relaxed);
    std::uintptr_t address = 0;
    std::memcpy(&address, place, sizeof address);
    if (address != candidate.addresses[frame]) return false;
  }
  return true;
}

bool apply_sites::unwind(path& candidate, const std::uintptr_t* slot) noexcept {
  if (unwinding) return false;  // the unwinder allocates
  unwinding = true;
  unwound stack;
  _Unwind_Backtrace(note_frame, &stack);
  unwinding = false;
  std::size_t first = 0;
  while (first < stack.count && stack.addresses[first] != candidate.addresses[0]) ++first;
  auto last = reinterpret_cast<std::uintptr_t>(slot);
  for (std::size_t frame = 1; frame < candidate.depth; ++frame) {
    if (first + frame >= stack.count) return false;
#if defined(__x86_64__)
    const auto distance = static_cast<std::int32_t>(stack.places[first + frame] - last);
    std::atomic<std::uint8_t>& agreed = candidate.agreed[frame];
    const std::uint8_t before = agreed.load(std::memory_order_relaxed);
    if (before == 0) {
      candidate.distances[frame].store(distance, std::memory_order_relaxed);
      agreed.store(1, std::memory_order_relaxed);
    } else if (before != varies) {
      const bool same = candidate.distances[frame].load(std::memory_order_relaxed) == distance;
      if (!same || before < trusted)
        agreed.store(same ? static_cast<std::uint8_t>(before + 1) : varies, std::memory_order_relaxed);
    }
    last = stack.places[first + frame];
#else
    (void)last;
#endif
    if (stack.addresses[first + frame] != candidate.addresses[frame]) return false;
  }
  return true;
}

}  // namespace tarn::profiler
