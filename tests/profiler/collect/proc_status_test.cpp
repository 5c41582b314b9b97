// SPDX-License-Identifier: MIT
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

TEST(proc_status, process_with_a_difficult_name) {
  const auto process = parse_process(
      "4711 (a) (b c) S 1 2 3 4 5 6 100 200 3 4 50 60 7 8 20 0 1 0 999 123456 77 18446744073709551615\n", 10,
      4096);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->id, 4711U);
  EXPECT_EQ(process->name, "a) (b c");
  EXPECT_EQ(process->state, 'S');
  EXPECT_FALSE(process->has_ended());
  EXPECT_EQ(process->start_ticks, 999U);
  EXPECT_EQ(process->minor_faults, 100);
  EXPECT_EQ(process->major_faults, 3);
  EXPECT_DOUBLE_EQ(process->user_ns, 5e9);
  EXPECT_DOUBLE_EQ(process->system_ns, 6e9);
  EXPECT_EQ(process->resident_bytes, 77 * 4096);
  EXPECT_EQ(process->ended_children.minor_faults, 200);
  EXPECT_EQ(process->ended_children.major_faults, 4);
  EXPECT_DOUBLE_EQ(process->ended_children.user_ns, 0.7e9);
  EXPECT_DOUBLE_EQ(process->ended_children.system_ns, 0.8e9);
}

TEST(proc_status, texts_that_are_no_process) {
  for (const char* text : {"", "4711", "4711 (x)", "4711 (x) S 1 2 3",
                           "(x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 )x( S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711(x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 (x) S 1 2 3 4 5 6 - 8 9 10 11 12 13 14 15 16 17 18 19 20 21"}) {
    EXPECT_FALSE(parse_process(text, 100, 4096)) << text;
  }
  EXPECT_TRUE(parse_process("4711 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21", 100, 4096));
}

TEST(proc_status, no_such_process) { EXPECT_FALSE(read_process(0x7fffffff)); }

TEST(proc_status, a_module_that_is_a_pipe_is_not_waited_for) {
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
TEST(proc_status, a_build_id_of_60_000_bytes_is_ignored) {
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
