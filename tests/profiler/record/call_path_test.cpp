// SPDX-License-Identifier: MIT
// The recorder's call paths are compared with those of libc's backtrace(), along call paths that change in every way.
#include "profiler/record/call_path.hpp"

#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "../../unit/broken_invariant.hpp"
#include "profiler/record/origin.hpp"

namespace tarn::profiler {

class call_path_test_access {
 public:
  static void set_scripts(call_path& path, std::uint32_t depth, std::uint32_t first_host,
                          std::uint32_t second_host) {
    path.depth_ = depth;
    path.script_depth_ = 2;
    path.scripts_[0].host = first_host;
    path.scripts_[1].host = second_host;
  }
};

}  // namespace tarn::profiler

namespace {

using namespace tarn::profiler;

class own_rules final : public rule_source {
 public:
  own_rules() { generation = 1; }
  frame_rule rule_for(std::uintptr_t pc) override {
    ++asked;
    loaded_module module;
    frame_rule none;
    none.kind = rule_kind::frame_pointer;
    return find_module(pc, module) ? parse_frame_rule(pc, module.unwind_header) : none;
  }
  int asked = 0;
};

class own_nodes final : public node_sink {
 public:
  bool announce(std::uint32_t parent, std::uintptr_t address) override {
    nodes.push_back({parent, address});
    return true;
  }
  std::vector<std::uintptr_t> path(std::uint32_t node) const {
    std::vector<std::uintptr_t> addresses;
    for (; node != 0; node = nodes[node].first) addresses.push_back(nodes[node].second);
    return addresses;
  }
  std::vector<std::pair<std::uint32_t, std::uintptr_t>> nodes{{0, 0}};
};

class fixture {
 public:
  fixture()
      : path(static_cast<call_path*>(map_pages(sizeof(call_path)))), rules(std::make_unique<rule_table>()) {
    pthread_attr_t attributes;
    void* low = nullptr;
    std::size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    bounds = {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + bytes};
  }
  ~fixture() { unmap_pages(path, sizeof(call_path)); }
  fixture(const fixture&) = delete;
  fixture& operator=(const fixture&) = delete;

  // Takes a call path as a hook does, and compares it with backtrace(), whose first address is in this function.
  [[gnu::noinline]] void look() {
    const call_origin origin = recorder::caller();
    const std::uint32_t node = path->node_of(origin, stack_memory(bounds), *rules, source, nodes);
    void* addresses[512];
    const int count = backtrace(addresses, 512);
    std::vector<std::uintptr_t> truth;
    for (int index = 1; index < count; ++index)
      truth.push_back(reinterpret_cast<std::uintptr_t>(addresses[index]));
    const std::vector<std::uintptr_t> found = nodes.path(node);
    ASSERT_EQ(found, truth) << "look " << looks;
    ASSERT_TRUE(path->verify(origin, stack_memory(bounds), *rules, source));
    ++looks;
    asm volatile("" : : : "memory");
  }

