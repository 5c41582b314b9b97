// SPDX-License-Identifier: MIT
#include "runtime/loaded_modules.hpp"

#include <fcntl.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "base/units.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "runtime/instance.hpp"

namespace tarn {

namespace {

constexpr std::size_t longest_path = 4096;

void find_build_id(const dl_phdr_info& module, const ElfW(Phdr) & notes, loaded_segment& out) {
  const char* at = reinterpret_cast<const char*>(module.dlpi_addr + notes.p_vaddr);
  const char* const end = at + notes.p_memsz;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, at, sizeof header);
    const char* const name = at + sizeof header;
    const char* const content = name + align_up(header.n_namesz, 4);
    const char* const next = content + align_up(header.n_descsz, 4);
    if (next > end || next < at) return;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      out.build_id_length = std::min<std::size_t>(header.n_descsz, loaded_segment::longest_build_id);
      std::memcpy(out.build_id, content, out.build_id_length);
      return;
    }
    at = next;
  }
}

bool is_code(const ElfW(Phdr) & header) { return header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0; }

}  // namespace

// Counts the segments and the characters of the paths if `segments` is null; else copies as many as there is room for.
struct loaded_modules::collector {
  loaded_segment* segments = nullptr;
  char* text = nullptr;
  std::size_t most_segments = 0;
  std::size_t most_text = 0;
  std::size_t count = 0;
  std::size_t used = 0;
  const char* program = "";
  bool is_first = true;

  void add(const dl_phdr_info& module) {
    const bool is_program = is_first;
    is_first = false;
    const char* const path =
        is_program || module.dlpi_name == nullptr ? (is_program ? program : "") : module.dlpi_name;
    const std::size_t length = std::strlen(path) + 1;
    char* const copy = text + used;
    if (segments != nullptr && length > most_text - used) return;
    if (segments != nullptr) std::memcpy(copy, path, length);
    used += length;
    for (ElfW(Half) i = 0; i < module.dlpi_phnum; ++i) {
      if (!is_code(module.dlpi_phdr[i])) continue;
      if (segments != nullptr) {
        if (count == most_segments) return;
        segments[count] = segment_of(module, module.dlpi_phdr[i], copy);
      }
      ++count;
    }
  }

  static loaded_segment segment_of(const dl_phdr_info& module, const ElfW(Phdr) & header, const char* path) {
    loaded_segment out{};
    out.start = module.dlpi_addr + header.p_vaddr;
    out.end = out.start + header.p_memsz;
    out.file_offset = header.p_offset;
    out.path = path;
    for (ElfW(Half) i = 0; i < module.dlpi_phnum && out.build_id_length == 0; ++i) {
      if (module.dlpi_phdr[i].p_type == PT_NOTE) find_build_id(module, module.dlpi_phdr[i], out);
    }
    return out;
  }

  static int visit(dl_phdr_info* module, std::size_t /*size*/, void* self) {
    static_cast<collector*>(self)->add(*module);
    return 0;
  }
};

loaded_modules::loaded_modules() {
  char program[longest_path];
  const long length =
      os::in_sandbox() ? 0
                       : os::system_call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                                         reinterpret_cast<long>(program), sizeof program - 1);
  program[length > 0 ? length : 0] = '\0';
  collector counted;
  counted.program = program;
  dl_iterate_phdr(collector::visit, &counted);
  collector copied;
  copied.program = program;
  // Room for libraries that are loaded meanwhile.
  copied.most_segments = counted.count + 8;
  copied.most_text = counted.used + longest_path;
  const std::size_t bytes = copied.most_segments * sizeof(loaded_segment) + copied.most_text;
  void* const memory = engine::blocks.allocate(bytes);
  if (memory == nullptr) return;
  bytes_ = bytes;
  copied.segments = segments_ = static_cast<loaded_segment*>(memory);
  copied.text = reinterpret_cast<char*>(segments_ + copied.most_segments);
  dl_iterate_phdr(collector::visit, &copied);
  count_ = copied.count;
}

loaded_modules::~loaded_modules() {
  if (segments_ != nullptr) engine::blocks.deallocate(segments_, bytes_);
}

}  // namespace tarn
