// SPDX-License-Identifier: MIT
// get_and_release: gets an object, writes to it and gives it back at once, many times; of the scenes get_release and
//   parallel.
// Thread safety: any thread.
#pragma once

#include "variants.hpp"

namespace bench {

inline constexpr std::size_t operations_per_call = 10'000;

inline void use(message* each, std::size_t index) {
  obscure(each);
  each->words[0] = index;
}

inline void get_and_release(fresh /*variant*/, tarn::recycler<message>& /*pool*/) {
  for (std::size_t i = 0; i < operations_per_call; ++i) {
    auto* each = new message;
    use(each, i);
    obscure(each);
    delete each;
  }
}

inline void get_and_release(recycled /*variant*/, tarn::recycler<message>& pool) {
  for (std::size_t i = 0; i < operations_per_call; ++i) {
    const auto each = pool.get();
    use(each.get(), i);
  }
}

inline void get_and_release(recycled_bare /*variant*/, tarn::recycler<message>& pool) {
  for (std::size_t i = 0; i < operations_per_call; ++i) {
    message* each = pool.take();
    use(each, i);
    pool.give_back(each);
  }
}

}  // namespace bench
