// SPDX-License-Identifier: MIT
// chain: a list of structures that are linked by their member `next`, or another one, and known by a pointer to the
// first one, or null. insert(), erase() and is_linked() are for lists that are linked by `previous`, too.
//
// Thread safety: none.
#pragma once

#include <type_traits>

namespace tarn::chain {

template <class T>
using link = std::type_identity_t<T * T::*>;

template <class T>
void push(T*& list, T* item, link<T> next = &T::next) {
  item->*next = list;
  list = item;
}

// The first structure; null if the list is empty.
template <class T>
T* pop(T*& list, link<T> next = &T::next) {
  T* const item = list;
  if (item != nullptr) list = item->*next;
  return item;
}

// Moves all of `more` before `list`, in reverse order.
template <class T>
void prepend(T*& list, T* more) {
  while (T* const item = pop(more)) push(list, item);
}

template <class T>
void insert(T*& list, T* item) {
  item->previous = nullptr;
  if (list != nullptr) list->previous = item;
  push(list, item);
}

template <class T>
void erase(T*& list, T* item) {
  (item->previous != nullptr ? item->previous->next : list) = item->next;
  if (item->next != nullptr) item->next->previous = item->previous;
  item->next = item->previous = nullptr;
}

// Whether the neighbours of `item` in the list lead back to it.
template <class T>
bool is_linked(const T* list, const T* item) {
  return (item->previous != nullptr ? item->previous->next : list) == item &&
         (item->next == nullptr || item->next->previous == item);
}

}  // namespace tarn::chain
