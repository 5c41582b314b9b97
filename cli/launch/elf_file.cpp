// SPDX-License-Identifier: MIT
#include "cli/launch/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

namespace tarn::cli {

namespace {

// The kernel reads no more of a script's first line than this.
constexpr std::size_t script_line_limit = 255;

#if defined(__x86_64__)
constexpr std::uint16_t native_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t native_machine = EM_AARCH64;
#else
#error "tarn supports x86-64 and aarch64"
#endif

template <typename T>
std::optional<T> read_at(std::span<const std::byte> image, std::uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string_view> string_at(std::span<const std::byte> image, std::uint64_t offset) {
  if (offset >= image.size()) return std::nullopt;
  const char* begin = reinterpret_cast<const char*>(image.data() + offset);
  const void* end = std::memchr(begin, 0, image.size() - offset);
  if (end == nullptr) return std::nullopt;
  return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
}

std::string first_line(std::span<const std::byte> image) {
  const char* text = reinterpret_cast<const char*>(image.data());
  const std::size_t limit = std::min(image.size(), script_line_limit);
  std::size_t end = 2;
  while (end < limit && text[end] != '\n' && text[end] != '\0') ++end;
  std::string line(text + 2, end - 2);
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
}

template <typename header_type, typename segment_type>
void read_segments(std::span<const std::byte> image, elf_summary& summary) {
  const auto damaged = [&summary](std::string problem) {
    summary.kind = file_kind::damaged_elf;
    summary.problem = std::move(problem);
  };
  const auto header = read_at<header_type>(image, 0);
  if (!header) return damaged("the ELF header is cut short");
  summary.type = header->e_type;
  summary.machine = header->e_machine;
  if (header->e_phnum != 0 && header->e_phentsize != sizeof(segment_type)) {
    return damaged("its program headers have an unknown size");
  }
  for (std::uint64_t index = 0; index < header->e_phnum; ++index) {
    const auto segment = read_at<segment_type>(image, header->e_phoff + index * sizeof(segment_type));
    if (!segment) return damaged("its program headers lie beyond the end of the file");
    if (segment->p_type == PT_DYNAMIC) summary.has_dynamic = true;
    if (segment->p_type != PT_INTERP) continue;
    const auto interpreter = string_at(image, segment->p_offset);
    if (!interpreter || interpreter->empty() || interpreter->size() >= segment->p_filesz) {
      return damaged("the name of its interpreter is cut short");
    }
    summary.interpreter = *interpreter;
  }
}

struct elf_end_of {
  void operator()(Elf* file) const { elf_end(file); }
};

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

elf_summary summarize_file(std::span<const std::byte> image) {
  elf_summary summary;
  if (image.empty()) {
    summary.kind = file_kind::empty;
    return summary;
  }
  if (image.size() >= 2 && std::memcmp(image.data(), "#!", 2) == 0) {
    summary.kind = file_kind::script;
    summary.script_line = first_line(image);
    return summary;
  }
  if (image.size() < SELFMAG || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0) return summary;
  summary.kind = file_kind::elf;
  const auto ident = read_at<std::array<unsigned char, EI_NIDENT>>(image, 0);
  const unsigned file_class = ident ? (*ident)[EI_CLASS] : unsigned{ELFCLASSNONE};
  if (file_class != ELFCLASS32 && file_class != ELFCLASS64) {
    summary.kind = file_kind::damaged_elf;
    summary.problem = ident ? "it is neither 32-bit nor 64-bit" : "the ELF header is cut short";
    return summary;
  }
  summary.bits = file_class == ELFCLASS64 ? 64 : 32;
  summary.big_endian = (*ident)[EI_DATA] == ELFDATA2MSB;
  if (summary.big_endian) {
    // Foreign byte order: read only the machine, to name it in the message.
    const auto high = read_at<std::uint16_t>(image, offsetof(Elf64_Ehdr, e_machine));
    summary.machine = high ? __builtin_bswap16(*high) : std::uint16_t{EM_NONE};
    return summary;
  }
  if (summary.bits == 64) {
    read_segments<Elf64_Ehdr, Elf64_Phdr>(image, summary);
  } else {
    read_segments<Elf32_Ehdr, Elf32_Phdr>(image, summary);
  }
  return summary;
}

bool defines_symbol(std::span<const std::byte> image, std::string_view symbol) {
  const elf_summary summary = summarize_file(image);
  if (summary.kind != file_kind::elf || !is_native(summary) || !summary.has_dynamic) return false;
  elf_version(EV_CURRENT);
  // libelf only reads: the file has this machine's byte order.
  auto* const text = const_cast<char*>(reinterpret_cast<const char*>(image.data()));
  const std::unique_ptr<Elf, elf_end_of> file(elf_memory(text, image.size()));
  Elf_Scn* section = nullptr;
  while (file && (section = elf_nextscn(file.get(), section)) != nullptr) {
    if (defines(file.get(), section, symbol)) return true;
  }
  return false;
}

std::string machine_name(std::uint16_t machine, unsigned bits, bool big_endian) {
  switch (machine) {
    case EM_X86_64:
      return bits == 32 ? "x86-64 (x32)" : "x86-64";
    case EM_386:
      return "32-bit x86";
    case EM_AARCH64:
      return big_endian ? "big-endian aarch64" : "aarch64";
    case EM_ARM:
      return "32-bit ARM";
    case EM_RISCV:
      return fmt::format("{}-bit RISC-V", bits);
    case EM_PPC64:
      return big_endian ? "ppc64" : "ppc64le";
    case EM_S390:
      return "s390x";
    default:
      return fmt::format("machine {} ({}-bit)", machine, bits);
  }
}

bool is_native(const elf_summary& summary) {
  return summary.bits == 64 && !summary.big_endian && summary.machine == native_machine;
}

mapped_file::mapped_file(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), path);
  struct stat status = {};
  int error = fstat(descriptor, &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = EINVAL;
  if (error == 0 && status.st_size > 0) {
    void* mapping =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) {
      error = errno;
    } else {
      data_ = static_cast<const std::byte*>(mapping);
      size_ = static_cast<std::size_t>(status.st_size);
    }
  }
  close(descriptor);
  if (error != 0) throw std::system_error(error, std::generic_category(), path);
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tarn::cli
