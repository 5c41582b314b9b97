// SPDX-License-Identifier: MIT
// meet: find or append in a short list in which a few items are looked up most of the time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tarn::profiler {

// Finds the item that `same` accepts and moves it one place towards the front (transpose heuristic); appends make()
// if there is none.
template <typename Item, typename Same, typename Make>
Item& meet(std::vector<Item>& items, Same same, Make make) {
  for (std::size_t index = 0; index < items.size(); ++index) {
    if (!same(items[index])) continue;
    if (index == 0) return items[0];
    std::swap(items[index], items[index - 1]);
    return items[index - 1];
  }
  items.push_back(make());
  return items.back();
}

}  // namespace tarn::profiler
