// SPDX-License-Identifier: MIT
// restore_options: puts every option back to its default at the end of a test; `guarded` to what it was, because tests
// run without guarded allocations.
#pragma once

#include <string>
#include <string_view>

#include "tarn/malloc.h"

namespace tarn::testing_support {

class restore_options {
 public:
  restore_options() {
    for_each([this](const tarn_option& option) {
      if (option.name == std::string_view("guarded")) guarded_ = option.value;
    });
  }
  restore_options(const restore_options&) = delete;
  restore_options& operator=(const restore_options&) = delete;
  ~restore_options() {
    for_each([](const tarn_option& option) { tarn_set_option(option.name, option.standard); });
    tarn_set_option("guarded", guarded_.c_str());
  }

 private:
  template <class Visit>
  static void for_each(Visit visit) {
    tarn_option option;
    for (std::size_t i = 0; tarn_option_at(i, &option) == 0; ++i) visit(option);
  }

  std::string guarded_;
};

}  // namespace tarn::testing_support
