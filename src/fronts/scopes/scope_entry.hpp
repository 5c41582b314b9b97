// SPDX-License-Identifier: MIT
// scope_entry: how a thread enters a scope and leaves it. Inline: a program that enters for each request pays for two
// calls, and a third and a fourth would take as long as the work.
//
// Thread safety: any thread; an entry belongs to the thread that has made it.
// Invariant: bin->entered = entries of the bin's thread that lead to the bin and have not been left.
#pragma once

#include <atomic>

#include "base/compiler.hpp"
#include "engine/allocation_counts.hpp"
#include "engine/engine.hpp"
#include "fronts/scopes/scope_bin.hpp"
#include "fronts/scopes/scope_registry.hpp"
#include "os/report.hpp"
#include "tarn/scope.h"

namespace tarn::scope_registry {

// False: no memory for the thread's bin.
inline bool enter(tarn_scope scope, tarn_scope_entry& entry) {
  scope_instance& instance = scope_instance::of(scope);
  const scope_bins& table = local_scope_bins;
  scope_bin* bin = instance.number < table.count ? table.bins[instance.number] : nullptr;
  if (TARN_UNLIKELY(bin == nullptr || bin->core != &instance)) {
    bin = make_bin(instance);
    if (bin == nullptr) return false;
  }
  entry = {bin, current_scope_bin};
  bin->entered.store(bin->entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  current_scope_bin = bin;
  engine::allocating = bin;
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr)) bin->count_every_pop();
  return true;
}

inline void leave(tarn_scope_entry& entry) {
  auto* const bin = static_cast<scope_bin*>(entry.bin);
  if (TARN_UNLIKELY(bin == nullptr || bin != current_scope_bin))
    os::fatal("a scope is left by another thread than has entered it, or not the innermost one first",
              &entry);
  bin->entered.store(bin->entered.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  entry.bin = nullptr;
  auto* const outer = static_cast<scope_bin*>(entry.outer);
  current_scope_bin = outer;
  if (outer != nullptr) {
    engine::allocating = outer;
    return;
  }
  engine::allocating = engine::local_cache;
  // No callback runs outside of scopes. One that has left by an exception, which it must not, ends here at the latest.
  thread_is_asked = false;
}

}  // namespace tarn::scope_registry
