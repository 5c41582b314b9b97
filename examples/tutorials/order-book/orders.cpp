// SPDX-License-Identifier: MIT
// orders: two million messages to an order book. Orders come, rest for a while, and are cancelled.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

struct order {
  std::uint64_t id = 0;
  std::int32_t price = 0;
  std::int32_t quantity = 0;
  std::uint64_t time = 0;
  std::uint32_t account = 0;
};

class book {
 public:
  void add(std::uint64_t id, std::int32_t price) {
    auto one = std::make_unique<order>();
    one->id = id;
    one->price = price;
    orders_[id] = std::move(one);
  }
  std::int32_t cancel(std::uint64_t id) {
    const auto found = orders_.find(id);
    if (found == orders_.end()) return 0;
    const std::int32_t price = found->second->price;
    orders_.erase(found);
    return price;
  }
  std::size_t size() const { return orders_.size(); }

 private:
  std::unordered_map<std::uint64_t, std::unique_ptr<order>> orders_;
};

int main() {
  constexpr std::uint64_t messages = 2'000'000;
  constexpr std::uint64_t resting = 20'000;
  std::mt19937_64 random(7);
  // Each order takes the place of one that has rested for a while, and that is cancelled.
  std::vector<std::uint64_t> cancelled(messages);
  std::vector<std::uint64_t> places(resting);
  for (std::uint64_t i = 0; i < messages; ++i) {
    const std::uint64_t place = i < resting ? i : random() % resting;
    cancelled[i] = places[place];
    places[place] = i;
  }

  const auto begin = std::chrono::steady_clock::now();
  book b;
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    b.add(i, static_cast<std::int32_t>(i % 1000));
    if (i >= resting) sum += b.cancel(cancelled[i]);
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  std::printf("%zu orders left, checksum %lld\n", b.size(), static_cast<long long>(sum));
  std::printf("%.0f ns per message\n", time.count() / static_cast<double>(messages));
}