  call_path* path;
  std::unique_ptr<rule_table> rules;
  stack_bounds bounds;
  own_rules source;
  own_nodes nodes;
  int looks = 0;
};

[[gnu::noinline]] void once(fixture& f) {
  f.look();
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void twice(fixture& f) {
  f.look();
  once(f);
  f.look();
}

// A frame of variable length, so that the unwind information refers to the frame pointer.
[[gnu::noinline]] void with_array(fixture& f, std::size_t length) {
  auto* array = static_cast<volatile char*>(__builtin_alloca(length));
  array[0] = 1;
  once(f);
  array[length - 1] = 2;
}

// A frame whose stack pointer is aligned to 128 bytes.
[[gnu::noinline]] void aligned(fixture& f) {
  alignas(128) char room[128];
  asm volatile("" : : "r"(room) : "memory");
  once(f);
  asm volatile("" : : "r"(room) : "memory");
}

[[gnu::noinline]] void wander(fixture& f, std::mt19937& random, int depth) {
  switch (depth == 0 ? 0 : random() % 7) {
    case 0: once(f); break;
    case 1: twice(f); break;
    case 2: with_array(f, 16 + random() % 300); break;
    case 3: aligned(f); break;
    default:
      wander(f, random, depth - 1);
      if (random() % 2 == 0) wander(f, random, depth - 1);
      break;
  }
  asm volatile("" : : : "memory");
}

// A fake interpreter: each native call of `evaluate` stands for two functions of a script.
class own_scripts final : public script_source {
 public:
  std::uint32_t frames(const native_path&, script_frame* out, std::uint32_t most) override {
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(most, running.size()));
    std::copy_n(running.rbegin(), count, out);
    return count;
  }
  std::uint64_t address_of(const script_frame& frame) override { return frame.code + frame.instruction; }
  void send(const script_frame& frame, std::uint64_t address) override {
    EXPECT_EQ(address, frame.code + frame.instruction);
    ++sent;
  }
  std::vector<script_frame> running;  // outermost first
  int sent = 0;
};

constexpr std::uintptr_t script = std::uintptr_t{0xfe} << 56;

[[gnu::noinline]] void look_at_scripts(fixture& f, own_scripts& scripts) {
  const call_origin origin = recorder::caller();
  const std::uint32_t node =
      f.path->node_of(origin, stack_memory(f.bounds), *f.rules, f.source, f.nodes, &scripts);
  void* addresses[512];
  const int count = backtrace(addresses, 512);
  std::vector<std::uintptr_t> native;
  std::vector<std::uintptr_t> interpreted;
  for (const std::uintptr_t each : f.nodes.path(node))
    (each >= script ? interpreted : native).push_back(each);
  std::vector<std::uintptr_t> truth;
  for (auto each = scripts.running.rbegin(); each != scripts.running.rend(); ++each)
    truth.push_back(each->code + each->instruction);
  ASSERT_EQ(interpreted, truth);
  // backtrace() also has this function's own frame; two frames of the script replace each native frame of evaluate().
  ASSERT_EQ(native.size() + truth.size() / 2, static_cast<std::size_t>(count - 1));
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void evaluate(fixture& f, own_scripts& scripts, std::uintptr_t depth, std::uintptr_t salt) {
  volatile char mine = 0;
  const auto anchor = reinterpret_cast<std::uintptr_t>(&mine);
  scripts.running.push_back({script + (depth << 16), salt, 0, anchor});
  scripts.running.push_back({script + (depth << 16) + 256, salt, 0, anchor});
  if (depth == 0) {
    look_at_scripts(f, scripts);
    scripts.running.back().instruction += 1;  // the same native frames, another line
    look_at_scripts(f, scripts);
  } else {
    evaluate(f, scripts, depth - 1, salt);
    evaluate(f, scripts, depth / 2, salt + 2);
  }
  scripts.running.resize(scripts.running.size() - 2);
  asm volatile("" : : "r"(anchor) : "memory");
}

TEST(call_path, functions_of_scripts_stand_where_the_interpreter_runs_them) {
  fixture f;
  own_scripts scripts;
  for (std::uintptr_t round = 0; round < 3; ++round) evaluate(f, scripts, 5, 8 * (round % 2));
  const auto nodes = f.nodes.nodes.size();
  const int sent = scripts.sent;
  EXPECT_GT(sent, 0);
  for (std::uintptr_t round = 0; round < 2; ++round) evaluate(f, scripts, 5, 8 * (round % 2));
  EXPECT_LE(f.nodes.nodes.size(), 2 * nodes) << "only calls from other lines of this function add nodes";
  once(f);  // without scripts all frames are native
}

TEST(call_path, functions_of_scripts_without_a_native_frame_are_outermost) {
  fixture f;
  own_scripts scripts;
  scripts.running.push_back({script, 1, 0, 0});
  const call_origin origin = recorder::caller();
  const std::uint32_t node =
      f.path->node_of(origin, stack_memory(f.bounds), *f.rules, f.source, f.nodes, &scripts);
  EXPECT_EQ(f.nodes.path(node).back(), script + 1);
}

TEST(call_path, agrees_with_libc_wherever_the_program_goes) {
  fixture f;
  std::mt19937 random(3);
  for (int round = 0; round < 1000 && !::testing::Test::HasFatalFailure(); ++round) wander(f, random, 12);
  EXPECT_GT(f.looks, 1000);
}

TEST(call_path, same_stack_pointer_with_other_callers) {
  fixture f;
  for (int round = 0; round < 100; ++round) {
    std::function<void()> call = [&f] { once(f); };
    if (round % 3 == 1) call = [&f] { twice(f); };
    if (round % 3 == 2) call = [&f] { with_array(f, 64); };
    call();
  }
}

// Calls with_array() so that its frame pointer differs and the stack pointer of its call does not.
template <std::size_t Room>
[[gnu::noinline]] void with_room(fixture& f) {
  alignas(16) char room[Room];
  asm volatile("" : : "r"(room) : "memory");
  with_array(f, 1024 - Room);
  asm volatile("" : : "r"(room) : "memory");
}

TEST(call_path, same_stack_pointer_with_another_frame_pointer) {
  fixture f;
  for (int round = 0; round < 3; ++round) {
    with_room<64>(f);
    with_room<256>(f);
    with_room<512>(f);
  }
}

// The path has more frames than half of the table has places, so frames of other paths are overwritten. No frame of the path
// itself may be overwritten while it is walked.
template <int Number>
[[gnu::noinline]] void dig(fixture& f, std::mt19937& random, int depth) {
  char room[16 + 40 * Number];
  asm volatile("" : : "r"(room) : "memory");
  if (depth == 0) {
    once(f);
  } else if (random() % 2 == 0) {
    dig<(Number + 1) % 5>(f, random, depth - 1);
  } else {
    dig<(Number + 3) % 5>(f, random, depth - 1);
  }
  asm volatile("" : : "r"(room) : "memory");
}

TEST(call_path, deep_paths_keep_all_their_frames) {
  fixture f;
  std::mt19937 random(5);
  for (int round = 0; round < 20 && !::testing::Test::HasFatalFailure(); ++round) {
    dig<0>(f, random, 450);
    dig<1>(f, random, 10);
  }
}

TEST(call_path, a_frame_that_was_outermost_gets_its_callers) {
  fixture f;
  const stack_bounds whole = f.bounds;
  for (int round = 0; round < 3; ++round) {
    const call_origin origin = recorder::caller();
    const stack_bounds inner = {whole.low, origin.stack_pointer};
    const std::uint32_t cut = f.path->node_of(origin, stack_memory(inner), *f.rules, f.source, f.nodes);
    EXPECT_EQ(f.nodes.path(cut).size(), 1U);
    const std::uint32_t all = f.path->node_of(origin, stack_memory(whole), *f.rules, f.source, f.nodes);
    EXPECT_GT(f.nodes.path(all).size(), 5U);
    EXPECT_EQ(f.nodes.path(all).front(), f.nodes.path(cut).front());
  }
}

TEST(call_path, repeated_paths_ask_for_no_rules) {
  fixture f;
  for (int round = 0; round < 10; ++round) once(f);
  const int asked = f.source.asked;
  const std::size_t nodes = f.nodes.nodes.size();
  for (int round = 0; round < 1000; ++round) once(f);
  // The second loop calls once() from another line: two new nodes, and at most two new rules.
  EXPECT_LE(f.source.asked, asked + 2);
  EXPECT_LE(f.nodes.nodes.size(), nodes + 2);
}

// The generation changes when a library is closed; it is 0 during that, and no rules are kept.
TEST(call_path, rules_of_another_generation_are_asked_for_again) {
  fixture f;
  std::vector<int> asked;
  for (const std::uint64_t generation : {1, 1, 2, 2, 0, 0, 2}) {
    const int before = f.source.asked;
    f.source.generation = generation;
    f.path->forget();
    once(f);
    asked.push_back(f.source.asked - before);
  }
  EXPECT_GT(asked[0], 1);
  for (const std::size_t look : {1, 3, 6}) EXPECT_EQ(asked[look], 0) << look;
  for (const std::size_t look : {2, 4, 5}) EXPECT_GE(asked[look], asked[0]) << look;
}

TEST(call_path, reads_nothing_outside_of_the_stack) {
  fixture f;
  f.bounds.high = f.bounds.low + 64;
  const call_origin origin = {reinterpret_cast<std::uintptr_t>(&once) + 4, f.bounds.low + 8, 0x10};
  const std::uint32_t node = f.path->node_of(origin, stack_memory(f.bounds), *f.rules, f.source, f.nodes);
  EXPECT_EQ(f.nodes.path(node).size(), 1U);
}

std::size_t resident_pages(void* memory, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(getpagesize());
  std::vector<unsigned char> states((bytes + page - 1) / page);
  EXPECT_EQ(mincore(memory, bytes, states.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1) != 0; }));
}

