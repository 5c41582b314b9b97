// SPDX-License-Identifier: MIT
// Files that are no ELF files, and ELF files that no linker makes.
#include "profiler/analyze/opened_elf.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

TEST(opened_elf, a_module_that_is_a_pipe_is_not_waited_for) {
  std::string folder = (std::filesystem::temp_directory_path() / "tarn-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/module";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  alarm(20);  // ends this test program if open() waits
  const std::vector<module_info> modules = modules_of({pipe, "", 0, 0x1000, 0x2000});
  alarm(0);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].start, 0x1000U);
  EXPECT_EQ(modules[0].build_id, "");
}

TEST(opened_elf, a_file_that_is_not_the_one_in_memory_tells_nothing_about_it) {
  const std::vector<module_info> own = modules_of({"/proc/self/exe", "", 0x10000, 0x10000, 0x20000});
  ASSERT_FALSE(own.empty());
  const std::vector<module_info> other = modules_of({"/proc/self/exe", "abcd", 0x10000, 0x10000, 0x20000});
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].build_id, "abcd");
  EXPECT_EQ(other[0].start, 0x10000U);
  EXPECT_EQ(other[0].end, 0x20000U);
}

// Writes an ELF file with a build-id of `id_bytes` bytes in a segment, and a section of `section_bytes` bytes of notes
// behind it. Segments of `before` bytes of empty notes come first; they overlap.
void write_elf(scratch_file& file, std::uint32_t id_bytes, std::size_t section_bytes,
               const std::vector<std::size_t>& before = {}) {
  ElfW(Ehdr) header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = static_cast<std::uint16_t>(before.size() + 1);
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  const std::size_t empty_notes = sizeof header + segments.size() * sizeof segments[0];
  for (std::size_t index = 0; index < before.size(); ++index) {
    segments[index].p_offset = empty_notes;
    segments[index].p_filesz = before[index];
  }
  for (ElfW(Phdr) & each : segments) {
    each.p_type = PT_NOTE;
    each.p_align = 4;
  }
  const std::size_t empty_bytes = before.empty() ? 0 : *std::max_element(before.begin(), before.end());
  ElfW(Phdr)& segment = segments.back();
  segment.p_offset = empty_notes + (empty_bytes + 3) / 4 * 4;
  segment.p_filesz = sizeof(ElfW(Nhdr)) + 4 + id_bytes;
  ElfW(Shdr) sections[2] = {};
  sections[1].sh_type = SHT_NOTE;
  sections[1].sh_addralign = 4;
  sections[1].sh_offset = segment.p_offset + segment.p_filesz;
  sections[1].sh_size = section_bytes;
  header.e_shoff = sections[1].sh_offset + section_bytes;
  header.e_shentsize = sizeof sections[0];
  header.e_shnum = section_bytes != 0 ? 2 : 0;
  const ElfW(Nhdr) note = {4, id_bytes, NT_GNU_BUILD_ID};
  std::vector<std::uint8_t> bytes(header.e_shoff + sizeof sections, 0xab);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, segments.data(), empty_notes - sizeof header);
  std::memset(bytes.data() + empty_notes, 0, segment.p_offset - empty_notes);
  std::memcpy(bytes.data() + segment.p_offset, &note, sizeof note);
  std::memcpy(bytes.data() + segment.p_offset + sizeof note, "GNU", 4);
  std::memcpy(bytes.data() + header.e_shoff, sections, sizeof sections);
  file.set(bytes);
}

// Linkers make build-ids of 8 to 20 bytes. In a module of a thousand segments, one of 60,000 bytes would be kept a
// thousand times.
TEST(opened_elf, a_build_id_of_60_000_bytes_is_ignored) {
  scratch_file file;
  write_elf(file, 60000, 0);
  EXPECT_EQ(build_id_of(file.path()), "");
  write_elf(file, 4, 0);
  EXPECT_EQ(build_id_of(file.path()), "abababab");
}

// Programs with many probes have such a section, which is not loaded.
TEST(opened_elf, a_long_section_of_notes_hides_no_build_id) {
  scratch_file file;
  write_elf(file, 4, 72000);
  EXPECT_EQ(build_id_of(file.path()), "abababab");
}

// libelf keeps all notes that it has read.
TEST(opened_elf, notes_are_read_up_to_a_megabyte_in_all) {
  constexpr std::size_t longest = 65536, most = 1 << 20, id_note = sizeof(ElfW(Nhdr)) + 4 + 4;
  std::vector<std::size_t> before(most / longest, longest);
  scratch_file file;
  before.back() = longest - id_note;
  write_elf(file, 4, 0, before);
  EXPECT_EQ(build_id_of(file.path()), "abababab") << "a megabyte, the build-id included";
  before.back() += 4;
  write_elf(file, 4, 0, before);
  EXPECT_EQ(build_id_of(file.path()), "");
  // What is too long is skipped, and takes no part of the megabyte.
  write_elf(file, 4, 0, std::vector<std::size_t>(100, longest + 4));
  EXPECT_EQ(build_id_of(file.path()), "abababab");
}

TEST(opened_elf, of_a_thousand_segments_no_more_are_read) {
  scratch_file file;
  write_elf(file, 4, 0, std::vector<std::size_t>(999, 12));
  EXPECT_EQ(build_id_of(file.path()), "abababab");
  write_elf(file, 4, 0, std::vector<std::size_t>(1000, 12));
  EXPECT_EQ(build_id_of(file.path()), "");
}

}  // namespace
}  // namespace tarn::profiler
