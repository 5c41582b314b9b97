// SPDX-License-Identifier: MIT
// restore_options: puts every option back to its default at the end of a test.
#pragma once

#include "tarn/malloc.h"

namespace tarn::testing_support {

class restore_options {
 public:
  restore_options() = default;
  restore_options(const restore_options&) = delete;
  restore_options& operator=(const restore_options&) = delete;
  ~restore_options() {
    tarn_option option;
    for (std::size_t i = 0; tarn_option_at(i, &option) == 0; ++i)
      tarn_set_option(option.name, option.standard);
  }
};

}  // namespace tarn::testing_support
