// SPDX-License-Identifier: MIT
// scratch_file: a temporary file for what a started program reads or writes. Any thread.
#pragma once

#include <string>

namespace tarn::cli {

// In TMPDIR, or /tmp; removed with this object.
class scratch_file {
 public:
  explicit scratch_file(const std::string& text);  // throws cli_error
  ~scratch_file();
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tarn::cli
