// SPDX-License-Identifier: MIT
// Interpreter, machine and symbols of ELF files: crafted, real, truncated and damaged ones.
#include "cli/launch/elf_file.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t native = EM_X86_64;
constexpr std::uint16_t foreign = EM_AARCH64;
#else
constexpr std::uint16_t native = EM_AARCH64;
constexpr std::uint16_t foreign = EM_X86_64;
#endif

using image = std::vector<std::byte>;

template <class T>
void put(image& bytes, std::size_t offset, const T& value) {
  if (bytes.size() < offset + sizeof(T)) bytes.resize(offset + sizeof(T));
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

void put_text(image& bytes, std::size_t offset, std::string_view text) {
  for (const char letter : text) put(bytes, offset++, letter);
  put(bytes, offset, '\0');
}

// An ELF64 header and one program header of the given kind that points at `content`.
image crafted(std::uint16_t machine, std::uint32_t segment_type, std::string_view content) {
  image bytes;
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = machine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  put(bytes, 0, header);
  Elf64_Phdr segment = {};
  segment.p_type = segment_type;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = content.size() + 1;
  put(bytes, sizeof header, segment);
  put_text(bytes, segment.p_offset, content);
  return bytes;
}

std::string text_of(const image& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

elf_summary summarize(const image& bytes) { return summarize_file(scratch_file(text_of(bytes)).path()); }

bool defines(const image& bytes, std::string_view symbol) {
  return defines_symbol(scratch_file(text_of(bytes)).path(), symbol);
}

image text_image(std::string_view text) {
  image bytes;
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
  return bytes;
}

TEST(elf_file, reads_the_interpreter) {
  const elf_summary summary = summarize(crafted(native, PT_INTERP, "/lib64/ld-test.so"));
  EXPECT_EQ(summary.kind, file_kind::elf);
  EXPECT_EQ(summary.interpreter, "/lib64/ld-test.so");
  EXPECT_TRUE(summary.is_native());
}

TEST(elf_file, a_static_program_has_none) {
  const elf_summary summary = summarize(crafted(native, PT_LOAD, "code"));
  EXPECT_EQ(summary.kind, file_kind::elf);
  EXPECT_TRUE(summary.interpreter.empty());
}

TEST(elf_file, names_foreign_machines) {
  const elf_summary summary = summarize(crafted(foreign, PT_INTERP, "/lib/ld.so"));
  const auto name_of = [](std::uint16_t machine, int bits) {
    elf_summary one{.bits = bits, .machine = machine};
    return one.machine_name();
  };
  EXPECT_FALSE(summary.is_native());
  EXPECT_EQ(name_of(EM_AARCH64, 64), "aarch64");
  EXPECT_EQ(name_of(EM_386, 32), "32-bit x86");
  EXPECT_EQ(name_of(4242, 32), "machine 4242 (32-bit)");
}

TEST(elf_file, thirty_two_bits_and_foreign_byte_order) {
  Elf32_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_machine = EM_386;
  image bytes;
  put(bytes, 0, header);
  EXPECT_EQ(summarize(bytes).bits, 32);
  EXPECT_EQ(summarize(bytes).machine, EM_386);
  header.e_ident[EI_DATA] = ELFDATA2MSB;
  header.e_machine = __builtin_bswap16(EM_PPC64);
  put(bytes, 0, header);
  EXPECT_TRUE(summarize(bytes).big_endian);
  EXPECT_EQ(summarize(bytes).machine, EM_PPC64);
  EXPECT_FALSE(summarize(bytes).is_native());
}

TEST(elf_file, other_kinds_of_file) {
  EXPECT_EQ(summarize({}).kind, file_kind::empty);
  EXPECT_EQ(summarize(text_image("hello")).kind, file_kind::other);
  EXPECT_EQ(summarize(text_image("#! /bin/sh -e \nexit")).script_line, "/bin/sh -e");
  EXPECT_EQ(summarize(text_image("#!/bin/sh\r\n")).script_line, "/bin/sh\r");
  EXPECT_EQ(summarize(text_image("#!")).kind, file_kind::script);
  EXPECT_EQ(summarize(text_image("#!")).script_line, "");
}

TEST(elf_file, every_truncation_is_survived) {
  const image whole = crafted(native, PT_INTERP, "/lib64/ld-test.so");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const image part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const elf_summary summary = summarize(part);
    EXPECT_TRUE(summary.kind != file_kind::elf) << size;
    EXPECT_FALSE(defines(part, "malloc"));
  }
}

TEST(elf_file, offsets_beyond_the_file_are_damage) {
  image bytes = crafted(native, PT_INTERP, "/x");
  put(bytes, offsetof(Elf64_Ehdr, e_phoff), std::uint64_t{0xffffffffffffff00});
  EXPECT_EQ(summarize(bytes).kind, file_kind::damaged_elf);
  EXPECT_FALSE(summarize(bytes).problem.empty());
}

TEST(elf_file, finds_symbols_in_real_libraries) {
  const elf_summary summary = summarize_file("/proc/self/exe");
  EXPECT_EQ(summary.kind, file_kind::elf);
  EXPECT_TRUE(summary.is_native());
  EXPECT_TRUE(summary.has_dynamic);
  EXPECT_FALSE(defines_symbol("/proc/self/exe", "malloc"));
  // This program's interpreter, the dynamic loader, is a library with well-known symbols.
  EXPECT_TRUE(defines_symbol(summary.interpreter, "__tls_get_addr"));
  EXPECT_FALSE(defines_symbol(summary.interpreter, "no_such_symbol_anywhere"));
}

TEST(elf_file, damage_anywhere_in_a_real_library_is_survived) {
  std::ifstream loader(summarize_file("/proc/self/exe").interpreter, std::ios::binary);
  const image whole = text_image(std::string(std::istreambuf_iterator<char>(loader), {}));
  std::uint64_t state = 1;
  for (int trial = 0; trial < 200; ++trial) {
    image damaged = whole;
    for (int change = 0; change < 64; ++change) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      // The first 16 KiB hold the headers, the hash table and the symbols.
      damaged[(state >> 33) % std::min<std::size_t>(16384, damaged.size())] =
          static_cast<std::byte>(state >> 56);
    }
    defines(damaged, "__tls_get_addr");
    prefixed_malloc_of(scratch_file(text_of(damaged)).path());
  }
  SUCCEED();
}

TEST(elf_file, missing_files_and_folders_are_errors) {
  EXPECT_THROW(summarize_file("/nonexistent/file"), std::system_error);
  EXPECT_THROW(summarize_file("/tmp"), std::system_error);
}

}  // namespace
}  // namespace tarn::cli
