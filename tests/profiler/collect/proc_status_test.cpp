// SPDX-License-Identifier: MIT
// Paths that a recorded process tells may name anything.
#include "profiler/collect/proc_status.hpp"

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

TEST(proc_status, a_module_that_is_a_pipe_is_not_waited_for) {
  std::string folder = (std::filesystem::temp_directory_path() / "tarn-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/module";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  alarm(20);  // ends the program
  const std::vector<module_info> modules = modules_of(pipe, 0, 0x1000, 0x2000);
  alarm(0);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].start, 0x1000U);
  EXPECT_EQ(modules[0].build_id, "");
}

// One note of 60,000 bytes for each of a thousand segments would be a hundred million characters.
TEST(proc_status, a_build_id_that_no_linker_makes_is_none) {
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
