// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/tree.hpp"

#include <cstdint>

#include "base/text.hpp"

namespace tarn::jemalloc {
namespace {

// The child that the part of a name leads to, and its number. Null: there is none.
const node* child_of(const node& parent, std::string_view part, std::size_t& number) {
  if (parent.has_index != nullptr) {
    return take_number(part, number) && part.empty() && parent.has_index(number) ? parent.children->nodes
                                                                                 : nullptr;
  }
  const node_list& all = *parent.children;
  for (std::size_t i = 0; i < all.count; ++i) {
    if (all.nodes[i].name != part) continue;
    number = i;
    return &all.nodes[i];
  }
  return nullptr;
}

const node* child_of(const node& parent, std::size_t number) {
  if (parent.children == nullptr) return nullptr;
  if (parent.has_index != nullptr) return parent.has_index(number) ? parent.children->nodes : nullptr;
  return number < parent.children->count ? &parent.children->nodes[number] : nullptr;
}

}  // namespace

int find(std::string_view name, std::size_t* mib, std::size_t* length, const node** found) {
  const node* at = &root;
  std::size_t parts = 0;
  for (;;) {
    if (parts == *length) break;  // the caller has no room for more
    const std::size_t dot = name.find('.');
    at = child_of(*at, part_of(name, 0, dot), mib[parts]);
    if (at == nullptr) return ENOENT;
    ++parts;
    const bool is_last = dot == std::string_view::npos;
    if (!is_last && at->handler != nullptr) return ENOENT;
    if (is_last) break;
    name.remove_prefix(dot + 1);
  }
  *length = parts;
  *found = at;
  return 0;
}

int find(const std::size_t* mib, std::size_t length, const node** found) {
  const node* at = &root;
  for (std::size_t i = 0; i < length; ++i) {
    at = child_of(*at, mib[i]);
    if (at == nullptr) return ENOENT;
  }
  *found = at;
  return 0;
}

}  // namespace tarn::jemalloc
