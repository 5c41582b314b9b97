// SPDX-License-Identifier: MIT
// The program that ./dev run measures: a service as many are. Clients hand over orders as JSON, workers parse them, keep the
// newest documents in a cache that all workers share, and answer in JSON. Most of its time is memory: an order is some
// fifty blocks of 16 to 200 bytes, allocated by one thread and, when the cache drops it, mostly freed by another.
// It prints a checksum, which is the same in every run.
#include <array>
#include <cstdint>
#include <cstdio>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using nlohmann::json;

constexpr int clients = 4;
constexpr int orders_of_client = 24'000;
constexpr int most_cached = 16'000;
constexpr std::array goods = {
    "anvil", "bellows", "chisel", "drawing knife", "engraver's block of pear wood", "file, half round",
    "gouge", "hammer"};

// The newest orders, by number; the oldest is dropped for a new one.
class order_cache {
 public:
  void put(std::uint32_t number, json order) {
    std::list<entry> dropped;  // ends outside the lock
    const std::lock_guard lock(mutex_);
    entries_.emplace_front(number, std::move(order));
    places_[number] = entries_.begin();
    if (entries_.size() <= most_cached) return;
    places_.erase(entries_.back().first);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }

 private:
  using entry = std::pair<std::uint32_t, json>;
  std::mutex mutex_;
  std::list<entry> entries_;
  std::unordered_map<std::uint32_t, std::list<entry>::iterator> places_;
};

std::string order_text(std::uint32_t number, std::minstd_rand& random) {
  std::string text = R"({"number":)" + std::to_string(number) + R"(,"customer":{"name":"customer )" +
                     std::to_string(random() % 5000) + R"(","address":"Mill Lane )" +
                     std::to_string(random() % 200) + R"(, Upper Harbour"},"lines":[)";
  const std::uint32_t lines = 1 + random() % 8;
  for (std::uint32_t line = 0; line < lines; ++line) {
    text += R"({"article":")" + std::string(goods[random() % goods.size()]) + R"(","count":)" +
            std::to_string(1 + random() % 9) + R"(,"price":)" + std::to_string(100 + random() % 9000) + "}";
    text += line + 1 < lines ? "," : "]}";
  }
  return text;
}

std::int64_t serve(const std::string& request, order_cache& cache) {
  json order = json::parse(request);
  std::int64_t total = 0;
  for (const json& line : order.at("lines"))
    total += line.at("count").get<std::int64_t>() * line.at("price").get<std::int64_t>();
  order["total"] = total;
  const json answer = {{"number", order.at("number")}, {"total", total}, {"customer", order.at("customer")}};
  const std::string text = answer.dump();
  const auto number = order.at("number").get<std::uint32_t>();
  cache.put(number, std::move(order));
  return total + static_cast<std::int64_t>(text.size());
}

std::int64_t run_client(std::uint32_t client, order_cache& cache) {
  std::minstd_rand random(client + 1);
  std::int64_t sum = 0;
  for (std::uint32_t order = 0; order < orders_of_client; ++order)
    sum += serve(order_text(client * orders_of_client + order, random), cache);
  return sum;
}

}  // namespace

int main() {
  order_cache cache;
  std::array<std::int64_t, clients> sums = {};
  std::vector<std::thread> threads;
  for (std::uint32_t client = 0; client < clients; ++client)
    threads.emplace_back([&, client] { sums[client] = run_client(client, cache); });
  for (std::thread& thread : threads) thread.join();
  std::int64_t sum = 0;
  for (const std::int64_t one : sums) sum += one;
  std::printf("%lld\n", static_cast<long long>(sum));
}
