// SPDX-License-Identifier: MIT
#include "fronts/recyclers/recycler_core.hpp"

#include <utility>

#include "base/chain.hpp"
#include "os/clock.hpp"

namespace tarn {
recycler_core::recycler_core(const tarn_recycler_options& request, const char* name)
    : generation_began_ms(os::now_ms()),
      name_(name),
      cycle_ms_(request.cycle_ms),
      destroy_(request.destroy),
      context_(request.context),
      budget_(request.limit, request.limit_objects) {}

recycler_magazine* recycler_core::take_magazine() {
  os::lock_guard guard(lock_, *this);
  return chain::pop(fresh_);
}

void recycler_core::give_magazine(recycler_magazine* m) {
  os::lock_guard guard(lock_, *this);
  chain::push(fresh_, m);
}

void* recycler_core::take_one(recycler_magazine* recycler_core::*list) {
  recycler_magazine* emptied = nullptr;
  void* object = nullptr;
  {
    os::lock_guard guard(lock_, *this);
    recycler_magazine* const m = this->*list;
    if (m == nullptr) return nullptr;
    object = m->begin()[--m->count].object;
    if (m->count == 0) emptied = chain::pop(this->*list);
  }
  if (emptied != nullptr) discard(emptied);
  return object;
}

bool recycler_core::give_one(void* object, std::size_t bytes) {
  {
    os::lock_guard guard(lock_, *this);
    recycler_magazine* const m = fresh_;
    if (m != nullptr && m->count < m->capacity) {
      tarn_recycler_entry* const place = m->top();
      const std::size_t paid = place->paid;
      if (paid < bytes && !budget_.pay(bytes - paid, paid == 0 ? 1 : 0)) return false;
      if (paid < bytes) place->paid = bytes;
      place->object = object;
      ++m->count;
      return true;
    }
  }
  if (!budget_.pay(bytes, 1)) {
    discard_empty();
    if (!budget_.pay(bytes, 1)) return false;
  }
  recycler_magazine* const m = recycler_magazine::make(recycler_magazine::capacities[0]);
  if (m == nullptr) {
    budget_.refund({bytes, 1});
    return false;
  }
  *m->begin() = {object, bytes};
  m->count = 1;
  give_magazine(m);
  return true;
}

recycler_magazine* recycler_core::rotate_generations(recycler_magazine* gathered) {
  discard_empty();
  os::lock_guard guard(lock_, *this);
  recycler_magazine* const old = victims_;
  victims_ = fresh_;
  fresh_ = nullptr;
  chain::prepend(victims_, gathered);
  return old;
}

bool recycler_core::is_empty() {
  os::lock_guard guard(lock_, *this);
  return fresh_ == nullptr && victims_ == nullptr;
}

void recycler_core::discard(recycler_magazine* m) {
  recycler_payment paid;
  m->add_to(paid);
  budget_.refund(paid);
  recycler_magazine::unmake(m);
}

void recycler_core::leave_empty(recycler_magazine* m) {
  constexpr std::size_t most = 4;
  {
    os::lock_guard guard(lock_, *this);
    if (empty_count_ < most) {
      chain::push(empty_, m);
      ++empty_count_;
      return;
    }
  }
  discard(m);
}

recycler_magazine* recycler_core::take_empty(std::uint16_t wanted) {
  recycler_magazine* m = nullptr;
  {
    os::lock_guard guard(lock_, *this);
    m = chain::pop(empty_);
    if (m != nullptr) --empty_count_;
  }
  if (m == nullptr || m->capacity == wanted) return m;
  discard(m);
  return nullptr;
}

void recycler_core::discard_empty() {
  recycler_magazine* all = nullptr;
  {
    os::lock_guard guard(lock_, *this);
    all = std::exchange(empty_, nullptr);
    empty_count_ = 0;
  }
  while (recycler_magazine* const m = chain::pop(all)) discard(m);
}

std::size_t recycler_core::destroy_chain(recycler_magazine* all) {
  std::size_t objects = 0;
  while (recycler_magazine* const m = chain::pop(all)) {
    for (tarn_recycler_entry* e = m->begin(); e != m->top(); ++e) destroy_(context_, e->object);
    objects += m->count;
    m->count = 0;
    discard(m);
  }
  note_drop(tarn_recycler_aged, objects);
  return objects;
}

void recycler_core::get_figures(tarn_recycler_stats& out) {
  const auto got = [this](source from) {
    return got_[static_cast<unsigned>(from)].load(std::memory_order_relaxed);
  };
  out.hits = hits_.load(std::memory_order_relaxed);
  out.exchanged = got(source::exchanged);
  out.stolen = got(source::stolen);
  out.victims = got(source::victim);
  out.misses = got(source::miss);
  const auto dropped = [this](tarn_recycler_drop why) {
    return dropped_[why].load(std::memory_order_relaxed);
  };
  out.over_limit = dropped(tarn_recycler_over_limit);
  out.too_large = dropped(tarn_recycler_too_large);
  out.oversized = dropped(tarn_recycler_oversized);
  out.at_random = dropped(tarn_recycler_at_random);
  out.unfit = dropped(tarn_recycler_unfit);
  out.aged = dropped(tarn_recycler_aged);
  out.objects = out.bytes = 0;
  os::lock_guard guard(lock_, *this);
  for_each_magazine_locked([&out](recycler_magazine* m) {
    out.objects += m->count;
    for (const tarn_recycler_entry* e = m->begin(); e != m->top(); ++e) out.bytes += e->paid;
  });
}

void recycler_core::restart_budget(recycler_payment of_bins) {
  for_each_magazine_locked([&of_bins](recycler_magazine* m) { m->add_to(of_bins); });
  budget_.restart(of_bins);
}

}  // namespace tarn
