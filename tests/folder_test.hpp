// SPDX-License-Identifier: MIT
// folder_test: a test with a temporary folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tarn::testing_support {

class folder_test : public testing::Test {
 protected:
  folder_test() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~folder_test() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = (std::filesystem::temp_directory_path() / "tarn-test-XXXXXX").string();
};

}  // namespace tarn::testing_support
