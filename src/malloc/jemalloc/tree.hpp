// SPDX-License-Identifier: MIT
// tree: the names of mallctl. Inner nodes have named children, or one child that stands for every index ("arena.0");
// leaves have a handler. A name as numbers (a MIB) has for each part the child's place, or the index itself, so
// programs may replace an index in it.
//
// The tables are constant; one file per subject defines them. Thread safety: all functions may be called by any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "malloc/jemalloc/request.hpp"

namespace tarn::jemalloc {

struct node;

struct node_list {
  const node* nodes;
  std::size_t count;
};

struct node {
  std::string_view name;
  int (*handler)(const request&) = nullptr;  // of a leaf
  const void* argument = nullptr;            // for the handler
  const node_list* children = nullptr;
  bool (*has_index)(std::size_t index) =
      nullptr;  // the only child stands for every index that has_index() accepts
};

template <std::size_t Count>
constexpr node_list list_of(const node (&nodes)[Count]) {
  return {nodes, Count};
}
constexpr node leaf(std::string_view name, int (*handler)(const request&), const void* argument = nullptr) {
  return {.name = name, .handler = handler, .argument = argument};
}
constexpr node inner(std::string_view name, const node_list& children) {
  return {.name = name, .children = &children};
}
constexpr node indexed(std::string_view name, const node_list& child, bool (*has_index)(std::size_t)) {
  return {.name = name, .children = &child, .has_index = has_index};
}

inline constexpr std::size_t most_parts = 7;

extern const node root;

// Finds a name; stores its numbers, at most *length of them, and their count in *length. *found: the last node. ENOENT:
// there is no such name.
int find(std::string_view name, std::size_t* mib, std::size_t* length, const node** found);
// Finds the node of a name given as numbers.
int find(const std::size_t* mib, std::size_t length, const node** found);

// The names below those of the root, each list in a file of its own.
extern const node_list arena_names;  // one node, for every index
extern const node_list arenas_names;
extern const node_list opt_names;
extern const node_list stats_names;
extern const node_list tcache_names;
extern const node_list thread_names;

// Which indices arena.<i> accepts.
bool is_arena_index(std::size_t index);

}  // namespace tarn::jemalloc
