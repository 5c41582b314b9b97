// SPDX-License-Identifier: MIT
// adapter_rocksdb default|tarn [KEYS [READS]]: fills a database, reads random keys through a block cache that holds a quarter
// of it, so that blocks come and go all the time, and then empties the cache.
// Known to favour: an allocator that keeps the cache's blocks apart from other blocks, in the last figure.
// Method: the same program and seed with RocksDB's own `new char[]` and with tarn::rocksdb_block_memory. The database lies in
// /tmp or $TMPDIR; compression is off, so that the time is not the compressor's.
// Output: one JSON object: time, calls of operator new and page faults of both phases; cache bytes as RocksDB counts them,
// resident KiB when the cache is full, 6 s after it has been emptied, and after both allocators have been told to give back
// what they can.
#include <malloc.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "tarn/adapters/rocksdb.hpp"
#include "usage.hpp"

namespace {

constexpr std::size_t value_bytes = 400;

std::string key(std::uint32_t number) {
  char text[16];
  const int length = std::snprintf(text, sizeof text, "k%010u", number);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const std::uint32_t keys = count > 2 ? static_cast<std::uint32_t>(std::atoi(arguments[2])) : 400'000;
  const int reads = count > 3 ? std::atoi(arguments[3]) : 400'000;
  if ((mode != "default" && mode != "tarn") || keys == 0) {
    std::fprintf(stderr, "usage: adapter_rocksdb default|tarn [KEYS [READS]]\n");
    return 2;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tarn-bench-rocksdb-" + std::to_string(getpid()));
  std::shared_ptr<tarn::rocksdb_block_memory> memory;
  rocksdb::LRUCacheOptions cache_options;
  cache_options.capacity = keys * value_bytes / 4;
  if (mode == "tarn")
    cache_options.memory_allocator = memory = std::make_shared<tarn::rocksdb_block_memory>();
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(cache_options);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder.string(), &opened);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::unique_ptr<rocksdb::DB> db(opened);

  std::printf("{\"mode\": \"%s\", ", arguments[1]);
  std::mt19937 random(1);
  const bench::usage fill;
  std::string value(value_bytes, 'v');
  rocksdb::WriteOptions without_log;
  without_log.disableWAL = true;
  for (std::uint32_t i = 0; i < keys; ++i) {
    value[i % value_bytes] = static_cast<char>(random());
    db->Put(without_log, key(i), value);
  }
  db->Flush({});
  fill.print("fill");
  const bench::usage read;
  int found = 0;
  for (int i = 0; i < reads; ++i)
    found += db->Get({}, key(static_cast<std::uint32_t>(random() % keys)), &value).ok() ? 1 : 0;
  read.print("read");
  const std::size_t cached = cache->GetUsage();
  const long full = bench::usage::resident_kib();
  cache->SetCapacity(0);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  const long idle = bench::usage::resident_kib();
  if (memory) memory->trim();
  tarn_trim(0);
  malloc_trim(0);
  std::printf(
      "\"found\": %d, \"cache_bytes\": %zu, \"resident_kib\": %ld, \"resident_kib_after_6s\": %ld, "
      "\"resident_kib_trimmed\": %ld}\n",
      found, cached, full, idle, bench::usage::resident_kib());
  db.reset();
  std::filesystem::remove_all(folder);
}
