// SPDX-License-Identifier: MIT
// Addresses, functions and code of a module, in ELF files made here; files that cannot be used.
#include "profiler/analyze/elf_module.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "profiler/analyze/symbols.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

constexpr std::uint64_t code_offset = 0x1000, code_address = 0x401000;

struct made_symbol {
  const char* name;
  std::uint64_t start, size;
  unsigned char type = STT_FUNC;
  std::uint16_t section = 1;
};

template <class Type>
void put(std::vector<std::uint8_t>& bytes, std::size_t at, const Type& value) {
  if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// A module with a segment of `code_bytes` bytes of code, 0, 1, 2, ..., and a table of symbols of this section type. The
// file has `missing` bytes of the segment less.
void write_module(scratch_file& file, const std::vector<made_symbol>& symbols, unsigned table = SHT_SYMTAB,
                  std::uint64_t code_bytes = 0x200, std::uint64_t missing = 0) {
  std::vector<std::uint8_t> bytes;
  std::string names(1, '\0');
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = table;
  sections[1].sh_link = 2;
  sections[1].sh_entsize = sizeof(Elf64_Sym);
  sections[1].sh_offset = 0x400;
  for (const made_symbol& each : symbols) {
    Elf64_Sym symbol = {};
    symbol.st_name = *each.name == 0 ? 0 : static_cast<Elf64_Word>(names.size());
    symbol.st_info = each.type;
    symbol.st_shndx = each.section;
    symbol.st_value = each.start;
    symbol.st_size = each.size;
    names.append(each.name).push_back('\0');
    put(bytes, sections[1].sh_offset + sections[1].sh_size, symbol);
    sections[1].sh_size += sizeof symbol;
  }
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = 0xa00;
  sections[2].sh_size = names.size();
  for (std::size_t at = 0; at < names.size(); ++at) put(bytes, sections[2].sh_offset + at, names[at]);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_machine = EM_AARCH64;
  header.e_ehsize = sizeof header;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  header.e_shoff = 0x200;
  header.e_shentsize = sizeof sections[0];
  header.e_shnum = 3;
  put(bytes, 0, header);
  Elf64_Phdr segment = {};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_X;
  segment.p_offset = code_offset;
  segment.p_vaddr = code_address;
  segment.p_filesz = code_bytes;
  segment.p_memsz = 2 * code_bytes;  // the rest is .bss
  put(bytes, header.e_phoff, segment);
  put(bytes, header.e_shoff, sections);
  for (std::uint64_t at = 0; at < code_bytes - missing; ++at)
    put(bytes, code_offset + at, static_cast<std::uint8_t>(at));
  file.set(bytes);
}

std::unique_ptr<elf_module> opened(const scratch_file& file) {
  static debug_files none({{}, false, {}});
  std::string problem;
  auto module = elf_module::open(file.path(), "", none, problem);
  EXPECT_NE(module, nullptr) << problem;
  return module;
}

std::string problem_of(const std::string& path, std::string_view build_id = "") {
  debug_files none({{}, false, {}});
  std::string problem;
  EXPECT_EQ(elf_module::open(path, build_id, none, problem), nullptr);
  return problem;
}

std::string function_at(elf_module& module, std::uint64_t offset) {
  const elf_symbol* found = module.function_at(code_address + offset);
  return found == nullptr ? "" : found->name;
}

TEST(elf_module, a_file_that_cannot_be_used_has_its_reason) {
  EXPECT_EQ(problem_of("/nowhere/libx.so"), "the file does not exist any more");
  EXPECT_EQ(problem_of("/"), "Invalid argument");
  EXPECT_EQ(problem_of("/proc/self/maps"), "Exec format error");
  scratch_file file;
  write_module(file, {});
  EXPECT_EQ(problem_of(file.path(), "abcd"), "the file has been replaced (its build-id differs)");
}

TEST(elf_module, offsets_of_a_segment_have_addresses) {
  scratch_file file;
  write_module(file, {});
  const auto module = opened(file);
  EXPECT_EQ(module->machine(), unsigned{EM_AARCH64});
  EXPECT_EQ(module->address_at(code_offset - 1), std::nullopt);
  EXPECT_EQ(module->address_at(code_offset), code_address);
  EXPECT_EQ(module->address_at(code_offset + 0x1ff), code_address + 0x1ff);
  EXPECT_EQ(module->address_at(code_offset + 0x200), std::nullopt) << ".bss is not in the file";
}

TEST(elf_module, code_is_read_up_to_the_end_of_its_segment_and_of_the_file) {
  using bytes = std::vector<std::uint8_t>;
  scratch_file file;
  write_module(file, {});
  EXPECT_EQ(opened(file)->code_at(code_address + 5, 3), (bytes{5, 6, 7}));
  EXPECT_EQ(opened(file)->code_at(code_address + 0x1fe, 10), (bytes{0xfe, 0xff}));
  EXPECT_TRUE(opened(file)->code_at(code_address + 0x200, 1).empty());
  EXPECT_TRUE(opened(file)->code_at(code_address - 1, 1).empty());
  write_module(file, {}, SHT_SYMTAB, 0x200, 0x100);
  EXPECT_EQ(opened(file)->code_at(code_address + 0xfe, 10), (bytes{0xfe, 0xff}));
}

TEST(elf_module, the_function_at_an_address) {
  scratch_file file;
  write_module(file, {{"late", code_address + 0x50, 0x10},
                      {"sized", code_address + 0x10, 0x10},
                      {"endless", code_address + 0x30, 0},
                      {"variable", code_address + 0x34, 4, STT_OBJECT},
                      {"elsewhere", code_address + 0x38, 4, STT_FUNC, SHN_UNDEF},
                      {"", code_address + 0x3c, 4},
                      {"chosen", code_address + 0x40, 8, STT_GNU_IFUNC}});
  const auto module = opened(file);
  EXPECT_EQ(function_at(*module, 0x0f), "");
  EXPECT_EQ(function_at(*module, 0x10), "sized");
  EXPECT_EQ(function_at(*module, 0x1f), "sized");
  EXPECT_EQ(function_at(*module, 0x20), "");
  EXPECT_EQ(function_at(*module, 0x3f), "endless") << "a symbol without a size extends to the next one";
  EXPECT_EQ(function_at(*module, 0x47), "chosen");
  EXPECT_EQ(function_at(*module, 0x48), "");
  EXPECT_EQ(function_at(*module, 0x5f), "late");
  ASSERT_NE(module->function_from(code_address + 0x10), nullptr);
  EXPECT_STREQ(module->function_from(code_address + 0x10)->name, "sized");
  EXPECT_EQ(module->function_from(code_address + 0x11), nullptr);
}

TEST(elf_module, of_several_functions_at_one_address_the_longest_then_the_first_by_name) {
  scratch_file file;
  write_module(file,
               {{"brief", code_address, 8}, {"twin_b", code_address, 16}, {"twin_a", code_address, 16}});
  EXPECT_EQ(function_at(*opened(file), 0), "twin_a");
}

TEST(elf_module, exported_functions_stand_for_a_missing_table_of_symbols) {
  scratch_file file;
  write_module(file, {{"exported", code_address, 8}}, SHT_DYNSYM);
  const auto module = opened(file);
  EXPECT_EQ(function_at(*module, 0), "exported");
  EXPECT_EQ(module->debug_information(), nullptr);
}

// Views name addresses of profiles that are printable already, so the names must be.
TEST(elf_module, any_bytes_of_a_symbol_become_printable_names) {
  scratch_file file;
  write_module(file, {{"evil\x1b]0;t\x07\n\xff", code_address, 0x100}});
  profile p;
  p.modules.push_back({file.path(), "", 0x10000, 0x20000, code_offset});
  p.stacks = {{0, 0}, {0, 0x10011}};
  add_symbols(p, {{}, false, {}});
  ASSERT_EQ(p.symbols.size(), 1U);
  EXPECT_EQ(p.symbols[0x10011].front().function, "evil\\x1b]0;t\\x07\\n\\xff");
}

// As after an update, or where a core file is read on another machine.
TEST(elf_module, a_file_that_is_gone_is_found_by_its_build_id) {
  const std::string own = std::filesystem::canonical("/proc/self/exe");
  const std::string id = build_id_of(own);
  if (id.empty()) GTEST_SKIP() << "this test has no build-id";
  const std::filesystem::path folder = testing::TempDir() + "elf_module_" + std::to_string(getpid());
  const std::filesystem::path place = folder / ".build-id" / id.substr(0, 2);
  std::filesystem::create_directories(place);
  debug_files debug({.debug_paths = {folder}, .ask_servers = false, .progress = {}});
  std::string problem;
  EXPECT_EQ(elf_module::open("/nowhere/program", id, debug, problem), nullptr);
  EXPECT_NE(problem.find("does not exist"), std::string::npos) << problem;
  std::filesystem::create_symlink(own, place / id.substr(2));
  EXPECT_NE(elf_module::open("/nowhere/program", id, debug, problem), nullptr);
  EXPECT_EQ(problem, "");
  EXPECT_NE(elf_module::open("/bin/sh", id, debug, problem), nullptr) << "another file lies there";
  EXPECT_EQ(elf_module::open("/nowhere/program", "", debug, problem), nullptr);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tarn::profiler
