// SPDX-License-Identifier: MIT
// Words of a process's memory: of this one's own.
#include "profiler/collect/process_reader.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace tarn::profiler {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10;

// Two whole chunks of address space at a multiple of their size; nothing is in memory yet.
class two_chunks {
 public:
  two_chunks()
      : all_(static_cast<char*>(mmap(nullptr, 3 * chunk_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    madvise(all_, 3 * chunk_bytes, MADV_NOHUGEPAGE);
  }
  ~two_chunks() { munmap(all_, 3 * chunk_bytes); }
  two_chunks(const two_chunks&) = delete;
  two_chunks& operator=(const two_chunks&) = delete;

  std::uint64_t* words() const {
    const auto address = reinterpret_cast<std::uintptr_t>(all_);
    return reinterpret_cast<std::uint64_t*>(all_ + (chunk_bytes - address % chunk_bytes) % chunk_bytes);
  }

 private:
  char* all_;
};

std::uint64_t address_of(const std::uint64_t* word) { return reinterpret_cast<std::uintptr_t>(word); }

TEST(process_reader, reads_up_to_the_end_of_a_chunk_and_each_chunk_once) {
  const two_chunks memory;
  std::uint64_t* const words = memory.words();
  constexpr std::size_t chunk_words = chunk_bytes / 8;
  words[0] = 11;
  words[chunk_words - 2] = 22;
  words[chunk_words] = 33;
  int chunks = 0;
  process_reader reader(static_cast<std::uint32_t>(getpid()), [&chunks] { ++chunks; });
  ASSERT_EQ(reader.problem(), 0);
  std::size_t count = 0;
  const std::uint64_t* got = reader.words_at(address_of(words), 5, count);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(count, 5U);
  EXPECT_EQ(got[0], 11U);
  got = reader.words_at(address_of(words + chunk_words - 2), 5, count);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(got[0], 22U);
  EXPECT_EQ(chunks, 1);
  got = reader.words_at(address_of(words + chunk_words), 1, count);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got[0], 33U);
  EXPECT_EQ(chunks, 2);
}

TEST(process_reader, memory_that_was_never_touched_stays_so) {
  const two_chunks memory;
  process_reader reader(static_cast<std::uint32_t>(getpid()), [] {});
  std::size_t count = 0;
  EXPECT_EQ(reader.words_at(address_of(memory.words()) + 64, 1 << 20, count), nullptr);
  EXPECT_EQ(count, chunk_bytes / 8 - 8) << "all that there is to skip";
  unsigned char resident = 1;
  ASSERT_EQ(mincore(memory.words(), 1, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

TEST(process_reader, what_lies_behind_an_unmapped_page_is_read) {
  const two_chunks memory;
  std::uint64_t* const words = memory.words();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  words[0] = 1;
  words[2 * page / 8] = 3;
  ASSERT_EQ(munmap(reinterpret_cast<char*>(words) + page, page), 0);
  process_reader reader(static_cast<std::uint32_t>(getpid()), [] {});
  std::size_t count = 0;
  const std::uint64_t* const got = reader.words_at(address_of(words), 2 * page / 8 + 1, count);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got[0], 1U);
  EXPECT_EQ(got[page / 8], 0U);
  EXPECT_EQ(got[2 * page / 8], 3U);
}

TEST(process_reader, a_process_that_is_gone_is_a_problem) {
  EXPECT_EQ(process_reader(0x7fffffff, [] {}).problem(), ENOENT);
}

}  // namespace
}  // namespace tarn::profiler
