// SPDX-License-Identifier: MIT
#include "runtime/extension.hpp"

namespace tarn::engine {

extern const extension recycler_extension [[gnu::weak]];
extern const extension buffer_extension [[gnu::weak]];
extern const extension pool_extension [[gnu::weak]];

constinit const extension* const extensions[] = {&recycler_extension, &buffer_extension, &pool_extension};
constinit std::atomic<bool> attached[extension::count]{};

}  // namespace tarn::engine
