// SPDX-License-Identifier: MIT
// advice_kinds: the kinds of advice, and the rules that give it. A rule is a function that examines the whole program
// or one group of sites, and returns a change that concerns its cost, or nothing; a new one is declared and listed here.
// docs/explanation/advice.md explains the rules and their figures. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace tarn::profiler {

struct advice;
struct advice_facts;
struct site_group;

enum class advice_kind : std::uint8_t {
  leave_it,     // no change is worth it here
  tunable,      // start the program with a variable set; no code changes
  huge_pages,   // as tunable, for huge pages
  allocator,    // start the program on another allocator
  buffer_pool,  // tarn/buffer_pool.hpp
  typed_pool,   // tarn/pool.hpp, pooled.hpp: one thread at a time
  object_pool,  // tarn/pool.hpp: across threads
  recycler,     // tarn/recycler.hpp
  arena,        // tarn/arena.hpp
  ask_for_less,
  reserve,
  reuse,      // of a container, or of what it was copied from
  placement,  // a remark: the placement of blocks may cost time that no figure of a recording contains
};

// Which cost a change concerns.
inline constexpr unsigned faults_cost = 1;
inline constexpr unsigned calls_cost = 2;

struct kind_facts {
  advice_kind kind;
  const char* name;
  unsigned costs;
  // Weight in sorting by what is counted: of settings that concern about the same cost, the smaller change comes first.
  // 0: nothing is counted.
  double weight;
};

// By advice_kind.
inline constexpr std::array<kind_facts, 13> advice_kinds = {{
    {advice_kind::leave_it, "leave it", 0, 0},
    {advice_kind::tunable, "tunable", faults_cost, 1.3},
    {advice_kind::huge_pages, "huge pages", faults_cost, 1.2},
    {advice_kind::allocator, "another malloc", faults_cost | calls_cost, 1.1},
    {advice_kind::buffer_pool, "buffer pool", faults_cost, 1},
    {advice_kind::typed_pool, "typed pool", calls_cost, 1},
    {advice_kind::object_pool, "object pool", calls_cost, 1},
    {advice_kind::recycler, "recycler", calls_cost | faults_cost, 1},
    {advice_kind::arena, "arena", calls_cost, 1},
    {advice_kind::ask_for_less, "ask for less", 0, 0},
    {advice_kind::reserve, "reserve", calls_cost | faults_cost, 1},
    {advice_kind::reuse, "reuse", calls_cost | faults_cost, 1},
    {advice_kind::placement, "placement", 0, 0},
}};

// ---- rules for the whole program ----
std::optional<advice> advise_keeping_memory(const advice_facts& facts);  // glibc's thresholds
std::optional<advice> advise_huge_pages(const advice_facts& facts);
std::optional<advice> advise_allocator(const advice_facts& facts);
std::vector<advice> advise_recyclers(const advice_facts& facts);
std::vector<advice> advise_arenas(const advice_facts& facts);
std::optional<advice> advise_placement(const advice_facts& facts);  // a remark

// ---- rules for one group ----
std::optional<advice> advise_buffer_pool(const advice_facts& facts, const site_group& group);
std::optional<advice> advise_pool(const advice_facts& facts, const site_group& group);
std::optional<advice> advise_reserve(const advice_facts& facts, const site_group& group);
std::optional<advice> advise_reuse(const advice_facts& facts, const site_group& group);
std::optional<advice> advise_asking_for_less(const advice_facts& facts, const site_group& group);

inline constexpr auto program_rules =
    std::make_tuple(advise_keeping_memory, advise_huge_pages, advise_allocator, advise_recyclers,
                    advise_arenas, advise_placement);
inline constexpr auto group_rules =
    std::make_tuple(advise_buffer_pool, advise_pool, advise_reserve, advise_reuse, advise_asking_for_less);

}  // namespace tarn::profiler
