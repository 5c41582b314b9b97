// SPDX-License-Identifier: MIT
// chain: a list of structures that are linked by their member `next`, known by a pointer to the first one, or null.
//
// Thread safety: none.
#pragma once

namespace tarn::chain {

template <class T>
void push(T*& list, T* item) {
  item->next = list;
  list = item;
}

// The first structure; null if the list is empty.
template <class T>
T* pop(T*& list) {
  T* const item = list;
  if (item != nullptr) list = item->next;
  return item;
}

// Moves all of `more` before `list`, in reverse order.
template <class T>
void prepend(T*& list, T* more) {
  while (T* const item = pop(more)) push(list, item);
}

}  // namespace tarn::chain
