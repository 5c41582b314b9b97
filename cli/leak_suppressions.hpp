// SPDX-License-Identifier: MIT
// leak_suppressions: places whose leaks are known and left, from a file in LeakSanitizer's form: a line "leak:PATTERN" each,
// lines that begin with '#' are comments. A pattern is part of a function's name, of a source file or of a module's path, of
// any frame of the call path; '*' stands for anything, '^' and '$' for the beginning and the end of the name.
// Plain functions and data; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

bool pattern_matches(std::string_view pattern, std::string_view text);

class leak_suppressions {
 public:
  // Throws cli_error (refused) where the file cannot be read, or a line of it is of another form.
  void add_file(const std::string& path);
  // The first pattern that matches a frame of the site's call path; empty: none does.
  std::string match(const profiler::profile& p, const profiler::site& one) const;

 private:
  void add_line(const std::string& path, std::size_t number, std::string line);

  std::vector<std::string> patterns_;
};

}  // namespace tarn::cli
