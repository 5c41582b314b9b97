// SPDX-License-Identifier: MIT
// call_sites: a table of call paths, each stored once, with what was allocated there (hash consing). It never forgets a
// path, and has room for most_sites; what further paths allocate is counted at one site without a path, so that the
// sums stay right.
//
// Owner: heap_samples, whose lock guards the table and the figures. A site's frames never change, and its structure is
// never given back, so both may be read without the lock.
// Invariants: count() sites are in the table, each found by its frames; count() <= most_sites, at most half of the
// buckets; of each site live <= total in every figure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/invariant.hpp"
#include "pages/metadata_arena.hpp"
#include "samples/followed/call_site.hpp"
#include "samples/followed/core_root.hpp"

namespace tarn {

class call_sites {
 public:
  static constexpr std::size_t most_sites = call_site::most;
  static constexpr std::size_t most_frames = call_site::most_frames;

  constexpr call_sites() = default;

  static std::uint64_t hash_of(const std::uintptr_t* frames, std::size_t count);

  // The site of the path, or null. `can_add`: another one may be added.
  call_site* find(std::uint64_t hash, const std::uintptr_t* frames, std::size_t count, bool& can_add) const;
  // Memory for add(), taken without the lock. Without a site there is no memory.
  struct memory {
    void* site = nullptr;
    void* table = nullptr;  // for the first site
  };
  memory prepare(metadata_arena& metadata, std::size_t count);
  // Adds a site that find() did not find, since the lock was taken. `memory`: of prepare(), for the same count.
  call_site* add(const memory& m, std::uint64_t hash, const std::uintptr_t* frames, std::size_t count);
  // The site of paths that found no room.
  call_site* other() { return &other_; }

  // Calls visit(site) for each site, in the order of their first samples, and for other() first.
  template <class Visit>
  void for_each(Visit visit) const {
    visit(other_);
    for (std::size_t i = 0; i < count_; ++i) visit(std::as_const(*in_order_[i]));
  }
  // The same, for what is no figure.
  template <class Visit>
  void for_each(Visit visit) {
    visit(other_);
    for (std::size_t i = 0; i < count_; ++i) visit(*in_order_[i]);
  }
  [[nodiscard]] std::size_t count() const { return count_; }

  // For a reader of the process's core file.
  [[nodiscard]] constexpr core_root::places places() const { return {&in_order_, &count_, &other_}; }

  void validate() const;

 private:
  friend class call_sites_test_access;

  static constexpr std::size_t buckets = 2 * most_sites;

  [[nodiscard]] bool finds(const call_site& site) const;

  call_site** table_ = nullptr;  // buckets, then most_sites in order
  call_site** in_order_ = nullptr;
  std::atomic<bool> has_table_{false};  // written under the lock
  std::size_t count_ = 0;
  call_site other_;
};

}  // namespace tarn
