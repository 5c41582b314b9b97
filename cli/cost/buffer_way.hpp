// SPDX-License-Identifier: MIT
// buffer_way: the ways to get a large buffer that `tarn cost` compares. Each is measured in a worker process of its
// own (cost_worker), which has at most one buffer at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/compare/contender.hpp"

namespace tarn::cli {

enum class buffer_source {
  heap,       // malloc and free of the process's allocator
  mapped,     // mmap and munmap
  huge,       // the same with MADV_HUGEPAGE
  populated,  // the same with MAP_POPULATE
  // One buffer, mapped and written once, and then handed out repeatedly: the cost of writing alone.
  recycled,
};

struct buffer_way {
  std::string name;
  buffer_source source = buffer_source::heap;
  contender who;  // for heap: the allocator; otherwise the system's
};

inline constexpr const char* recycled_name = "recycled";

// The recycled buffer first, as the reference of all others, then one way for each allocator of choose_contenders,
// then the mappings. `only` keeps the named ones, and always the recycled buffer. Throws cli_error as
// choose_contenders does.
std::vector<buffer_way> choose_ways(const std::vector<std::string>& with,
                                    const std::vector<std::string>& only);

// The worker's name of a source.
std::string word_of(buffer_source source);
// Throws cli_error for an unknown word.
buffer_source source_of(std::string_view word);

// Allocates and frees buffers of one size from one source. One thread.
class buffer_supply {
 public:
  buffer_supply(buffer_source source, std::size_t size);
  ~buffer_supply();
  buffer_supply(const buffer_supply&) = delete;
  buffer_supply& operator=(const buffer_supply&) = delete;

  // Null, with errno: out of memory. At most one buffer may be taken at a time.
  void* take() noexcept;
  void give_back(void* buffer) noexcept;

 private:
  void* map(int flags) noexcept;

  buffer_source source_;
  std::size_t size_;
  std::size_t mapped_size_;
  std::size_t huge_page_;
  void* mapping_ = nullptr;  // the mapping of the buffer that is taken, or of the recycled one
};

// The size of the system's transparent huge pages; 0 if it has none.
std::size_t huge_page_size();

// Makes the compiler assume that the memory at `memory` is read, so that writes to it are not removed.
inline void keep_writes(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

}  // namespace tarn::cli
