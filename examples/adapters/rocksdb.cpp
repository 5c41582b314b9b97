// SPDX-License-Identifier: MIT
// rocksdb: a database whose block cache has memory of its own, so that its size is known and all of it comes back.
// Link: rocksdb, tarn::tarn-api.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "rocksdb.hpp"

namespace {

constexpr int keys = 20000;

std::unique_ptr<rocksdb::DB> open(const std::string& folder, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder, &db);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
  return std::unique_ptr<rocksdb::DB>(db);
}

std::string key(int number) { return "key " + std::to_string(100000 + number); }

}  // namespace

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tarn-example-" + std::to_string(getpid()));
  const auto memory = std::make_shared<tarn::rocksdb_block_memory>();
  rocksdb::LRUCacheOptions options;
  options.capacity = std::size_t{64} << 20U;
  options.memory_allocator = memory;
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(options);
  {
    const std::unique_ptr<rocksdb::DB> db = open(folder.string(), cache);
    for (int i = 0; i < keys; ++i) db->Put({}, key(i), std::string(200, 'v'));
    db->Flush({});
    std::string value;
    int found = 0;
    for (int i = 0; i < keys; ++i) found += db->Get({}, key(i), &value).ok() ? 1 : 0;
    std::printf("%d values found\n", found);
    std::printf("the cache %s\n", memory->stats().bytes >= cache->GetUsage() * 9 / 10
                                      ? "knows the size of its memory"
                                      : "has less memory than it says");
    cache->SetCapacity(0);
    memory->trim();
    std::printf("emptied, it has %s\n",
                memory->stats().bytes < (1U << 20U) ? "less than a MiB" : "more than a MiB");
  }
  std::filesystem::remove_all(folder);
}
