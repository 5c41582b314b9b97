// SPDX-License-Identifier: MIT
#include "profiler/record/module_names.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include <cstring>

#include "base/fnv.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

namespace {

using unwind::loaded_module;

constexpr unsigned number_shift = 48;
constexpr std::size_t most_id_bytes = 64;
constexpr unsigned most_headers = 64;
constexpr std::uint64_t most_note_bytes = 4096;
constexpr std::size_t text_room = most_text_bytes;
constexpr std::size_t maps_room = 8192;  // of a line of /proc/self/maps there are some 80 bytes, and its path

// Invariant: entries are only added. `key` is stored last, and 0 until then: also for ever, if the process has forked
// meanwhile.
struct entry {
  std::atomic<std::uint64_t> key;
  std::uintptr_t start, end;
  std::uintptr_t number;
};
constinit entry named_modules[most_named_modules] = {};
constinit std::atomic<std::uint32_t> taken{0};
constinit std::atomic<bool> numbered{false};

struct identity {
  std::uint64_t key;  // never 0
  std::size_t id_bytes;
  unsigned char id[most_id_bytes];
};

void mix(std::uint64_t& key, std::uint64_t value) {
  key = fnv{key}.add(value).sum;
  key ^= key >> 29;
}

// Looks for the build-id in a part of the memory that holds notes.
void read_notes(guarded_reader& memory, std::uintptr_t at, std::uint64_t bytes, std::uint64_t alignment,
                identity& into) {
  const std::uint64_t step = alignment == 8 ? 8 : 4;
  const std::uintptr_t end = at + (bytes < most_note_bytes ? bytes : most_note_bytes);
  while (into.id_bytes == 0 && !memory.failed() && at + sizeof(ElfW(Nhdr)) <= end) {
    const auto note = memory.take<ElfW(Nhdr)>(at);
    const std::uintptr_t name = at + sizeof note;
    const std::uintptr_t content = name + ((note.n_namesz + step - 1) & ~(step - 1));
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        memory.take<std::uint32_t>(name) == 0x554e47 && note.n_descsz <= most_id_bytes &&
        content + note.n_descsz <= end && memory.read(content, into.id, note.n_descsz)) {
      into.id_bytes = note.n_descsz;
    }
    at = content + ((note.n_descsz + step - 1) & ~(step - 1));
  }
}

// What the ELF header at the library's beginning leads to. In a sandbox, and in a library whose first segment is
// elsewhere, nothing.
void read_headers(const loaded_module& module, identity& into) {
  guarded_reader memory(false);
  const auto head = memory.take<ElfW(Ehdr)>(module.start);
  if (memory.failed() || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(ElfW(Phdr)))
    return;
  for (unsigned index = 0; index < head.e_phnum && index < most_headers; ++index) {
    const auto part = memory.take<ElfW(Phdr)>(module.start + head.e_phoff + index * sizeof(ElfW(Phdr)));
    if (memory.failed()) return;
    mix(into.key, part.p_type ^ part.p_vaddr << 8 ^ part.p_filesz << 32);
    if (part.p_type != PT_NOTE || into.id_bytes != 0) continue;
    const std::uintptr_t at = module.base + part.p_vaddr;
    if (at < module.start || at >= module.end || part.p_memsz > module.end - at) continue;
    read_notes(memory, at, part.p_memsz, part.p_align, into);
  }
}

identity identity_of(const loaded_module& module) {
  identity found = {fnv().sum, 0, {}};
  mix(found.key, module.base);
  mix(found.key, module.start);
  for (const char* letter = module.path; letter != nullptr && *letter != 0; ++letter)
    mix(found.key, static_cast<unsigned char>(*letter));
  read_headers(module, found);
  for (std::size_t index = 0; index < found.id_bytes; ++index) mix(found.key, found.id[index]);
  found.key |= 1;
  return found;
}

// acquire: partner of the release in add: the entry's other members are written
std::uint64_t key_at(std::uint32_t index) { return named_modules[index].key.load(std::memory_order_acquire); }

std::uint32_t count_taken() {
  const std::uint32_t count = taken.load(std::memory_order_relaxed);
  return count < most_named_modules ? count : most_named_modules;
}

// Two threads may both add the same library: then it has two entries, and perhaps two numbers.
std::uint32_t add(const loaded_module& module, std::uint64_t key) {
  const std::uint32_t index =
      count_taken() < most_named_modules ? taken.fetch_add(1, std::memory_order_relaxed) : most_named_modules;
  if (index >= most_named_modules) return most_named_modules;
  bool is_first = true;
  for (std::uint32_t other = 0; other < most_named_modules && other < index && is_first; ++other) {
    const std::uint64_t known = key_at(other);
    is_first = known == 0 || known == key || named_modules[other].end <= module.start ||
               named_modules[other].start >= module.end;
  }
  entry& added = named_modules[index];
  added.start = module.start;
  added.end = module.end;
  added.number = is_first ? 0 : std::uintptr_t{index + 1} << number_shift;
  if (!is_first) numbered.store(true, std::memory_order_relaxed);
  added.key.store(key, std::memory_order_release);  // partner of the acquire in key_at
  return index;
}

