// SPDX-License-Identifier: MIT
#include "slots/free_mark.hpp"

#include <algorithm>

#include "os/guarded_memory.hpp"
#include "os/process_random.hpp"
#include "pages/page_map.hpp"
#include "slots/objects.hpp"

namespace tarn::free_mark {
namespace {

// With the highest bit set and the next one clear, a mark equals neither an address of user space nor a small positive
// or negative number.
constexpr std::uintptr_t always_set = std::uintptr_t{1} << 63;
constexpr std::uintptr_t always_clear = std::uintptr_t{1} << 62;
static_assert(class_info(1).objects < held_now);

}  // namespace

constinit secret_page secret{0};

void choose_secret() {
  const std::uintptr_t random = os::process_random(os::random_purpose::free_mark);
  secret.value = (random | always_set) & ~always_clear;
}

// If mprotect is forbidden, the page stays writable.
void protect_secret() { os::forbid_writing(&secret, sizeof secret); }

void mark_unused(span* s, std::size_t end) {
  end = std::min<std::size_t>(end, s->capacity);
  for (std::size_t i = s->first_unused; i < end && !is_outside(s->size_class); ++i) set(objects::at(s, i));
  s->first_unused = std::max(s->first_unused, static_cast<std::uint32_t>(end));
}

void mark_all(const page_map& map, const span* s) {
  for (std::size_t i = 0; i < s->capacity; ++i) set(map, s->size_class, objects::at(s, i));
}

void clear_outside(const page_map& map, const span* s) {
  for (std::uintptr_t at = s->start; at != s->end(); at += page_map::bytes_per_mark) {
    if (std::uint8_t& mark = map.mark(at); is_set(mark)) write(mark, false);
  }
}

void unlist(page_map& map, span* s) {
  s->free_when_looked = held_now;
  map.clear_objects(s);
}

void list_again(page_map& map, span* s) {
  if (s->free_when_looked == held_now) return;
  for (std::size_t i = 0; i < s->first_unused && !is_outside(s->size_class); ++i) {
    if (objects::is_free(s, i)) set(objects::at(s, i));
  }
  s->free_when_looked = 0;
  map.end_dropped(s);
  map.set_objects(s, class_info(s->size_class).size);
}

bool unused_are_free(const span& s) {
  for (std::size_t i = s.first_unused; i < s.capacity; ++i) {
    if (s.free_when_looked != held_now && !objects::is_free(&s, i)) return false;
  }
  return s.first_unused <= s.capacity;
}

bool all_are_set(const page_map& map, const span& s) {
  if (s.free_when_looked != 0) return false;
  for (std::size_t i = 0; !hardened_build && i < s.first_unused; ++i) {
    if (objects::is_free(&s, i) && !is_set(map, s.size_class, objects::at(&s, i))) return false;
  }
  return true;
}

bool is_listed(const page_map& map, const span& s) { return map.class_of(s.start) == s.size_class; }

}  // namespace tarn::free_mark
