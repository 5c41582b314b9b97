// SPDX-License-Identifier: MIT
// arena.<i>.*: what can be done with one arena, or with all of them (index 4096, or arenas.narenas).
#include <atomic>
#include <cstring>

#include "jemalloc/arena_table.hpp"
#include "jemalloc/identity.hpp"
#include "jemalloc/settings.hpp"
#include "jemalloc/tree.hpp"
#include "malloc/entry_points.hpp"
#include "runtime/decay.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t place_of_index = 1;

bool is_all(std::size_t index) { return index == all_arenas || index == arenas.count(); }

int handle_initialized(const request& r) {
  unsigned index = 0;
  if (const int refused = refuse_write(r)) return refused;
  if (const int wrong = index_at(r, place_of_index, index)) return wrong;
  const bool is_initialized =
      index == destroyed_arenas ? arenas.has_destroyed() : is_all(index) || arenas.exists(index);
  return give(r, is_initialized);
}

// The pages that free blocks of an arena leave go to the heap that all arenas share, so every index means all of it.
int handle_purge(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  entry::trim(0);
  return 0;
}

int handle_decay(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  decay::wake();
  return 0;
}

int handle_reset(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  return arenas.reset(r.mib[place_of_index]);
}

int handle_destroy(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  return arenas.destroy(r.mib[place_of_index]);
}

// A pointer to the name is written; for a read, the caller's pointer leads to room for the name.
int handle_name(const request& r) {
  const std::size_t index = r.mib[place_of_index];
  if (index == all_arenas || index >= arenas.count()) return EINVAL;
  if (!arenas.exists(index)) return EFAULT;
  if (r.wants_old()) {
    char* to = nullptr;
    if (*r.old_length != sizeof to) return EINVAL;
    std::memcpy(&to, r.old, sizeof to);
    if (to == nullptr) return EINVAL;
    if (!arenas.copy_name(index, to)) return EFAULT;
  }
  const char* name = nullptr;
  if (const int wrong = take(r, name)) return wrong;
  if (r.fresh == nullptr) return 0;
  if (name == nullptr) return EINVAL;
  return arenas.set_name(index, name) ? 0 : EFAULT;
}

// brk() is not used; jemalloc's words for when it is are accepted.
int handle_dss(const request& r) {
  static constinit std::atomic<unsigned> choice{2};
  constexpr const char* words[] = {"disabled", "primary", "secondary"};
  const char* wanted = nullptr;
  if (const int wrong = take(r, wanted)) return wrong;
  if (!is_all(r.mib[place_of_index]) && !arenas.exists(r.mib[place_of_index])) return EFAULT;
  unsigned next = choice.load(std::memory_order_relaxed);
  if (wanted != nullptr) {
    next = 0;
    while (next < 3 && std::strcmp(words[next], wanted) != 0) ++next;
    if (next == 3) return EINVAL;
  }
  choice.store(next, std::memory_order_relaxed);
  return give(r, words[next]);
}

template <std::ptrdiff_t (*Get)(), bool (*Set)(std::ptrdiff_t)>
int handle_decay_ms(const request& r) {
  if (!arenas.exists(r.mib[place_of_index])) return EFAULT;
  if (const int wrong = give(r, Get())) return wrong;
  std::ptrdiff_t wanted = 0;
  if (r.fresh == nullptr) return 0;
  if (const int wrong = take(r, wanted)) return wrong;
  return Set(wanted) ? 0 : EFAULT;
}

constexpr node index_nodes[] = {
    leaf("initialized", handle_initialized),
    leaf("decay", handle_decay),
    leaf("purge", handle_purge),
    leaf("reset", handle_reset),
    leaf("destroy", handle_destroy),
    leaf("dss", handle_dss),
    leaf("dirty_decay_ms", handle_decay_ms<decay_ms, set_decay_ms>),
    leaf("muzzy_decay_ms", handle_decay_ms<muzzy_decay_ms, set_muzzy_decay_ms>),
    leaf("name", handle_name),
};
constexpr node_list names_of_index = list_of(index_nodes);
constexpr node nodes[] = {inner("", names_of_index)};

}  // namespace

bool is_arena_index(std::size_t index) {
  return index == all_arenas || index == destroyed_arenas || index <= arenas.count();
}

constexpr node_list arena_names = list_of(nodes);

}  // namespace tarn::jemalloc
