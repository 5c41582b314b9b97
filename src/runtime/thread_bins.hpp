// SPDX-License-Identifier: MIT
// thread_bins: the calling thread's bins of one front, their list and their table; see front_registry, which uses it.
// front_bin: what each of these bins has.
//
//     first -> bin -> bin         all bins of the thread (next_of_thread)
//     Bin::table().bins[number]   the thread's bin of the instance with that number, or Bin::no_bin()
//
// Thread safety: each thread has its own; the bins are guarded as front_bin says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "runtime/instance.hpp"

namespace tarn::engine {

// Written under the registry's lock, by the bin's thread or while the bin has no thread; `core` also when the instance
// ends.
template <class Core, class Bin>
struct front_bin {
  Core* core = nullptr;  // null: its instance has ended
  Bin* next_of_thread = nullptr;
  Bin* next = nullptr;
  Bin* previous = nullptr;
  const thread_cache* cache = nullptr;  // its thread's; null for a bin that belongs to no thread
  long thread_id = 0;                   // of a retired bin
  std::uint8_t node = 255;              // the memory node on which its thread ran when the bin was made
};

template <class Bin>
struct thread_bins {
  static inline constinit thread_local Bin* first = nullptr;
  // The registry's thread_ends() has run: the thread makes no bin any more.
  static inline constinit thread_local bool ended = false;

  // Grows the table until it has an entry `number`. False when there is no memory.
  static bool grow_to(std::size_t number) {
    constexpr std::size_t first_count = 8;
    const table old = Bin::table();
    if (number < old.count) return true;
    std::size_t count = old.count != 0 ? old.count : first_count;
    while (count <= number) count *= 2;
    auto* const bins = static_cast<entry*>(blocks.allocate(count * sizeof(void*)));
    if (bins == nullptr) return false;
    std::fill(std::copy_n(old.bins, old.count, bins), bins + count, entry{Bin::no_bin()});
    free(std::exchange(Bin::table(), table{bins, count}));
    return true;
  }
  // Null if there is none. It may be one of the number's previous instance.
  static Bin* at(std::size_t number) {
    const entry found = Bin::table().bins[number];
    return found != Bin::no_bin() ? static_cast<Bin*>(found) : nullptr;
  }
  // Requires: grow_to(number) has succeeded.
  static void set(std::size_t number, Bin* bin) { Bin::table().bins[number] = bin; }
  static void remove(Bin* bin) {
    const table& own = Bin::table();
    std::replace(own.bins, own.bins + own.count, entry{bin}, entry{Bin::no_bin()});
  }
  static void free_table() { free(std::exchange(Bin::table(), table{nullptr, 0})); }

 private:
  using table = std::remove_reference_t<decltype(Bin::table())>;
  using entry = std::remove_pointer_t<decltype(table::bins)>;

  static void free(const table& old) {
    if (old.bins != nullptr) blocks.deallocate(old.bins, old.count * sizeof(void*));
  }
};

}  // namespace tarn::engine
