// SPDX-License-Identifier: MIT
// leak_suppressions: places whose leaks are accepted, from a file in LeakSanitizer's format: lines "leak:PATTERN";
// lines that begin with '#' are comments. A pattern matches a part of a function's name, of a source file or of a
// module's path, in any frame of the call path; '*' matches anything, '^' and '$' the beginning and the end of the
// name. Plain functions and data; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

bool pattern_matches(std::string_view pattern, std::string_view text);

class leak_suppressions {
 public:
  // Throws cli_error (refused) if the file cannot be read or contains a malformed line.
  void add_file(const std::string& path);
  // The first pattern that matches a frame of the site's call path; empty: none does.
  std::string match(const profiler::profile& p, const profiler::site& one) const;

 private:
  void add_line(const std::string& path, std::size_t number, std::string line);

  std::vector<std::string> patterns_;
};

}  // namespace tarn::cli
