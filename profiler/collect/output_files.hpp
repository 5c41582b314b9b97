// SPDX-License-Identifier: MIT
// output_files: the files of a recording: what they are called, and which there are. Owned by the recording, for one
// thread. Invariant: no two files have the same path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/collect/recording_settings.hpp"

namespace tarn::profiler {

struct finished_file {
  std::string path;
  std::string program;        // the name by which it was started
  std::uint32_t process = 0;  // 0: the file holds several processes
  std::string problem;        // why the file is incomplete; empty: it is complete
};

class output_files {
 public:
  static constexpr int most_names = 1000;  // names tried for one file, as long as the one before exists

  // Throws profile_error if the given name or the folder of the files is unusable, which is known before the program
  // runs.
  explicit output_files(const recording_settings& settings);

  // `number` counts from 1; further numbers are for names that are taken, as by earlier images of the process. `end` is
  // what the name of a file ends in that is not the program's own.
  std::string name(const std::string& program, std::uint32_t process, const std::string& end,
                   int number) const;
  bool has_given_name() const noexcept { return !output_.empty(); }
  bool is_taken(const std::string& path) const;
  // Requires a path that is not taken.
  void add(finished_file file);
  void set_problem(const std::string& path, const std::string& problem);
  // A process that did so much, without being the program itself, gets a file; as long as there are not too many, of it
  // and of all.
  bool has_room_for(std::uint32_t process) const;
  static bool is_worth_one(double allocations, double bytes, double faults);

  const std::vector<finished_file>& all() const noexcept { return files_; }
  void validate() const;

 private:
  std::string output_;
  std::string directory_;
  std::vector<finished_file> files_;
};

}  // namespace tarn::profiler
