// SPDX-License-Identifier: MIT
// scope_bin: what one thread has of one scope: for each size class an array of free objects, from which malloc pops while
// the thread is in the scope, as it does from the thread's cache otherwise. Only free() of blocks of the scope that the
// thread is in pushes to it; other frees go to the span.
//
// scope_instance: a scope as its threads' bins and the registry know it.
//
// Owner: its thread. Another thread takes what is in it when the scope ends, while no thread is in the scope.
// Invariants: loaded_[c]->slots[0] is null, and slots < top <= limit of class c; a class whose `most_` is 0 has no
// magazine; all objects in it are marked free (free_mark).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/compiler.hpp"
#include "engine/front_registry.hpp"
#include "fronts/scopes/scope_core.hpp"
#include "os/report.hpp"
#include "slots/magazine.hpp"
#include "threads/thread_cache.hpp"

namespace tarn {

struct scope_instance;
struct scope_bin;

struct scope_bins {
  scope_bin** bins;
  std::size_t count;
};

#pragma GCC visibility push(hidden)
extern thread_local constinit scope_bins local_scope_bins;
// The bin of the scope that the calling thread is in, or null.
extern thread_local constinit scope_bin* current_scope_bin;
#pragma GCC visibility pop

struct scope_request {
  const char* name;
  std::size_t name_length;
  scope_core* memory;
  std::uint64_t number;
};

struct scope_instance : engine::front_instance<scope_instance, scope_bin> {
  static constexpr bool keeps_names = true;

  scope_instance(const scope_request& request, const char* its_name)
      : memory(request.memory), id(request.number), name_(its_name) {}

  // Ends the process if the scope has ended.
  static scope_instance& of(tarn_scope scope) {
    auto* const instance = static_cast<scope_instance*>(scope.instance);
    if (TARN_UNLIKELY(instance == nullptr || instance->id.load(std::memory_order_relaxed) != scope.number))
      os::fatal("use of a scope that has ended, or is none", instance);
    return *instance;
  }

  [[nodiscard]] std::string_view name() const { return name_; }

  scope_core* memory;
  std::atomic<std::uint64_t> id;  // of the scope; 0: it has ended

 private:
  const char* name_;
};

struct scope_bin : allocation_bins, engine::front_bin<scope_instance, scope_bin> {
  // For the registry: see there.
  static constexpr bool outlives_thread = false;
  static scope_bins& table() { return local_scope_bins; }
  static scope_bin* no_bin() { return nullptr; }
  void join() { memory = core->memory; }
  static void leave() {}

  scope_bin();

  // Whether the allocation for which pop() has just failed is one for the heap profile; if so, draws the distance to the
  // next one. Call it before allocate_slow(), unless the thread counts its allocations.
  bool is_profiled(unsigned size_class, byte_samples& profile);
  // The block is not followed after all. The caller then calls allocate_slow(), which counts the allocation.
  void forget_sample(unsigned size_class) { ++bins_[size_class].samples.until_sample; }
  // An object of malloc's class, when a pop has found none or is to be counted. Null: no memory, or over the budget.
  void* allocate_slow(unsigned size_class);
  // Takes a free object of the class. False: there is no room, and no memory for more.
  bool push(unsigned size_class, void* object);

  // Takes all magazines, as a chain. By the owner, or while no thread is in the scope.
  magazine* take_all();
  // Puts the objects of a chain into their spans, and frees the magazines.
  static void put_back(magazine* all);
  // Objects in it.
  [[nodiscard]] std::size_t count() const;
  void validate() const;

  scope_core* memory = nullptr;  // of the scope
  // How often its thread has entered the scope and not left it.
  std::atomic<std::uint32_t> entered{0};
  sample_countdown samples;  // of guarded allocations

 private:
  friend class scope_bin_test_access;

  void draw(unsigned size_class, byte_samples& profile);
  bool make_room(unsigned size_class);
  bool reserve(unsigned size_class, std::size_t objects);

  // As of byte_samples, when the distances in the bins were drawn.
  std::uint32_t profile_epoch_ = 0;
  magazine* loaded_[size_classes::count];
  std::uint8_t most_[size_classes::count] = {};
};

}  // namespace tarn