// A process may have thousands of threads that allocate little.
TEST(call_path, a_few_short_paths_take_little_memory) {
  fixture f;
  for (int round = 0; round < 100; ++round) once(f);
  EXPECT_LE(resident_pages(f.path, sizeof(call_path)), 3U);
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) wander(f, random, 12);
  const int asked = f.source.asked;
  for (int round = 0; round < 1000; ++round) once(f);
  EXPECT_LE(f.source.asked, asked + 2) << "it has room for all of them";
}

TEST(node_table, finds_what_was_put_in) {
  auto* table = static_cast<node_table*>(map_pages(sizeof(node_table)));
  for (std::uint32_t index = 1; index < 100000; ++index) {
    ASSERT_EQ(table->find(index / 7, index * 16), 0U);
    ASSERT_EQ(table->insert(index / 7, index * 16), index);
  }
  for (std::uint32_t index = 1; index < 100000; ++index) ASSERT_EQ(table->find(index / 7, index * 16), index);
  unmap_pages(table, sizeof(node_table));
}

TEST(call_path, finds_a_broken_invariant) {
  auto* path = static_cast<call_path*>(map_pages(sizeof(call_path)));
  const auto set = call_path_test_access::set_scripts;
  set(*path, 3, 1, 2);
  path->validate();
  set(*path, 3, 2, 1);
  EXPECT_BROKEN(path->validate(), "call_path", "i == 0 || scripts_[i - 1].host <= scripts_[i].host", path);
  set(*path, 2, 1, 2);
  EXPECT_BROKEN(path->validate(), "call_path", "scripts_[i].host < depth_", path);
  set(*path, call_path::most_frames + 1, 1, 2);
  EXPECT_BROKEN(path->validate(), "call_path", "depth_ <= most_frames && script_depth_ <= most_scripts",
                path);
  unmap_pages(path, sizeof(call_path));
}

}  // namespace
