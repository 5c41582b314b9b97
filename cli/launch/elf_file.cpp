// SPDX-License-Identifier: MIT
#include "cli/launch/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

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

// A valid native ELF64 file as the loader sees it: by addresses instead of file offsets.
class dynamic_view {
 public:
  explicit dynamic_view(std::span<const std::byte> image) : image_(image) {
    const auto header = read_at<Elf64_Ehdr>(image_, 0);
    if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return;
    std::optional<Elf64_Phdr> dynamic;
    for (std::uint64_t index = 0; index < header->e_phnum; ++index) {
      const auto segment = read_at<Elf64_Phdr>(image_, header->e_phoff + index * sizeof(Elf64_Phdr));
      if (!segment) return;
      if (segment->p_type == PT_LOAD) loads_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) dynamic = segment;
    }
    if (dynamic) read_table(*dynamic);
  }

  bool defines(std::string_view symbol) const {
    if (symbols_ == 0 || strings_ == 0) return false;
    return gnu_hash_ != 0 ? found_by_gnu_hash(symbol) : found_by_scan(symbol);
  }

 private:
  template <typename T>
  std::optional<T> at(std::uint64_t address) const {
    const auto offset = offset_of(address);
    return offset ? read_at<T>(image_, *offset) : std::nullopt;
  }

  std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return std::nullopt;
  }

  void read_table(const Elf64_Phdr& dynamic) {
    for (std::uint64_t offset = 0; offset + sizeof(Elf64_Dyn) <= dynamic.p_filesz;
         offset += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(image_, dynamic.p_offset + offset);
      if (!entry || entry->d_tag == DT_NULL) return;
      if (entry->d_tag == DT_SYMTAB) symbols_ = entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) strings_ = entry->d_un.d_ptr;
      if (entry->d_tag == DT_GNU_HASH) gnu_hash_ = entry->d_un.d_ptr;
      if (entry->d_tag == DT_HASH) hash_ = entry->d_un.d_ptr;
    }
  }

  bool matches(std::uint64_t index, std::string_view symbol) const {
    const auto entry = at<Elf64_Sym>(symbols_ + index * sizeof(Elf64_Sym));
    if (!entry || entry->st_shndx == SHN_UNDEF || entry->st_value == 0) return false;
    const unsigned binding = ELF64_ST_BIND(entry->st_info);
    if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) return false;
    const auto offset = offset_of(strings_ + entry->st_name);
    const auto name = offset ? string_at(image_, *offset) : std::nullopt;
    return name && *name == symbol;
  }

  bool found_by_gnu_hash(std::string_view symbol) const {
    std::uint32_t hash = 5381;
    for (const char letter : symbol) hash = hash * 33 + static_cast<unsigned char>(letter);
    const auto bucket_count = at<std::uint32_t>(gnu_hash_);
    const auto first_hashed = at<std::uint32_t>(gnu_hash_ + 4);
    const auto bloom_words = at<std::uint32_t>(gnu_hash_ + 8);
    if (!bucket_count || !first_hashed || !bloom_words || *bucket_count == 0) return false;
    const std::uint64_t buckets = gnu_hash_ + 16 + std::uint64_t{8} * *bloom_words;
    const std::uint64_t chains = buckets + std::uint64_t{4} * *bucket_count;
    const auto first = at<std::uint32_t>(buckets + std::uint64_t{4} * (hash % *bucket_count));
    if (!first || *first < *first_hashed) return false;
    for (std::uint64_t index = *first;; ++index) {
      // Ends at the chain's last entry (lowest bit set), or at the end of the file.
      const auto chained = at<std::uint32_t>(chains + 4 * (index - *first_hashed));
      if (!chained) return false;
      if ((*chained | 1U) == (hash | 1U) && matches(index, symbol)) return true;
      if ((*chained & 1U) != 0) return false;
    }
  }

  bool found_by_scan(std::string_view symbol) const {
    const auto count = hash_ != 0 ? at<std::uint32_t>(hash_ + 4) : std::nullopt;
    for (std::uint64_t index = 1; count && index < *count; ++index) {
      if (!at<Elf64_Sym>(symbols_ + index * sizeof(Elf64_Sym))) return false;
      if (matches(index, symbol)) return true;
    }
    return false;
  }

  std::span<const std::byte> image_;
  std::vector<Elf64_Phdr> loads_;
  std::uint64_t symbols_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t gnu_hash_ = 0;
  std::uint64_t hash_ = 0;
};

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
  return dynamic_view(image).defines(symbol);
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
