// SPDX-License-Identifier: MIT
// box_files: the folder of black boxes and profiles: its boxes, and taking one of a process that has ended. Errors are cli_error
// (refused) of box_folder() alone. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/launch/scratch_file.hpp"

namespace tarn::cli {

// The folder that a user has named for black boxes, made if it is missing, as an absolute path. Throws cli_error (refused).
std::string box_folder(const std::string& given);

// The paths of what has a box's name, sorted.
std::vector<std::string> boxes_in(const std::string& folder);
// Whether a box of this name is of the process that has this id and start in its own namespace.
bool is_name_of(const std::string& path, std::uint32_t process, std::uint64_t start_ticks);
// Of these boxes, with the times when they were opened: those of a process that has a newer one, as another of its images.
std::vector<std::string> outdated(const std::map<std::string, std::uint64_t>& start_by_path);
std::size_t count_profiles_in(const std::string& folder);

// The number of the file: another image of a process makes another file of the same name. 0: the file is gone.
std::uint64_t file_number(const std::string& path);

// The lock by which one watch has a box. It goes with the watch, so a box outlives one that is killed while it tells.
class box_lock {
 public:
  explicit box_lock(const std::string& path);
  // False: another watch has it, or it is another file by now.
  bool is_held() const { return is_held_; }

 private:
  open_file file_;
  bool is_held_ = true;  // also of what cannot be opened: reading it says why
};

}  // namespace tarn::cli
