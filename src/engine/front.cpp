// SPDX-License-Identifier: MIT
#include "engine/front.hpp"

namespace tarn::engine {

extern const front recycler_front [[gnu::weak]];
extern const front buffer_front [[gnu::weak]];
extern const front pool_front [[gnu::weak]];
extern const front scope_front [[gnu::weak]];
extern const front jemalloc_front [[gnu::weak]];

constinit const front* const fronts[] = {&recycler_front, &buffer_front, &pool_front, &scope_front,
                                         &jemalloc_front};
constinit std::atomic<bool> attached[front::count]{};

}  // namespace tarn::engine
