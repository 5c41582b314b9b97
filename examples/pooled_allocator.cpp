// SPDX-License-Identifier: MIT
// pooled_allocator: an LRU cache of a list and an unordered_map, whose nodes come from pools. One template argument of
// each container changes; their use does not.
#include <tarn/pooled.hpp>

#include <cstdio>
#include <functional>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

class lru_cache {
 public:
  explicit lru_cache(std::size_t capacity) : capacity_(capacity) {}

  const std::string* find(int key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);  // now the newest
    return &found->second->second;
  }
  void put(int key, std::string value) {
    if (entries_.size() == capacity_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    places_[key] = entries_.begin();
  }
  std::size_t size() const { return entries_.size(); }

 private:
  using entry = std::pair<int, std::string>;
  using entry_list = std::list<entry, tarn::pooled_allocator<entry>>;
  using place = std::pair<const int, entry_list::iterator>;

  std::size_t capacity_;
  entry_list entries_;
  std::unordered_map<int, entry_list::iterator, std::hash<int>, std::equal_to<>,
                     tarn::pooled_allocator<place>>
      places_;
};

}  // namespace

int main() {
  lru_cache cache(1000);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    const int key = i % 1500 * (i % 7);
    if (cache.find(key) != nullptr) {
      ++hits;
    } else {
      cache.put(key, "value " + std::to_string(key));
    }
  }
  std::printf("%d hits, %zu entries\n", hits, cache.size());
}
