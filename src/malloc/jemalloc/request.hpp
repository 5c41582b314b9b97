// SPDX-License-Identifier: MIT
// request: one call of mallctl, and the rules by which jemalloc reads and writes values: who may not write gets EPERM,
// who passes a wrong size EINVAL. Every handler of a name returns 0 or one of these errors, ENOENT, EFAULT or EAGAIN.
//
// Thread safety: a request belongs to the call.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tarn::jemalloc {

struct request {
  const std::size_t* mib;  // the name: the number of each of its parts
  const void* argument;    // of the name's node
  void* old;
  std::size_t* old_length;
  const void* fresh;
  std::size_t fresh_length;

  [[nodiscard]] bool wants_old() const { return old != nullptr && old_length != nullptr; }
  [[nodiscard]] bool mentions_old() const { return old != nullptr || old_length != nullptr; }
  [[nodiscard]] bool writes() const { return fresh != nullptr || fresh_length != 0; }
};

// The names can only be read, only be written, or only be called.
inline int refuse_write(const request& r) { return r.writes() ? EPERM : 0; }
inline int refuse_read(const request& r) { return r.mentions_old() ? EPERM : 0; }
inline int refuse_values(const request& r) { return r.writes() || r.mentions_old() ? EPERM : 0; }

// Stores the value for the caller if it wants one. A wrong length gets as many bytes as fit, and EINVAL.
template <class Value>
int give(const request& r, const Value& value) {
  if (!r.wants_old()) return 0;
  const std::size_t length = *r.old_length < sizeof value ? *r.old_length : sizeof value;
  const bool fits = *r.old_length == sizeof value;
  std::memcpy(r.old, &value, length);
  *r.old_length = length;
  return fits ? 0 : EINVAL;
}

// Reads the caller's value, if there is one, into `value`.
template <class Value>
int take(const request& r, Value& value) {
  if (r.fresh == nullptr) return 0;
  if (r.fresh_length != sizeof value) return EINVAL;
  std::memcpy(&value, r.fresh, sizeof value);
  return 0;
}

// The same where a value is required.
template <class Value>
int require(const request& r, Value& value) {
  return r.fresh == nullptr ? EINVAL : take(r, value);
}

// For names whose value is made by the call: the caller must have room for it.
template <class Value>
int require_room(const request& r) {
  if (r.wants_old() && *r.old_length == sizeof(Value)) return 0;
  if (r.old_length != nullptr) *r.old_length = 0;
  return EINVAL;
}

template <class Value>
int give_only(const request& r, const Value& value) {
  const int refused = refuse_write(r);
  return refused != 0 ? refused : give(r, value);
}

}  // namespace tarn::jemalloc