std::uint32_t entry_of(const loaded_module& module, std::uint64_t key) {
  // From the newest on: after a dlclose the stack is full of old ones, else of few.
  for (std::uint32_t index = count_taken(); index-- > 0;) {
    if (key_at(index) == key) return index;
  }
  return add(module, key);
}

std::uintptr_t hexadecimal(const char*& at, const char* end) {
  std::uintptr_t value = 0;
  for (; at < end; ++at) {
    const char letter = *at;
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit && (letter < 'a' || letter > 'f')) break;
    value = value << 4 | static_cast<std::uintptr_t>(is_digit ? letter - '0' : letter - 'a' + 10);
  }
  return value;
}

// The path of a line of /proc/self/maps if the line is that of `address`; empty: it is not, or has no path.
std::string_view path_in(const char* line, const char* end, std::uintptr_t address) {
  const std::uintptr_t start = hexadecimal(line, end);
  if (line == end || *line != '-') return {};
  ++line;
  const std::uintptr_t stop = hexadecimal(line, end);
  if (address < start || address >= stop) return {};
  const void* const slash = std::memchr(line, '/', static_cast<std::size_t>(end - line));
  if (slash == nullptr) return {};
  std::string_view path(static_cast<const char*>(slash),
                        static_cast<std::size_t>(end - static_cast<const char*>(slash)));
  constexpr std::string_view deleted = " (deleted)";
  if (path.size() > deleted.size() && path.substr(path.size() - deleted.size()) == deleted)
    path.remove_suffix(deleted.size());
  return path;
}

// The whole path of the file that is mapped at `address`, in `room`; empty: it is not known.
std::string_view mapped_path(std::uintptr_t address, char* room) {
  const long file = recorder::own_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"),
                                       O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string_view found;
  std::size_t held = 0;
  while (found.empty()) {
    const long got = recorder::own_call(SYS_read, file, reinterpret_cast<long>(room + held),
                                        static_cast<long>(maps_room - held));
    if (got <= 0) break;
    held += static_cast<std::size_t>(got);
    const char* line = room;
    const char* const end = room + held;
    while (found.empty()) {
      const void* const stop = std::memchr(line, '\n', static_cast<std::size_t>(end - line));
      if (stop == nullptr) break;
      found = path_in(line, static_cast<const char*>(stop), address);
      line = static_cast<const char*>(stop) + 1;
    }
    if (!found.empty()) break;
    held = static_cast<std::size_t>(end - line);
    std::memmove(room, line, held);
  }
  recorder::own_call(SYS_close, file);
  return found;
}

void report_module(const loaded_module& module, const identity& what, std::uintptr_t number,
                   module_sink& sink) {
  // Not on the stack, which may be a short one.
  auto* const room = static_cast<char*>(map_pages(text_room + maps_room));
  if (room == nullptr) return;
  std::string_view path = module.path != nullptr ? module.path : "";
  // The dynamic linker has a path as the program gave it; the program may be in another folder by now.
  if (!path.empty() && path.front() != '/') {
    const std::string_view whole = mapped_path(module.start, room + text_room);
    if (!whole.empty()) path = whole;
  }
  const std::size_t most = text_room - 1 - what.id_bytes;
  const std::size_t bytes = path.size() < most ? path.size() : most;
  std::memcpy(room, path.data(), bytes);
  std::memcpy(room + bytes + 1, what.id, what.id_bytes);  // behind a zero byte
  sink.add({room, bytes + 1 + what.id_bytes}, module.base + number, module.start + number,
           module.end + number);
  unmap_pages(room, text_room + maps_room);
}

}  // namespace

std::uintptr_t number_of(const loaded_module& module, recent_modules& recent, reported_modules& reported,
                         module_sink& sink) {
  for (const recent_modules::range& each : recent.ranges) {
    if (module.start == each.start && module.end == each.end) return each.number;
  }
  const identity what = identity_of(module);
  const std::uint32_t index = entry_of(module, what.key);
  if (index == most_named_modules) return 0;
  const std::uintptr_t number = named_modules[index].number;
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  // relaxed: it only decides which thread reports it
  if ((reported.bits[index / 64].fetch_or(bit, std::memory_order_relaxed) & bit) == 0)
    report_module(module, what, number, sink);
  recent.ranges[recent.next++ % recent_modules::count] = {module.start, module.end, number};
  return number;
}

bool any_numbered() {
  // relaxed: a thread that runs code of such a library has synchronised with its loading, and looks it up itself
  return numbered.load(std::memory_order_relaxed);
}

}  // namespace tarn::profiler
