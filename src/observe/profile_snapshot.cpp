// SPDX-License-Identifier: MIT
#include "observe/profile_snapshot.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "engine/instance.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"

namespace tarn {

// A live block, copied under the lock and looked at without it. It may be freed meanwhile, and its memory unmapped: the
// system then tells nothing, or something of another block.
struct profile_snapshot::block {
  std::uintptr_t address;
  std::size_t bytes;
  std::uint64_t weighted_bytes;
  std::uint32_t site;
};

namespace {

// The resident bytes of a range; `known` becomes false if the system does not tell.
std::size_t resident_in(std::uintptr_t start, std::size_t bytes, bool& known) {
  constexpr std::size_t pages_at_once = 512;
  unsigned char flags[pages_at_once];
  const std::size_t page = os::system_page_size();
  const std::uintptr_t end = start + bytes;
  std::size_t resident = 0;
  for (std::uintptr_t at = align_down(start, page); at < end;) {
    const std::size_t pages = std::min(pages_at_once, (align_up(end, page) - at) / page);
    if (!os::find_resident(reinterpret_cast<void*>(at), pages * page, flags)) {
      known = false;
      return 0;
    }
    for (std::size_t i = 0; i < pages; ++i, at += page) {
      if ((flags[i] & 1U) != 0) resident += std::min(at + page, end) - std::max(at, start);
    }
  }
  return resident;
}

}  // namespace

profile_snapshot::profile_snapshot() {
  if (copy_sites()) find_resident();
}

profile_snapshot::~profile_snapshot() {
  if (sites_ != nullptr) engine::blocks.deallocate(sites_, bytes_);
}

bool profile_snapshot::copy_sites() {
  // Room for some that are added meanwhile; those beyond are left out.
  const std::size_t room = engine::samples.site_count() + 64;
  bytes_ = room * sizeof(snapshot_site);
  auto* const copies = static_cast<snapshot_site*>(engine::blocks.allocate(bytes_));
  if (copies == nullptr) return false;
  std::size_t count = 0;
  engine::samples.for_each_site([&](const call_site& site) {
    if (count < room) copies[count++] = {site.figures, site.frames, site.count, 0, site.number};
  });
  sites_ = copies;
  count_ = count;
  return true;
}

void profile_snapshot::find_resident() {
  if (os::in_sandbox()) return;
  const std::size_t room = engine::samples.live_count() + 64;
  auto* const live = static_cast<block*>(engine::blocks.allocate(room * sizeof(block)));
  if (live == nullptr) return;
  std::size_t count = 0;
  engine::samples.for_each_live([&](const live_sample& s) {
    if (count < room) live[count++] = {s.address, s.taken, s.weighted_bytes, s.site->number};
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (live[i].site >= count_) continue;
    bool known = true;
    const std::size_t resident = resident_in(live[i].address, live[i].bytes, known);
    __extension__ using wide_product = unsigned __int128;
    if (known) {
      sites_[live[i].site].resident_bytes +=
          static_cast<std::uint64_t>(wide_product{live[i].weighted_bytes} * resident / live[i].bytes);
    }
  }
  engine::blocks.deallocate(live, room * sizeof(block));
}

}  // namespace tarn
