// SPDX-License-Identifier: MIT
// recording_process: which ring each stream decodes; limits on modules and source lines.
#include "profiler/collect/recording_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

constexpr std::uint32_t ring_words = 4096;

// The memory file of a process that may take two rings. Null: the system has no sealed files.
std::unique_ptr<process_memory> memory_of_two_rings() {
  const int file = memfd_create("recording_process_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  std::unique_ptr<process_memory> memory;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(process_file_bytes(2, ring_words))) == 0 &&
      fcntl(file, F_ADD_SEALS, process_seals) == 0)
    memory = process_memory::map(file, ring_words);
  if (file >= 0) close(file);
  return memory;
}

TEST(recording_process, finds_a_broken_invariant) {
  const tick_clock clock(tick_source::system_clock);
  process_entry entry(model_settings{});
  entry.validate();
  entry.memory = memory_of_two_rings();
  if (entry.memory == nullptr) GTEST_SKIP() << "the system has no sealed files";
  for (std::size_t i = 0; i < 2; ++i)
    entry.rings.emplace_back().stream.reset(entry.memory->words(i), ring_words, &entry.model, &clock, &entry,
                                            0);
  entry.validate();
  std::swap(entry.rings[0], entry.rings[1]);
  EXPECT_BROKEN(entry.validate(), "recording_process", "rings[i].stream.words() == memory->words(i)", &entry);
  std::swap(entry.rings[0], entry.rings[1]);
  entry.memory.reset();
  EXPECT_BROKEN(entry.validate(), "recording_process", "rings.empty() || memory != nullptr", &entry);
}

TEST(recording_process, a_module_counts_once_and_the_program_itself_has_its_path) {
  process_entry entry(model_settings{});
  entry.program = "/proc/self/exe";
  for (int times = 0; times < 2; ++times) entry.loaded({"", "", 0x1000, 0x1000, 0x2000});
  const std::size_t count = entry.result.modules.size();
  EXPECT_EQ(count, 1U);
  entry.loaded({"", "", 0x9000, 0x9000, 0xa000});
  EXPECT_EQ(entry.result.modules.size(), 2 * count) << "at another address";
  EXPECT_EQ(entry.loaded_at.count({"/proc/self/exe", 0x1000}), 1U);
}

TEST(recording_process, modules_and_lines_are_limited) {
  process_entry entry(model_settings{});
  entry.result.modules.resize(most_modules);
  entry.loaded({"/lib/one.so", "", 0x1000, 0x1000, 0x2000});
  EXPECT_EQ(entry.result.modules.size(), most_modules);
  source_frame line;
  for (std::uint64_t address = 0; address <= most_lines; ++address) entry.told_line(address, line);
  EXPECT_EQ(entry.result.symbols.size(), most_lines);
  EXPECT_EQ(entry.result.symbols.count(most_lines), 0U);
}

}  // namespace
}  // namespace tarn::profiler
