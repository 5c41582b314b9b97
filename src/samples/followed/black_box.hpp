// SPDX-License-Identifier: MIT
// black_box: the process's side of a black box (box_format.hpp): a copy of the figures of each call site, in a file that outlives
// the process. The sites themselves are private memory.
//
// The file is FOLDER/PID-TICKS-NAMESPACE.box, or …-N.box where an earlier image of the process has left files of these names that
// this one cannot remove, or where it cannot know that they are its own (no /proc). It goes when the process ends with status 0, and stays however else it ends. Its pages are
// backed before they are used, so a full file system is found here and not by a signal (SIGBUS).
//
// A child of fork, also of one past libc, has its parent's mapping and must not write to it. It knows itself by a page that the
// kernel empties for children (MADV_WIPEONFORK), and makes a box of its own at its next sample. Only a section that the fork has
// interrupted (in a signal handler) goes on with the parent's box: it may change figures of one site.
//
// Owner: heap_samples. Thread safety: open() before the others; prepare() without the lock of heap_samples; write_figures() by one
// thread at a time; end() by any; the others under the lock.
// Invariant: next_ <= backed_ <= box_figures_at; what lies before backed_ has pages, and so have the first figures_backed_ bytes
// of each text.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/compiler.hpp"
#include "pages/heap_ranges.hpp"
#include "pages/metadata_arena.hpp"
#include "samples/followed/box_format.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn {

struct call_site;

class black_box {
 public:
  static constexpr std::size_t longest_folder = 256;
  struct heap_bytes {
    std::size_t in_use = 0;
    std::size_t free = 0;  // resident
    std::size_t metadata = 0;
  };

  constexpr black_box() = default;

  // False: there is none, and a notice says why. Requires: an absolute path.
  bool open(const char* folder);
  // There is a box, or was one before a fork.
  [[nodiscard]] bool is_wanted() const { return folder_[0] != '\0'; }
  void note_mean(std::size_t bytes);

  // Makes room for some sites more, and a box for a forked child. Makes system calls.
  void prepare();
  // The box of this process; it is another one when a child has made its own.
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  // Copies the site's figures. False: there was no room for a new site: prepare() helps, unless the box is full. `is_here`: the
  // calling thread is on the site's path, so its modules stay while they are read.
  bool write(call_site& site, bool is_here);
  // A sample has begun or ended, and stands for so many bytes more or fewer.
  void note_change(const heap_bytes& now, std::int64_t bytes, double variance);

  // Where malloc's memory lies; kept up by whoever notes a change. One thread at a time: under the lock of the page heap.
  [[nodiscard]] std::size_t ranges_version() const;
  void write_ranges(const heap_ranges& ranges, metadata_arena& metadata);

  // The engine's figures in the box are a second old. True once a second: the caller reads and writes them. Not beside note_change().
  [[nodiscard]] bool take_due_figures();
  void write_figures(std::string_view text);

  // The calling process ends by exit() or _exit(). No effect in a child that has the parent's memory.
  void end(int status);

 private:
  // acquire: partner of the release in begin().
  [[nodiscard]] bool is_own() const {
    return sentinel_ != nullptr && __atomic_load_n(sentinel_, __ATOMIC_ACQUIRE) != 0;
  }
  bool make_file(bool is_first);
  void begin(void* base);
  void note_modules(const std::uintptr_t* frames, std::size_t count);
  void add_module(std::uintptr_t address, const unwind::loaded_module& found, std::string_view path);
  void put_module(box_module m, std::string_view path);
  void copy_modules(const box_header* from, std::uint64_t at);
  [[nodiscard]] void* reserve(std::size_t bytes);
  void remove_file() const;

  std::uint8_t* sentinel_ = nullptr;  // not 0: this process has opened header_
  box_header* header_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> backed_{0};
  std::atomic<bool> is_opening_{false};
  std::atomic<std::int64_t> figures_due_ms_{0};
  std::size_t figures_backed_ = 0;
  std::uint64_t modules_ = 0;  // the newest module's content: its distance from the header; 0: none
  std::uint32_t epoch_ = 0;
  bool grows_ = false;             // the system backs pages when asked
  std::uint64_t start_ticks_ = 0;  // 0: not known, as is the namespace
  std::uint64_t pid_namespace_ = 0;
  std::uint32_t image_ = 0;  // N of the file's name; 0: without one
  std::uint64_t mean_ = 0;
  char folder_[longest_folder] = {};
};

// Defined by background/decay. A box has had no figures of the engine for some seconds: starts the thread that writes them.
// Callable inside allocations, without locks.
void figures_are_missing();

}  // namespace tarn
