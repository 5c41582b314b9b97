// SPDX-License-Identifier: MIT
#include "profiler/collect/process_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace tarn::profiler {

namespace {

int open_of(std::uint32_t process, const char* name) {
  return open(("/proc/" + std::to_string(process) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

process_reader::process_reader(std::uint32_t process, std::function<void()> progress)
    : memory_(open_of(process, "mem")),
      pagemap_(-1),
      problem_(memory_ < 0 ? errno : 0),
      page_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))),
      progress_(std::move(progress)) {
  pagemap_ = open_of(process, "pagemap");
}

process_reader::~process_reader() {
  if (memory_ >= 0) close(memory_);
  if (pagemap_ >= 0) close(pagemap_);
}

// If pagemap cannot be read, every page counts as touched.
bool process_reader::is_touched(std::uint64_t number) const {
  constexpr std::uint64_t present_or_swapped = std::uint64_t{3} << 62;
  std::vector<std::uint64_t> entries(chunk_bytes / page_);
  const auto place = static_cast<off_t>(number * entries.size() * sizeof entries[0]);
  const ssize_t got = pread(pagemap_, entries.data(), entries.size() * sizeof entries[0], place);
  if (got <= 0) return true;
  entries.resize(static_cast<std::size_t>(got) / sizeof entries[0]);
  return std::any_of(entries.begin(), entries.end(),
                     [](std::uint64_t entry) { return (entry & present_or_swapped) != 0; });
}

std::unique_ptr<process_reader::chunk> process_reader::read_chunk(std::uint64_t number) {
  progress_();
  if (!is_touched(number)) return nullptr;
  auto made = std::make_unique<chunk>();
  auto* into = reinterpret_cast<unsigned char*>(made->data());
  bool any = false;
  // An unmapped page within the chunk ends a read early; go on after it.
  for (std::size_t at = 0; at < chunk_bytes;) {
    const ssize_t got =
        pread(memory_, into + at, chunk_bytes - at, static_cast<off_t>(number * chunk_bytes + at));
    if (got > 0) {
      any = true;
      at += static_cast<std::size_t>(got);
    } else {
      at = (at / page_ + 1) * page_;
    }
  }
  return any ? std::move(made) : nullptr;
}

const std::uint64_t* process_reader::words_at(std::uint64_t address, std::size_t words, std::size_t& count) {
  const std::uint64_t number = address / chunk_bytes;
  const std::size_t first = (address % chunk_bytes) / sizeof(std::uint64_t);
  count = std::min(words, chunk_words - first);
  auto known = chunks_.find(number);
  if (known == chunks_.end()) {
    if (chunks_.size() >= most_chunks) chunks_.clear();
    known = chunks_.emplace(number, read_chunk(number)).first;
  }
  return known->second ? known->second->data() + first : nullptr;
}

}  // namespace tarn::profiler
