// SPDX-License-Identifier: MIT
// Files that are no ELF files, and ELF files that no linker makes.
#include "profiler/analyze/opened_elf.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

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
  const std::vector<module_info> modules = modules_of(pipe, 0, 0x1000, 0x2000);
  alarm(0);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].start, 0x1000U);
  EXPECT_EQ(modules[0].build_id, "");
}

// Linkers make build-ids of 8 to 20 bytes. In a module of a thousand segments, one of 60,000 bytes would be kept a
// thousand times.
TEST(opened_elf, a_build_id_of_60_000_bytes_is_ignored) {
  constexpr std::size_t id_bytes = 60000;
  ElfW(Ehdr) header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 1;
  ElfW(Phdr) segment = {};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = sizeof(ElfW(Nhdr)) + 4 + id_bytes;
  const ElfW(Nhdr) note = {4, id_bytes, NT_GNU_BUILD_ID};
  std::vector<std::uint8_t> bytes(segment.p_offset + segment.p_filesz);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &segment, sizeof segment);
  std::memcpy(bytes.data() + segment.p_offset, &note, sizeof note);
  std::memcpy(bytes.data() + segment.p_offset + sizeof note, "GNU", 4);
  scratch_file file;
  file.set(bytes);
  EXPECT_EQ(build_id_of(file.path()), "");
}

}  // namespace
}  // namespace tarn::profiler
