// SPDX-License-Identifier: MIT
// pooled_objects: objects of typed pools, memory of a pool resource, arrays of pooled_allocator.
//
// Thread safety: none; any thread may call, one at a time; `who` is its number (0: the fuzzer's thread, which alone uses
// the local pool).
#pragma once

#include "arenas.hpp"
#include "model.hpp"
#include "sources.hpp"
#include "tarn/pool.hpp"
#include "tarn/pooled.hpp"

namespace tarn::fuzz {

class pooled_objects {
 public:
  explicit pooled_objects(range_map& ranges) : nodes_(ranges), slots_(ranges), allocator_(ranges) {}

  // The alignment that the model stores tells which pool the object is from: 1 own_pool(), 2 local_, 64 the shared one.
  void take_object(input& in, std::uint64_t number, unsigned who) {
    if (nodes_.size() == most_held) return;
    const unsigned which = in.byte() % 4;
    if (which == 0) {
      nodes_.add(own_pool().create(), sizeof(node), 1, number);
    } else if (which == 1 && who == 0) {
      nodes_.add(local_.create(), sizeof(node), 2, number);
    } else {
      nodes_.add(pool_of<other_node>().create(), sizeof(other_node), 64, number);
    }
  }
  void give_object(input& in, unsigned who) {
    if (nodes_.empty()) return;
    const std::size_t index = in.below(static_cast<std::uint32_t>(nodes_.size()));
    if (nodes_[index].alignment == 2 && who != 0) return;  // a local_pool is used by one thread
    const held one = nodes_.take(index);
    if (one.alignment == 64) return pool_of<other_node>().destroy(reinterpret_cast<other_node*>(one.bytes));
    auto* const object = reinterpret_cast<node*>(one.bytes);
    one.alignment == 1 ? own_pool().destroy(object) : local_.destroy(object);
  }

  void take_slots(input& in, std::uint64_t number) {
    const std::size_t size = in.below(6000);
    const std::size_t alignment = std::size_t{1} << (in.byte() % 8);
    if (slots_.size() == most_held) return;
    slots_.add(resource().allocate(size, alignment), size, alignment, number);
  }
  void give_slots(input& in) {
    if (slots_.empty()) return;
    const held one = slots_.take(in.below(static_cast<std::uint32_t>(slots_.size())));
    resource().deallocate(one.bytes, one.size, one.alignment);
  }

  void take_node(input& in, std::uint64_t number) {
    const std::size_t count = in.byte() % 4 == 0 ? in.below(20) + 1 : 1;
    if (allocator_.size() == most_held) return;
    allocator_.add(pooled_allocator<node>().allocate(count), count * sizeof(node), 1, number);
  }
  void give_node(input& in) {
    if (allocator_.empty()) return;
    const held one = allocator_.take(in.below(static_cast<std::uint32_t>(allocator_.size())));
    pooled_allocator<node>().deallocate(reinterpret_cast<node*>(one.bytes), one.size / sizeof(node));
  }

  void check() const {
    for (const live_set* set : {&nodes_, &slots_, &allocator_}) set->check();
  }
  // By the fuzzer's thread.
  void empty(input& in) {
    while (!nodes_.empty()) give_object(in, 0);
    while (!slots_.empty()) give_slots(in);
    while (!allocator_.empty()) give_node(in);
  }

 private:
  static constexpr std::size_t most_held = 400;  // from each source

  live_set nodes_;
  live_set slots_;
  live_set allocator_;
  local_pool<node> local_;
};

}  // namespace tarn::fuzz
