// SPDX-License-Identifier: MIT
// open_file: a descriptor; scratch_file: a temporary file for what a started program reads or writes. Any thread.
#pragma once

#include <string>

namespace tarn::cli {

// An open file; -1: none. Closes it.
class open_file {
 public:
  open_file() = default;
  explicit open_file(int number) : number_(number) {}
  ~open_file();
  open_file(open_file&& other) noexcept;
  open_file& operator=(open_file&& other) noexcept;

  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_ = -1;
};

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
