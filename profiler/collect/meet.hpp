// SPDX-License-Identifier: MIT
// meet: an item of a short list that is looked up again and again, most often the same few.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tarn::profiler {

// Finds the item that `same` accepts and brings it a place nearer to the front, or appends what `make` gives.
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
