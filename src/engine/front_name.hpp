// SPDX-License-Identifier: MIT
// front_name: the name of an instance of a front, as it is requested and as the instance keeps it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "engine/instance.hpp"

namespace tarn::engine {

// The requested name. Longer names are cut: two shared pools whose names differ only after this are one.
template <class Request>
std::string_view front_name(const Request& request) {
  constexpr std::size_t longest = 4000;
  return {request.name, std::min(request.name_length, longest)};
}

// `stays`: whether the text stays for ever; else it is copied. Null: no memory.
inline const char* keep_name(std::string_view name, bool stays) {
  if (stays) return name.data();
  if (name.empty()) return "";
  auto* const copy = static_cast<char*>(blocks.allocate(name.size() + 1));
  if (copy == nullptr) return nullptr;
  name.copy(copy, name.size());
  copy[name.size()] = '\0';
  return copy;
}
inline void drop_name(const char* kept, std::size_t size, bool stays) {
  if (!stays && size != 0) blocks.deallocate(const_cast<char*>(kept), size + 1);
}

}  // namespace tarn::engine
