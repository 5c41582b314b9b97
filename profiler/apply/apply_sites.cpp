// SPDX-License-Identifier: MIT
#include "profiler/apply/apply_sites.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "profiler/record/own_stack.hpp"
#include "unwind/rule_table.hpp"

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

// What a thread may read of its stack.
constinit thread_local own_stack stack_of_thread;
constinit std::uintptr_t first_thread = 0;
// Rules already looked up; 24 KiB.
constinit unwind::checked_rules known_rules;

// The question that a seccomp filter allows if it allows malloc, unless this kernel cannot answer it.
constinit unwind::stack_memory::question way_to_ask = unwind::stack_memory::question::sigprocmask;

void choose_question() {
  constexpr std::uintptr_t page_bytes = 4096;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(page_bytes - 1);
  unwind::stack_bounds above = {here + page_bytes, here + 2 * page_bytes};
  if (unwind::stack_memory::extend_down(above, here, unwind::stack_memory::question::madvise))
    way_to_ask = unwind::stack_memory::question::madvise;
}

}  // namespace

bool apply_sites::load(const char* path_of_plan) {
  first_thread = static_cast<std::uintptr_t>(pthread_self());
  choose_question();
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

int apply_sites::find_path(const unwind::frame_origin& origin) noexcept {
  for (std::uint16_t index = first_[hash(origin.return_address)]; index != 0;
       index = paths_[index - 1].next) {
    path& candidate = paths_[index - 1];
    if (candidate.addresses[0] == origin.return_address && matches(candidate, origin)) return candidate.group;
  }
  return none;
}

bool apply_sites::matches(path& candidate, const unwind::frame_origin& origin) noexcept {
  if (candidate.depth == 1) return true;
  own_stack& own = stack_of_thread;
  if (!own.has_begun()) own.begin(static_cast<std::uintptr_t>(pthread_self()) == first_thread);
  unwind::stack_memory stack = own.memory_from(origin.stack_pointer, way_to_ask);
  std::uintptr_t place = origin.stack_pointer;
  for (std::size_t frame = 1; frame < candidate.depth; ++frame) {
    // Another thread may be updating the distance; every stored value is one that was observed.
    const std::uint8_t agreed = candidate.agreed[frame].load(std::memory_order_relaxed);
    if (agreed < trusted || agreed == varies) return walk(candidate, origin, stack);
    place += static_cast<std::uintptr_t>(
        static_cast<std::intptr_t>(candidate.distances[frame].load(std::memory_order_relaxed)));
    std::uintptr_t address = 0;
    // A distance that leads beyond the stack is not that of this call.
    if (!stack.read(place, address)) return walk(candidate, origin, stack);
    if (unwind::plain_address(address) != candidate.addresses[frame]) return false;
  }
  return true;
}

bool apply_sites::walk(path& candidate, const unwind::frame_origin& origin,
                       unwind::stack_memory& stack) noexcept {
  unwind::loaded_module module;
  unwind::frame_step now;
  now.pc = origin.return_address;
  now.stack_pointer = origin.stack_pointer;
  now.frame_pointer = origin.frame_pointer;
  std::uintptr_t last = origin.stack_pointer;
  for (std::size_t frame = 1; frame < candidate.depth; ++frame) {
    // pc - 1, as the call may be the last instruction of its function.
    if (!unwind::find_module(now.pc - 1, module)) return false;
    const unwind::frame_rule rule = known_rules.rule_for(now.pc - 1, module.unwind_header);
    unwind::frame_step next;
    if (!unwind::step(rule, now.stack_pointer, now.frame_pointer, stack, next)) return false;
    note_distance(candidate, frame, static_cast<std::int32_t>(next.pc_slot - last));
    if (next.pc != candidate.addresses[frame]) return false;
    last = next.pc_slot;
    now = next;
  }
  return true;
}

void apply_sites::note_distance(path& candidate, std::size_t frame, std::int32_t distance) noexcept {
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
}

}  // namespace tarn::profiler
