// SPDX-License-Identifier: MIT
#include "cli/launch/elf_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/architecture.hpp"
#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {

namespace {

// The kernel reads no more of a script's first line than this.
constexpr std::size_t script_line_limit = 255;

struct elf_closer {
  void operator()(Elf* file) const { elf_end(file); }
};

// A regular file. Not mapped: truncating the file meanwhile would end this process by SIGBUS.
struct opened_file {
  open_file file;
  std::unique_ptr<Elf, elf_closer> elf;  // null: libelf does not know it

  explicit opened_file(const std::string& path)
      : file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat about = {};
    int error = file.number() >= 0 && fstat(file.number(), &about) == 0 ? 0 : errno;
    if (error == 0 && !S_ISREG(about.st_mode)) error = EINVAL;
    if (error != 0) throw std::system_error(error, std::generic_category(), path);
    elf_version(EV_CURRENT);
    elf.reset(elf_begin(file.number(), ELF_C_READ, nullptr));
    if (elf_kind(elf.get()) != ELF_K_ELF) elf.reset();
  }
};

elf_summary damaged(const char* problem) { return {.kind = file_kind::damaged_elf, .problem = problem}; }

elf_summary summarize_text(std::string_view head) {
  if (head.starts_with(std::string_view(ELFMAG, SELFMAG)))
    return damaged("the ELF header is cut short, or of an unknown kind");
  elf_summary summary;
  if (head.empty()) summary.kind = file_kind::empty;
  if (!head.starts_with("#!")) return summary;
  summary.kind = file_kind::script;
  head = head.substr(2, head.find_first_of(std::string_view("\n\0", 2)) - 2);
  const std::size_t begin = std::min(head.find_first_not_of(" \t"), head.size());
  summary.script_line = head.substr(begin, head.find_last_not_of(" \t") + 1 - begin);
  return summary;
}

elf_summary summarize_elf(const opened_file& opened) {
  Elf* const elf = opened.elf.get();
  GElf_Ehdr header;
  std::size_t segments = 0;
  if (gelf_getehdr(elf, &header) == nullptr) return damaged("the ELF header is cut short");
  if (elf_getphdrnum(elf, &segments) != 0 || segments < header.e_phnum)
    return damaged("its program headers lie beyond the end of the file");
  elf_summary summary;
  summary.kind = file_kind::elf;
  summary.bits = gelf_getclass(elf) == ELFCLASS64 ? 64 : 32;
  summary.big_endian = header.e_ident[EI_DATA] == ELFDATA2MSB;
  summary.type = header.e_type;
  summary.machine = header.e_machine;
  for (std::size_t index = 0; index < segments; ++index) {
    GElf_Phdr one;
    if (gelf_getphdr(elf, static_cast<int>(index), &one) == nullptr) continue;
    if (one.p_type == PT_DYNAMIC) summary.has_dynamic = true;
    if (one.p_type != PT_INTERP) continue;
    std::string name(std::min<std::size_t>(one.p_filesz, PATH_MAX), '\0');
    const ssize_t got =
        pread(opened.file.number(), name.data(), name.size(), static_cast<off_t>(one.p_offset));
    const std::size_t end = name.find('\0');
    if (got != static_cast<ssize_t>(name.size()) || end == 0 || end == std::string::npos)
      return damaged("the name of its interpreter is cut short");
    summary.interpreter = name.substr(0, end);
  }
  return summary;
}

// Of mimalloc, jemalloc (in C, in Rust), tcmalloc, rpmalloc and snmalloc, each name with a blank before and behind it.
constexpr std::string_view prefixed_mallocs =
    " mi_malloc mi_malloc_aligned je_malloc je_mallocx _rjem_malloc _rjem_mallocx tc_malloc rpmalloc sn_malloc"
    " sn_rust_alloc ";

