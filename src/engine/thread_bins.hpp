// SPDX-License-Identifier: MIT
// thread_bins: the bins that one thread has of one front, their list and their table; see front_registry, which uses it.
// front_bin: what each of these bins has.
//
//     first -> bin <-> bin        the bins of the thread (next_of_thread, link_of_thread)
//     bins[number]                the thread's bin of the instance with that number, or Bin::no_bin()
//
// Owner: the thread, which has a copy of the table's address in Bin::table(), from which programs and fast paths read
// without a lock: an entry changes only while nobody uses the instance, or by the thread itself.
// Thread safety: all members are guarded by the registry's lock, as who ends an instance takes its bins out of the threads'
// lists and tables.
// Invariants: table_count == 0 or Bin::table() of the thread is {bins, count}; `used` entries are not no_bin(); a bin in the
// list has an instance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/instance.hpp"
#include "os/memory.hpp"

namespace tarn::engine {

template <class Bin>
struct thread_bins;

// Written under the registry's lock, by the bin's thread or while the bin has no thread; `core` also when the instance
// ends.
template <class Core, class Bin>
struct front_bin {
  Core* core = nullptr;  // null: its instance has ended
  Bin* next_of_thread = nullptr;
  Bin** link_of_thread = nullptr;  // what points to the bin in that list
  Bin* next = nullptr;
  Bin* previous = nullptr;
  thread_bins<Bin>* thread = nullptr;  // null: it belongs to no thread
  long thread_id = 0;                  // of a retired bin
  std::uint32_t store_number = 0;  // 1 + its number in the registry's store; 0: its memory is the program's
  std::uint8_t node = 255;         // the memory node on which its thread ran when the bin was made
};

template <class Bin>
struct thread_bins {
  using table = std::remove_reference_t<decltype(Bin::table())>;
  using entry = std::remove_pointer_t<decltype(table::bins)>;
  static constexpr std::size_t entry_bytes = sizeof(void*);  // a pointer to a bin
  static_assert(std::is_pointer_v<entry>);

  // The calling thread's; null: it has none yet.
  static inline constinit thread_local thread_bins* of_caller = nullptr;
  // The registry's thread_ends() has run: the thread makes no bin any more.
  static inline constinit thread_local bool ended = false;

  thread_bins* next = nullptr;  // of all threads
  thread_bins* previous = nullptr;
  Bin* first = nullptr;
  Bin* emptied = nullptr;  // the same list, while empty_own_bins() moves the bins from there to here
  table all{nullptr, 0};
  std::size_t used = 0;     // entries that lead to a bin
  bool is_touched = false;  // an entry was written since the table's pages went back
  bool is_held = false;     // its pages are going back
  const thread_cache* cache = nullptr;

  // ---- the list ----

  static void push(Bin*& list, Bin* bin) {
    bin->next_of_thread = list;
    bin->link_of_thread = &list;
    if (list != nullptr) list->link_of_thread = &bin->next_of_thread;
    list = bin;
  }
  static void erase(Bin* bin) {
    *bin->link_of_thread = bin->next_of_thread;
    if (bin->next_of_thread != nullptr) bin->next_of_thread->link_of_thread = bin->link_of_thread;
  }
  // What empty_own_bins() has moved goes back.
  void join_lists() {
    while (Bin* const bin = emptied) {
      erase(bin);
      push(first, bin);
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Bin* const list : {first, emptied}) {
      for (auto* bin = const_cast<Bin*>(list); bin != nullptr; bin = bin->next_of_thread) visit(bin);
    }
  }

  // ---- the table ----

  // Null if there is none. By the thread, without the lock.
  static Bin* at(std::size_t number) {
    const table& own = Bin::table();
    const entry found = number < own.count ? own.bins[number] : entry{Bin::no_bin()};
    return found != Bin::no_bin() ? static_cast<Bin*>(found) : nullptr;
  }
  void set(std::size_t number, Bin* bin) {
    used += all.bins[number] == Bin::no_bin() ? 1 : 0;
    all.bins[number] = bin;
    is_touched = true;
  }
  void clear(std::size_t number, const Bin* bin) {
    if (number >= all.count || all.bins[number] != bin) return;
    all.bins[number] = Bin::no_bin();
    --used;
  }

  // A table of `count` entries, all of them no_bin(); null: no memory. Where no_bin() is null, its pages are not touched.
  static entry* new_table(std::size_t count) {
    auto* const bins = static_cast<entry*>(blocks.allocate(count * entry_bytes));
    if (bins == nullptr) return nullptr;
    const auto [begin, end] = pages_of({bins, count});
    const bool is_zero = entry{Bin::no_bin()} == nullptr && begin != end && drop_pages({bins, count});
    std::fill(bins, is_zero ? begin : bins + count, entry{Bin::no_bin()});
    if (is_zero) std::fill(end, bins + count, entry{Bin::no_bin()});
    return bins;
  }
  static void free_table(const table& old) {
    if (old.bins == nullptr) return;
    drop_pages(old);
    blocks.deallocate(old.bins, old.count * entry_bytes);
  }

  // Whether pages of the table hold memory, though no entry is used, and zeros are entries without a bin.
  [[nodiscard]] bool has_idle_pages() const {
    const auto [begin, end] = pages_of(all);
    return used == 0 && is_touched && !is_held && entry{Bin::no_bin()} == nullptr && begin != end;
  }
  // False: the pages may hold what they did. Without the lock.
  static bool drop_pages(const table& of) {
    const auto [begin, end] = pages_of(of);
    return begin == end || os::purge_own(begin, static_cast<std::size_t>(end - begin) * entry_bytes);
  }

 private:
  // The whole pages of a table that is so long that it is worth a system call.
  static std::pair<entry*, entry*> pages_of(const table& of) {
    constexpr std::size_t least = 16 * kib;
    const std::size_t unit = os::system_page_size();
    if (of.count * entry_bytes < std::max(least, 2 * unit)) return {of.bins, of.bins};
    const os::address_range whole =
        os::whole_units(address_of(of.bins), address_of(of.bins + of.count), unit);
    return {reinterpret_cast<entry*>(whole.start), reinterpret_cast<entry*>(whole.end)};
  }
};

}  // namespace tarn::engine
