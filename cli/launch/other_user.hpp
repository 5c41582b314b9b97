// SPDX-License-Identifier: MIT
// other_user: lets root's tarn become the user of the process that it records, and keep only the rights to trace
// and to see page faults. So the process can open what is made for it, and the files belong to its user. Does
// nothing if this process is not root's; only notes which rights the recorded one has if it is. Throws cli_error.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tarn::cli {

// Changes nothing where this process is not root's, or that process is. Throws cli_error.
void become_user_of(pid_t process);

// A process may open another process's descriptors in /proc only if it has all the rights of that process. If this
// process has rights that the recorded one lacks, another one without any holds the descriptors. It belongs to the program's user
// entirely, who may look into it and trace it: so it is a new program (exec, not a copy of this one's memory), without
// environment, session or terminal, and has no other descriptors.
class descriptor_holder {
 public:
  // Throws cli_error.
  explicit descriptor_holder(const std::vector<int>& descriptors);
  ~descriptor_holder();
  descriptor_holder(const descriptor_holder&) = delete;
  descriptor_holder& operator=(const descriptor_holder&) = delete;

  // Its process id, or that of this process if none is needed.
  [[nodiscard]] pid_t process() const noexcept;

 private:
  void end() noexcept;

  pid_t holder_ = 0;
};

// The hidden word by which this command starts itself as that process, and what it does: it waits until `parent` ends.
inline constexpr const char* hold_descriptors_word = "--hold-descriptors";
[[noreturn]] void hold_descriptors(const std::string& parent);

}  // namespace tarn::cli