std::string prefixed_malloc_in(Elf* file, Elf_Scn* section) {
  GElf_Shdr header = {};
  if (gelf_getshdr(section, &header) == nullptr ||
      (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB)) {
    return "";
  }
  Elf_Data* const data = elf_getdata(section, nullptr);
  GElf_Sym entry = {};
  for (int index = 1; data != nullptr && gelf_getsym(data, index, &entry) != nullptr; ++index) {
    if (entry.st_shndx != SHN_UNDEF && GELF_ST_TYPE(entry.st_info) != STT_FUNC) continue;
    const char* const name = elf_strptr(file, header.sh_link, entry.st_name);
    if (name == nullptr || std::strstr(name, "alloc") == nullptr) continue;
    if (prefixed_mallocs.find(fmt::format(" {} ", name)) != std::string_view::npos) return name;
  }
  return "";
}

bool defines(Elf* file, Elf_Scn* section, std::string_view symbol) {
  GElf_Shdr header = {};
  if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM) return false;
  Elf_Data* const data = elf_getdata(section, nullptr);
  GElf_Sym entry = {};
  for (int index = 1; data != nullptr && gelf_getsym(data, index, &entry) != nullptr; ++index) {
    if (entry.st_shndx == SHN_UNDEF || entry.st_value == 0) continue;
    const unsigned binding = GELF_ST_BIND(entry.st_info);
    if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) continue;
    const char* const name = elf_strptr(file, header.sh_link, entry.st_name);
    if (name != nullptr && symbol == name) return true;
  }
  return false;
}

}  // namespace

bool elf_summary::is_native() const { return bits == 64 && !big_endian && machine == arch::elf_machine; }

std::string elf_summary::machine_name() const {
  switch (machine) {
    case EM_X86_64: return bits == 32 ? "x86-64 (x32)" : "x86-64";
    case EM_386: return "32-bit x86";
    case EM_AARCH64: return big_endian ? "big-endian aarch64" : "aarch64";
    case EM_ARM: return "32-bit ARM";
    case EM_RISCV: return fmt::format("{}-bit RISC-V", bits);
    case EM_PPC64: return big_endian ? "ppc64" : "ppc64le";
    case EM_S390: return "s390x";
    default: return fmt::format("machine {} ({}-bit)", machine, bits);
  }
}

elf_summary summarize_file(const std::string& path) {
  const opened_file opened(path);
  if (opened.elf) return summarize_elf(opened);
  char head[script_line_limit];
  const ssize_t bytes = pread(opened.file.number(), head, sizeof head, 0);
  return summarize_text({head, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))});
}

bool contains_bytes(const std::string& path, std::string_view bytes) {
  const open_file file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string window;  // the end of one piece may begin what the next one ends
  std::array<char, 65536> piece;
  for (ssize_t size = 0; (size = read(file.number(), piece.data(), piece.size())) > 0;) {
    window.append(piece.data(), static_cast<std::size_t>(size));
    if (window.find(bytes) != std::string::npos) return true;
    window.erase(0, window.size() - std::min(window.size(), bytes.size()));
  }
  return false;
}

bool defines_symbol(const std::string& path, std::string_view symbol) {
  try {
    const opened_file opened(path);
    const elf_summary summary = opened.elf ? summarize_elf(opened) : elf_summary{};
    if (summary.kind != file_kind::elf || !summary.is_native() || !summary.has_dynamic) return false;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(opened.elf.get(), section)) != nullptr;) {
      if (defines(opened.elf.get(), section, symbol)) return true;
    }
  } catch (const std::system_error&) {  // it cannot be read
  }
  return false;
}

std::string prefixed_malloc_of(const std::string& program) {
  try {
    const opened_file opened(program);
    for (Elf_Scn* section = nullptr;
         opened.elf && (section = elf_nextscn(opened.elf.get(), section)) != nullptr;) {
      if (std::string name = prefixed_malloc_in(opened.elf.get(), section); !name.empty()) return name;
    }
  } catch (const std::system_error&) {  // it cannot be read
  }
  return "";
}

}  // namespace tarn::cli
