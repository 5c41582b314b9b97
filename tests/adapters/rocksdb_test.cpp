// SPDX-License-Identifier: MIT
// rocksdb_block_memory: a database whose block cache lies in it, its figures, and misuse.
#include "tarn/adapters/rocksdb.hpp"

#include <gtest/gtest.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tarn/process.hpp"

namespace {

class rocksdb_database : public testing::Test {
 protected:
  rocksdb_database()
      : folder_(std::filesystem::temp_directory_path() / ("tarn-rocksdb-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~rocksdb_database() override {
    db_.reset();
    cache_.reset();
    std::filesystem::remove_all(folder_);
  }
  void open(std::size_t cache_bytes, std::size_t block_bytes) {
    memory_ = std::make_shared<tarn::rocksdb_block_memory>();
    rocksdb::LRUCacheOptions cache;
    cache.capacity = cache_bytes;
    cache.num_shard_bits = 0;
    cache.memory_allocator = memory_;
    cache_ = rocksdb::NewLRUCache(cache);
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache_;
    table.block_size = block_bytes;
    rocksdb::Options options;
    options.create_if_missing = true;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, folder_.string(), &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  static std::string key(int i) { return "key" + std::to_string(100000 + i); }
  static std::string value(int i) {
    return std::string(300, static_cast<char>('a' + i % 26)) + std::to_string(i);
  }
  void fill(int keys) {
    for (int i = 0; i < keys; ++i) ASSERT_TRUE(db_->Put({}, key(i), value(i)).ok());
    ASSERT_TRUE(db_->Flush({}).ok());
  }
  void read(int keys) {
    std::string found;
    for (int i = 0; i < keys; ++i) {
      ASSERT_TRUE(db_->Get({}, key(i), &found).ok());
      ASSERT_EQ(found, value(i));
    }
  }

  std::filesystem::path folder_;
  std::shared_ptr<tarn::rocksdb_block_memory> memory_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(rocksdb_database, blocks_of_the_cache_lie_in_the_memory_and_leave_it) {
  open(std::size_t{64} << 20U, 4096);
  fill(20000);
  EXPECT_LT(memory_->stats().live_blocks, 5U);  // what the open table keeps
  read(20000);
  const auto full = memory_->stats();
  EXPECT_GT(full.live_blocks, 1000U);
  EXPECT_GT(full.bytes, std::size_t{20000} * 300);
  EXPECT_EQ(std::string(cache_->memory_allocator()->Name()), "tarn::rocksdb_block_memory");
  // The cache charges what the blocks take: at least what they hold, and not more than the memory has.
  EXPECT_GE(cache_->GetUsage(), std::size_t{20000} * 300);
  EXPECT_LE(cache_->GetUsage(), full.bytes + full.live_blocks * 512);
  cache_->SetCapacity(0);
  EXPECT_LT(memory_->stats().live_blocks, 10U);
  memory_->trim();
  EXPECT_LT(memory_->stats().bytes, full.bytes / 4);
}

TEST_F(rocksdb_database, a_small_cache_evicts_under_several_threads) {
  open(std::size_t{1} << 20U, 16384);
  fill(20000);
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) readers.emplace_back([this] { read(20000); });
  for (std::thread& each : readers) each.join();
  EXPECT_LE(memory_->stats().live_blocks, 200U);
}

TEST_F(rocksdb_database, blocks_above_64_kib_are_buffers) {
  open(std::size_t{64} << 20U, std::size_t{256} << 10U);
  fill(10000);
  read(10000);
  std::uint64_t live = 0;
  for (const auto& pool : tarn::buffer_pools()) live += pool.name == "rocksdb blocks" ? pool.stats.live : 0;
  EXPECT_GT(live, 5U);
}

TEST(rocksdb_block_memory, usable_size_is_that_of_the_slot) {
  tarn::rocksdb_block_memory memory;
  for (const std::size_t bytes : {1U, 255U, 257U, 4096U, 4101U, 40000U, 65536U, 65537U, 1000000U}) {
    void* const block = memory.Allocate(bytes);
    const std::size_t usable = memory.UsableSize(block, bytes);
    EXPECT_GE(usable, bytes);
    EXPECT_LE(usable, std::max<std::size_t>(256, bytes + bytes / 16 + 1));
    std::memset(block, 0x5a, usable);
    // RocksDB asks with the size without its trailer.
    EXPECT_GE(memory.UsableSize(block, bytes > 5 ? bytes - 5 : bytes), bytes > 65536 ? bytes - 5 : bytes);
    memory.Deallocate(block);
  }
  memory.Deallocate(nullptr);
  EXPECT_EQ(memory.stats().live_blocks, 0U);
}

TEST(rocksdb_block_memory, misuse_ends_the_process_with_a_message) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  tarn::rocksdb_block_memory memory;
  int local = 0;
  EXPECT_DEATH(memory.Deallocate(&local), "tarn: .*buffer");
  EXPECT_THROW((void)memory.Allocate(std::size_t{1} << 60U), std::bad_alloc);
}

}  // namespace
