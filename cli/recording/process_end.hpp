// SPDX-License-Identifier: MIT
// process_end: whether a process that need not be a child has ended, and how. Of one that nobody has waited for yet /proc tells; of
// others a pidfd that was opened while it ran (Linux 6.15). One thread.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {

class process_end {
 public:
  process_end() = default;  // of no process that is here
  process_end(std::uint32_t process, std::uint64_t start_ticks);

  // The process's id in this namespace; 0: it is not here.
  std::uint32_t process() const { return process_; }
  std::uint64_t start_ticks() const { return start_ticks_; }
  bool is_alive() const;
  // The same, cheap while it runs, so that it can be asked often.
  bool has_ended() const;
  // As of waitpid. Empty: it runs, or nobody knows.
  std::optional<int> status() const;

 private:
  std::optional<int> status_by_handle() const;
  std::optional<int> status_of_zombie() const;

  std::uint32_t process_ = 0;
  std::uint64_t start_ticks_ = 0;
  open_file handle_;  // a pidfd
};

}  // namespace tarn::cli
