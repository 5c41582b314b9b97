// SPDX-License-Identifier: MIT
// black_box: the process's side of a black box (box_format.hpp): memory for call sites in a file that outlives the process.
//
// The file is FOLDER/PID-TICKS.box. It goes when the process ends with status 0, and stays however else it ends. Its pages are
// backed before they are used, so a full file system is found here and not by a signal (SIGBUS).
//
// A forked child shares the mapping until it changes a figure: then it moves to a box of its own, or, where it can make none,
// to memory that nobody reads. A child that was made without libc's fork changes its parent's figures, and nothing else.
//
// Owner: heap_samples. Thread safety: open() before the others; publish_site() and leave_parents() under the lock of
// heap_samples, the others without it.
// Invariant: next_ <= box_header::bytes; what lies before backed_ has pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "samples/followed/box_format.hpp"

namespace tarn {

class black_box {
 public:
  static constexpr std::size_t longest_folder = 256;

  constexpr black_box() = default;

  // False: there is none, and a notice says why. Requires: an absolute path.
  bool open(const char* folder);
  [[nodiscard]] bool is_open() const { return header_ != nullptr; }
  call_site* other_site() { return &header_->other; }
  void note_mean(std::size_t bytes) {
    if (header_ != nullptr) header_->mean = bytes;
  }

  // Zeroed memory for a site's content, after the records of the modules in which its frames lie. Null: the box is full, or the
  // system has no memory for it. Makes system calls.
  void* reserve_site(std::size_t bytes, const std::uintptr_t* frames, std::size_t count);
  // The site is complete. No effect if the box is not open.
  void publish_site(call_site* site);

  // What malloc has. Under the lock.
  struct heap_bytes {
    std::size_t in_use = 0;
    std::size_t free = 0;
    std::size_t metadata = 0;
  };
  void note_heap(const heap_bytes& now) {
    header_->heap_in_use = now.in_use;
    header_->heap_free = now.free;
    header_->heap_metadata = now.metadata;
  }

  void note_forked_child() { is_parents_ = header_ != nullptr; }
  void leave_parents() {
    if (TARN_UNLIKELY(is_parents_)) leave_parents_slow();
  }
  // The calling process ends by exit() or _exit(). No effect in a child that has the parent's memory.
  void end(int status);

 private:
  void leave_parents_slow();
  void* map_file(const char* folder);
  bool back(std::size_t end);
  void* reserve(std::size_t bytes);
  [[nodiscard]] bool knows(std::uintptr_t address) const;
  void add_module(std::uintptr_t address);
  void describe_process();
  void remove_file() const;

  box_header* header_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> backed_{0};
  std::atomic<std::uint64_t> modules_{0};  // the newest module's content: its distance from the header
  bool grows_ = false;                     // the system backs pages when asked
  bool is_parents_ = false;
  std::uint64_t start_ticks_ = 0;
  char folder_[longest_folder] = {};
};

}  // namespace tarn
