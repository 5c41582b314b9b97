// SPDX-License-Identifier: MIT
#include "cli/cost/buffer_way.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

struct named_source {
  buffer_source source;
  const char* name;  // in reports, unless it is an allocator's, and on the worker's command line
};

constexpr named_source sources[] = {{buffer_source::recycled, recycled_name},
                                    {buffer_source::heap, "heap"},
                                    {buffer_source::mapped, "mmap"},
                                    {buffer_source::huge, "mmap-huge"},
                                    {buffer_source::populated, "mmap-populate"}};

}  // namespace

std::vector<buffer_way> choose_ways(const std::vector<std::string>& with,
                                    const std::vector<std::string>& only) {
  std::vector<std::string> plain_names;
  for (const named_source& one : sources) {
    if (one.source != buffer_source::heap) plain_names.emplace_back(one.name);
  }
  std::vector<buffer_way> ways;
  for (const named_source& one : sources) {
    if (one.source == buffer_source::heap) {
      for (const contender& who : choose_contenders(with, only, plain_names))
        ways.push_back({who.name, one.source, who});
    } else if (one.source == buffer_source::recycled || is_wanted(one.name, only)) {
      ways.push_back({one.name, one.source, {system_name, ""}});
    }
  }
  return ways;
}

std::string word_of(buffer_source source) {
  const auto* const found = std::find_if(std::begin(sources), std::end(sources),
                                         [source](const named_source& one) { return one.source == source; });
  return found->name;
}

buffer_source source_of(std::string_view word) {
  for (const named_source& one : sources) {
    if (one.name == word) return one.source;
  }
  throw cli_error(exit_code::usage, fmt::format("unknown way '{}' to allocate a buffer", word));
}

std::size_t huge_page_size() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  std::size_t size = 0;
  return file >> size ? size : 0;
}

buffer_supply::buffer_supply(buffer_source source, std::size_t size)
    : source_(source),
      size_(size),
      mapped_size_(size),
      huge_page_(source == buffer_source::huge ? huge_page_size() : 0) {
  // Room for aligning the buffer to a huge page; the memory before and after it is never touched.
  mapped_size_ += huge_page_;
}

buffer_supply::~buffer_supply() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_size_);
}

void* buffer_supply::map(int flags) noexcept {
  void* memory =
      mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  mapping_ = memory == MAP_FAILED ? nullptr : memory;
  return mapping_;
}

void* buffer_supply::take() noexcept {
  switch (source_) {
    case buffer_source::heap: return std::malloc(size_);
    case buffer_source::mapped: return map(0);
    case buffer_source::populated: return map(MAP_POPULATE);
    case buffer_source::recycled: return mapping_ != nullptr ? mapping_ : map(0);
    case buffer_source::huge: break;
  }
  void* memory = map(0);
  // Without huge pages the call fails and the buffer is an ordinary one; the count of faults shows it.
  if (memory == nullptr || huge_page_ == 0) return memory;
  auto* begin = static_cast<std::byte*>(memory);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(begin) % huge_page_;
  if (past != 0) begin += huge_page_ - past;
  madvise(begin, size_, MADV_HUGEPAGE);
  return begin;
}

void buffer_supply::give_back(void* buffer) noexcept {
  if (source_ == buffer_source::heap) {
    std::free(buffer);
  } else if (source_ != buffer_source::recycled) {
    munmap(mapping_, mapped_size_);
    mapping_ = nullptr;
  }
}

}  // namespace tarn::cli
