// SPDX-License-Identifier: MIT
#include "fronts/pools/hardened_type_spans.hpp"

#include <atomic>
#include <cstdint>

#include "base/fnv.hpp"
#include "os/hardened_guard.hpp"
#include "os/memory.hpp"

namespace tarn::hardened_type_spans {
namespace {

// One entry of the hash table: the spans of one kind.
struct entry {
  std::atomic<std::uint64_t> key{0};  // 0: the entry is free
  // Linked by span::next. take() takes the whole list and puts the remainder back: exchanging the head for its
  // successor would be wrong if the head was taken and kept again meanwhile (the ABA problem).
  std::atomic<span*> spans{nullptr};
};

entry entries[most_kinds];

// Never 0. Two kinds with equal keys would share their address space.
std::uint64_t key_of(const kind& of) {
  fnv key;
  key.add(std::string_view(of.name)).add(of.layout.size).add(of.layout.alignment).add(of.huge ? 1U : 0U);
  return key.sum | 1;
}

// The entry of the kind, by open addressing with linear probing; null if all entries have other kinds.
entry* entry_of(const kind& of) {
  const std::uint64_t key = key_of(of);
  for (std::size_t i = 0; i < most_kinds; ++i) {
    entry& h = entries[(key / 2 + i) % most_kinds];
    std::uint64_t found = 0;
    if (h.key.compare_exchange_strong(found, key, std::memory_order_relaxed) || found == key) return &h;
  }
  return nullptr;
}

// Puts a chain of spans in front of the list.
void put(entry& h, span* first, span* last) {
  last->next = h.spans.load(std::memory_order_relaxed);
  // release: partner of the acquire in take().
  while (!h.spans.compare_exchange_weak(last->next, first, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

}  // namespace

bool keep(const kind& of, span* s) {
  entry* const h = entry_of(of);
  if (h == nullptr) return false;
  s->state.store(span_state::purging, std::memory_order_relaxed);
  const os::address_range all = os::whole_units(s->start, s->end());
  if (!all.empty() && !os::mark_guard(all.memory(), all.bytes())) os::purge(all.memory(), all.bytes());
  put(*h, s, s);
  return true;
}

span* take(const kind& of, std::size_t most_pages) {
  entry* const h = entry_of(of);
  if (h == nullptr || h->spans.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // acquire: partner of the release in put(); makes the writes to the spans visible.
  span* const all = h->spans.exchange(nullptr, std::memory_order_acquire);
  span** link = nullptr;
  span* found = all;
  span* last = nullptr;
  for (; found != nullptr && found->pages > most_pages; found = found->next) link = &found->next;
  span* rest = all;
  if (found != nullptr) (link != nullptr ? *link : rest) = found->next;
  for (span* s = rest; s != nullptr; s = s->next) last = s;
  if (rest != nullptr) put(*h, rest, last);
  if (found == nullptr) return nullptr;
  const os::address_range whole = os::whole_units(found->start, found->end());
  found->next = found->previous = nullptr;
  // If the system does not remove the guard, the span is never used again.
  if (!whole.empty() && !os::remove_guard(whole.memory(), whole.bytes())) return nullptr;
  found->state.store(span_state::pooled, std::memory_order_relaxed);
  return found;
}

}  // namespace tarn::hardened_type_spans
