// SPDX-License-Identifier: MIT
// The figures of locks by name: in the public functions and in JSON, on and off.
#include "runtime/lock_statistics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/engine.hpp"
#include "runtime/restore.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.hpp"
#include "tarn/process.hpp"

namespace tarn {
namespace {

using testing_support::restore_options;

std::string key(const std::string& name, std::uint64_t size) { return name + " " + std::to_string(size); }

std::map<std::string, tarn_lock_stats> all() {
  std::map<std::string, tarn_lock_stats> out;
  for (const tarn_lock_stats& each : locks()) {
    EXPECT_EQ(out.count(key(each.name, each.object_size)), 0U) << each.name;
    out[key(each.name, each.object_size)] = each;
  }
  return out;
}

nlohmann::json as_json() {
  std::vector<char> text(64 * 1024);
  EXPECT_LT(tarn_stats_json(text.data(), text.size()), text.size());
  return nlohmann::json::parse(text.data());
}

void use(std::size_t size, std::size_t count) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = tarn_malloc(size);
  for (void* block : blocks) tarn_free(block);
}

TEST(lock_statistics, name_the_locks_that_were_taken) {
  const restore_options restore;
  ASSERT_EQ(tarn_set_option("contention", "on"), 0);
  use(200, 20000);
  use(1 << 20, 10);
  const auto found = all();
  for (const std::string& name : {key("depot", 208), key("page_heap", 0)}) {
    ASSERT_EQ(found.count(name), 1U) << name;
    const tarn_lock_stats& stats = found.at(name);
    EXPECT_GE(stats.locks, 1U) << name;
    EXPECT_GE(stats.acquisitions, 10U) << name;
    EXPECT_GT(stats.held_ns, 0U) << name;
    EXPECT_LE(stats.longest_held_ns, stats.held_ns) << name;
    EXPECT_LE(stats.transfers, stats.acquisitions) << name;
    EXPECT_LE(stats.held_after_transfer_ns, stats.held_ns) << name;
  }
}

TEST(lock_statistics, are_in_json_while_they_are_counted) {
  const restore_options restore;
  EXPECT_FALSE(as_json().contains("locks"));
  ASSERT_EQ(tarn_set_option("contention", "on"), 0);
  use(200, 20000);
  const nlohmann::json object = as_json();
  ASSERT_TRUE(object.contains("locks"));
  bool found = false;
  for (const auto& lock : object["locks"]) {
    if (lock["name"] != "depot" || lock["object_size"] != 208) continue;
    found = true;
    EXPECT_GE(lock["acquisitions"], 10);
    EXPECT_FALSE(lock.contains("waits")) << "figures of zero are left out";
  }
  EXPECT_TRUE(found) << object.dump(1);
  ASSERT_EQ(tarn_set_option("contention", "off"), 0);
  const auto before = all()[key("depot", 208)].acquisitions;
  use(200, 20000);
  EXPECT_EQ(all()[key("depot", 208)].acquisitions, before);
}

TEST(lock_statistics, a_lock_that_a_thread_waits_for_has_a_wait) {
  const restore_options restore;
  ASSERT_EQ(tarn_set_option("contention", "on"), 0);
  const std::uint64_t before = all()[key("page_heap", 0)].waits;
  engine::heap.lock().lock();
  std::thread other([] { tarn_free(tarn_malloc(1 << 20)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  engine::heap.lock().unlock();
  other.join();
  const tarn_lock_stats after = all()[key("page_heap", 0)];
  EXPECT_GE(after.waits, before + 1);
  EXPECT_GT(after.waited_ns, 1'000'000U);
  EXPECT_GE(after.transfers, 1U);
}

// Threads that take much of a class get depots of their own; what one frees of the other's objects is counted.
TEST(lock_statistics, objects_given_back_to_another_home_are_foreign) {
  const restore_options restore;
  ASSERT_EQ(tarn_set_option("contention", "on"), 0);
  constexpr std::size_t count = 40000;
  std::uint64_t foreign = 0;
  for (int round = 0; round < 100 && foreign == 0; ++round) {
    std::vector<void*> passed;
    for (int t = 0; t < 2; ++t) {
      std::thread([&passed] {
        std::vector<void*> own(count);
        for (void*& block : own) block = tarn_malloc(100);
        for (void* block : passed) tarn_free(block);
        passed = std::move(own);
      }).join();
    }
    // The main thread and others take in turn.
    std::vector<void*> mine(count);
    for (void*& block : mine) block = tarn_malloc(100);
    std::thread([&] {
      for (void* block : mine) tarn_free(block);
    }).join();
    for (void* block : passed) tarn_free(block);
    foreign = all()[key("depot", 112)].foreign_objects;
  }
  EXPECT_GT(foreign, 0U);
  EXPECT_GT(all()[key("depot", 112)].magazines, 0U);
  EXPECT_GE(all()[key("depot", 112)].locks, 2U);
}

struct pooled_thing {
  char bytes[72];
};

TEST(lock_statistics, pools_have_names_and_their_locks_are_free_afterwards) {
  const restore_options restore;
  ASSERT_EQ(tarn_set_option("contention", "on"), 0);
  const std::uint64_t others_before = all()[key("other", 0)].locks;
  {
    object_pool<pooled_thing> pool;
    std::vector<pooled_thing*> things;
    for (int i = 0; i < 1000; ++i) things.push_back(pool.create());
    EXPECT_GE(all()[key("pool_shard", 0)].acquisitions, 1U);
    EXPECT_GE(all()[key("pools", 0)].acquisitions, 1U);
    for (pooled_thing* thing : things) pool.destroy(thing);
  }
  EXPECT_GE(all()[key("other", 0)].locks, others_before);
  object_pool<pooled_thing> another;
  another.destroy(another.create());
}

}  // namespace
}  // namespace tarn
