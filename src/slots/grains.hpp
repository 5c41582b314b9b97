// SPDX-License-Identifier: MIT
// grains: divides sparse spans into grains, runs of which serve as blocks of any size.
//
// A span belongs to one size class and stays in use as long as one of its objects is live. When a program changes the
// sizes that it allocates, spans of the old sizes hold little and serve no request. So, before the resident set would
// grow, such a span is divided: its class becomes one of the grain classes (16 to 256 bytes), each object that is not
// free becomes a block of adjacent grains, and runs of free grains become blocks of any class (docs/design/0020):
//
//   objects      |   free    |   live    |   free    |   free    |   live    |
//   grains       | g | g | g | g   g   g | g | g | g | g | g | g | g   g   g |
//   free bits      1   1   1   0   0   0   1   1   1   1   1   1   0   0   0
//   tie bits       0   0   0   1   1   0   0   0   0   0   0   0   1   1   0     1: tied to the next grain
//
// Thread safety: a span is divided under the locks of both depots. Other threads are not told: an object of the span
// may be in a magazine of the old class, or on its way there, and is recognised as grains when it is put back.
// A thread cache has a magazine for each grain class, in which freed blocks of any size wait until the thread's next
// refill. No block is taken out of it: refills put blocks of grains into the magazines of their size classes.
// Invariants: in a block, the bits of all grains are clear, every grain but the last is tied to the next one, and the
// grain before the block is not tied. A span of grains stays one until all of it is free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pages/block_store.hpp"
#include "pages/page_map.hpp"
#include "slots/class_depots.hpp"

namespace tarn {

class grains {
 public:
  constexpr grains(class_depots& depots, block_store& blocks, page_map& map)
      : depots_(depots), blocks_(blocks), map_(map) {}

  // Puts at most `most` blocks of the class, made of grains, into `out`. Called before the resident set grows. Returns
  // their number.
  std::size_t take(unsigned size_class, void** out, std::size_t most);
  // The size of the live block of grains that begins at the address; `size_class` is the class of its page.
  std::size_t bytes_of(unsigned size_class, std::uintptr_t address);

 private:
  [[nodiscard]] bool may_exist() const;
  [[nodiscard]] bool has_more_free(unsigned sixteenths);
  std::size_t take_runs(unsigned grain, unsigned size_class, void** out, std::size_t most);
  bool divide_span(slot_depot& from, unsigned size_class);
  std::size_t divide_sparse_spans(unsigned size_class);

  class_depots& depots_;
  block_store& blocks_;
  page_map& map_;
  // A span has been divided at some time.
  std::atomic<bool> has_divided_{false};
};

}  // namespace tarn
