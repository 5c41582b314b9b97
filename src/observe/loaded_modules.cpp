// SPDX-License-Identifier: MIT
#include "observe/loaded_modules.hpp"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/instance.hpp"
#include "os/input_file.hpp"
#include "os/sandbox.hpp"

namespace tarn {

namespace {

constexpr std::size_t longest_path = 4096;
// Addresses, rights, offset, device and number of the file stand before the path.
constexpr std::size_t longest_line = longest_path + 128;

// A line of the list: START-END RIGHTS OFFSET DEVICE NUMBER   PATH
struct mapping {
  std::uintptr_t start;
  std::uintptr_t end;
  std::uint64_t offset;
  std::uint64_t device;
  std::uint64_t number;  // of the file
  std::string_view path;
  bool is_executable;

  explicit mapping(std::string_view line) {
    start = hexadecimal(take_until(line, '-'));
    end = hexadecimal(take_until(line, ' '));
    const std::string_view rights = take_until(line, ' ');
    is_executable = rights.size() > 2 && rights[2] == 'x';
    offset = hexadecimal(take_until(line, ' '));
    const std::uint64_t major = hexadecimal(take_until(line, ':'));
    device = major << 32U | hexadecimal(take_until(line, ' '));
    number = hexadecimal(take_until(line, ' '));  // it is decimal, but only compared
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    constexpr std::string_view mark = " (deleted)";
    if (line.ends_with(mark)) line.remove_suffix(mark.size());
    path = part_of(line, 0, longest_path - 1);
  }

  [[nodiscard]] bool has_name() const { return path.starts_with('/') || path == "[vdso]"; }
};

// The build id of a module whose file's beginning is mapped at `base`. The bytes there may be those of any file, and may
// be replaced or unmapped at any time.
class build_id_reader {
 public:
  explicit build_id_reader(const char* memory) : memory_(memory) {}

  void find(std::uintptr_t base, loaded_segment& out) {
    ElfW(Ehdr) head{};
    if (!read(base, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(ElfW(Phdr)))
      return;
    const std::uintptr_t table = base + head.e_phoff;
    ElfW(Phdr) part{};
    // Segments stand in the order of their addresses; the first one has the file's beginning.
    const unsigned count = std::min<unsigned>(head.e_phnum, 64);
    unsigned first = 0;
    while (first < count && read(table + first * sizeof part, part) && part.p_type != PT_LOAD) ++first;
    if (first == count || part.p_type != PT_LOAD) return;
    const std::uintptr_t bias = base - (part.p_vaddr - part.p_offset);
    for (unsigned i = 0; i < count; ++i) {
      if (!read(table + i * sizeof part, part)) return;
      if (part.p_type == PT_NOTE && find_in(bias + part.p_vaddr, part.p_memsz, part.p_align, out)) return;
    }
  }

 private:
  template <class T>
  bool read(std::uintptr_t at, T& out) {
    return memory_.read_at(at, &out, sizeof out);
  }

  bool find_in(std::uintptr_t at, std::uint64_t bytes, std::uint64_t alignment, loaded_segment& out) {
    const std::uint64_t unit = alignment == 8 ? 8 : 4;
    struct {
      ElfW(Nhdr) head;
      char name[4];
    } note;
    for (std::uint64_t left = std::min<std::uint64_t>(bytes, 16 * kib); left >= sizeof note;) {
      if (!read(at, note)) return false;
      const std::size_t content = align_up(sizeof note.head + note.head.n_namesz, unit);
      const std::size_t all = align_up(content + note.head.n_descsz, unit);
      if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == sizeof note.name &&
          std::memcmp(note.name, "GNU", sizeof note.name) == 0) {
        const std::size_t length = std::min<std::size_t>(note.head.n_descsz, sizeof out.build_id);
        if (memory_.read_at(at + content, out.build_id, length)) out.build_id_length = length;
        return true;
      }
      at += all;
      left -= std::min<std::uint64_t>(all, left);
    }
    return false;
  }

  os::input_file memory_;
};

}  // namespace

// Counts the segments and the characters of the paths, perhaps too many, if `segments` is null; else copies as many as
// there is room for.
struct loaded_modules::collector {
  loaded_segment* segments = nullptr;
  std::size_t most_segments = 0;
  char* text = nullptr;
  std::size_t most_text = 0;
  std::size_t count = 0;
  std::size_t used = 0;

  void collect(const char* list) {
    os::line_reader<longest_line> lines(list);
    build_id_reader ids(list != nullptr && segments != nullptr ? "/proc/thread-self/mem" : nullptr);
    std::string_view line;
    while (lines.next(line)) {
      const mapping m(line);
      if (m.offset == 0) beginning_ = {m.device, m.number, m.start};
      if (m.is_executable && m.has_name() && !add(m, ids)) return;
    }
  }

  // The program's segment comes first.
  void order() {
    const std::uintptr_t entry = getauxval(AT_ENTRY);
    const auto has_entry = [entry](const loaded_segment& s) { return entry >= s.start && entry < s.end; };
    loaded_segment* const program = std::find_if(segments, segments + count, has_entry);
    if (program != segments + count) std::rotate(segments, program, program + 1);
  }

 private:
  // The last mapping that has the beginning of a file.
  struct {
    std::uint64_t device;
    std::uint64_t number;
    std::uintptr_t start;
  } beginning_{};

  // False: there is no room.
  bool add(const mapping& m, build_id_reader& ids) {
    if (segments == nullptr) {
      ++count;
      used += m.path.size() + 1;
      return true;
    }
    loaded_segment* const last = count != 0 ? &segments[count - 1] : nullptr;
    const bool same_path = last != nullptr && m.path == last->path;
    if (same_path && last->end == m.start && last->file_offset + (last->end - last->start) == m.offset) {
      last->end = m.end;
      return true;
    }
    if (count == most_segments || m.path.size() >= most_text - used) return false;
    loaded_segment& s = segments[count++] = {};
    s.start = m.start;
    s.end = m.end;
    s.file_offset = m.offset;
    s.path = same_path ? last->path : copied(m.path);
    if (beginning_.device == m.device && beginning_.number == m.number) ids.find(beginning_.start, s);
    return true;
  }

  const char* copied(std::string_view path) {
    char* const out = text + used;
    std::memcpy(out, path.data(), path.size());
    out[path.size()] = '\0';
    used += path.size() + 1;
    return out;
  }
};

loaded_modules::loaded_modules(const char* list) {
  if (os::has_entered_sandbox()) list = nullptr;
  collector counted;
  counted.collect(list);
  // Room for libraries that are loaded meanwhile.
  const std::size_t segments = counted.count + 8;
  const std::size_t text = counted.used + longest_path;
  const std::size_t bytes = segments * sizeof(loaded_segment) + text;
  void* const memory = engine::blocks.allocate(bytes);
  if (memory == nullptr) return;
  bytes_ = bytes;
  segments_ = static_cast<loaded_segment*>(memory);
  collector copied;
  copied.segments = segments_;
  copied.most_segments = segments;
  copied.text = reinterpret_cast<char*>(segments_ + segments);
  copied.most_text = text;
  copied.collect(list);
  copied.order();
  count_ = copied.count;
}

loaded_modules::~loaded_modules() {
  if (segments_ != nullptr) engine::blocks.deallocate(segments_, bytes_);
}

}  // namespace tarn
