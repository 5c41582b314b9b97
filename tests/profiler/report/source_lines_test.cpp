// SPDX-License-Identifier: MIT
// The source lines that a report contains, from files in a temporary folder.
#include "profiler/report/source_lines.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../../folder_test.hpp"

namespace tarn::profiler {
namespace {

class source_lines_test : public testing_support::folder_test {
 protected:
  std::string write(const std::string& name, int lines) {
    std::ofstream file(folder_ + "/" + name);
    for (int line = 1; line <= lines; ++line) file << "line\t" << line << "\n";
    return folder_ + "/" + name;
  }
  // Report data with one site at each of these lines of `file`, and one without a place.
  static nlohmann::json report(const std::string& file, const std::vector<int>& lines) {
    nlohmann::json made = {{"strings", {"", file}}};
    for (std::size_t index = 0; index < lines.size(); ++index) {
      made["frames"]["file"].push_back(1);
      made["frames"]["line"].push_back(lines[index]);
      made["sites"]["place"].push_back(index);
    }
    made["sites"]["place"].push_back(-1);
    return made;
  }
};

TEST_F(source_lines_test, the_lines_around_a_place) {
  source_limits limits;
  limits.lines_around = 3;
  const nlohmann::json found = source_lines(report(write("a.cpp", 20), {10, 1, 20, 21, 0}), limits);
  EXPECT_EQ(found["0"],
            nlohmann::json({7, "line 7", "line 8", "line 9", "line 10", "line 11", "line 12", "line 13"}));
  EXPECT_EQ(found["1"], nlohmann::json({1, "line 1", "line 2", "line 3", "line 4"}));
  EXPECT_EQ(found["2"][0], 17);
  EXPECT_FALSE(found.contains("3")) << "line 21 of a file of 20 lines";
  EXPECT_FALSE(found.contains("4"));
}

TEST_F(source_lines_test, only_source_files_are_read) {
  EXPECT_TRUE(source_lines(report(write("shadow", 20), {10})).empty());
  EXPECT_TRUE(source_lines(report(write("key.pem", 20), {10})).empty());
  EXPECT_TRUE(source_lines(report(folder_ + "/gone.cpp", {10})).empty());
  std::filesystem::create_directory(folder_ + "/folder.cpp");
  EXPECT_TRUE(source_lines(report(folder_ + "/folder.cpp", {1})).empty());
}

TEST_F(source_lines_test, their_size_is_bounded) {
  source_limits limits{.lines_around = 3, .most_bytes = 50};
  EXPECT_EQ(source_lines(report(write("a.py", 100), {10, 50, 90}), limits).size(), 1U);
  limits.most_file_bytes = 100;
  EXPECT_TRUE(source_lines(report(write("a.py", 100), {10}), limits).empty());
}

}  // namespace
}  // namespace tarn::profiler
