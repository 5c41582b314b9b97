// SPDX-License-Identifier: MIT
// profile_snapshot: a copy of what heap_samples knows at one moment, and how much of the live blocks is resident.
//
// Owner: a local variable. Thread safety: used by one thread, which holds no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "samples/followed/call_sites.hpp"

namespace tarn {

struct snapshot_site {
  site_figures figures;
  const std::uintptr_t* frames;
  std::size_t count;
  std::uint64_t resident_bytes;  // of figures.live_bytes; 0 where the system does not tell, or without memory
  std::uint32_t number;          // as of call_site
};

class profile_snapshot {
 public:
  profile_snapshot();
  ~profile_snapshot();
  profile_snapshot(const profile_snapshot&) = delete;
  profile_snapshot& operator=(const profile_snapshot&) = delete;

  // False: there was no memory.
  [[nodiscard]] bool valid() const { return sites_ != nullptr; }
  // The first one is the site of the paths that found no room.
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const snapshot_site& operator[](std::size_t i) const { return sites_[i]; }

 private:
  struct block;

  bool copy_sites();
  void find_resident();

  snapshot_site* sites_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tarn
