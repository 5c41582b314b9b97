// SPDX-License-Identifier: MIT
// A limit order book: a million orders are matched, with tarn's pools and with plain new and std::allocator.
//
// What to look at: `order` gets its pool from one base class, the containers get theirs from one template argument;
// nothing else in the book knows about memory. Orders come, rest for a while at their price and go, which is what pools
// are good at. Prints the trades, a checksum of them that must be the same for both, and the time per message.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tarn/pool.hpp>
#include <tarn/pooled.hpp>

namespace {

enum class side : std::uint8_t { buy, sell };

struct message {
  std::uint64_t id;  // of the new order, or of the one to cancel
  std::int32_t price;
  std::int32_t quantity;  // 0: cancel
  side which;
};

// ---- the two ways to get memory ----

// Orders of one price stand in line, first come first served.
template <class Order>
struct order_fields {
  std::uint64_t id;
  std::int32_t price;
  std::int32_t quantity;
  side which;
  Order* previous = nullptr;
  Order* next = nullptr;
};

struct plain_order : order_fields<plain_order> {};
struct pooled_order : order_fields<pooled_order>, tarn::pooled<pooled_order> {};

struct plain_memory {
  using order = plain_order;
  template <class T>
  using allocator = std::allocator<T>;
};
struct pooled_memory {
  using order = pooled_order;
  template <class T>
  using allocator = tarn::pooled_allocator<T>;
};

// ---- the book ----

struct trades {
  std::uint64_t count = 0;
  std::uint64_t volume = 0;
  std::uint64_t checksum = 14695981039346656037U;

  void add(std::uint64_t maker, std::uint64_t taker, std::int32_t price, std::int32_t quantity) {
    ++count;
    volume += static_cast<std::uint64_t>(quantity);
    for (const std::uint64_t word : {maker, taker, std::uint64_t(price), std::uint64_t(quantity)}) {
      checksum = (checksum ^ word) * 1099511628211U;
    }
  }
};

template <class Memory>
class book {
 public:
  void handle(const message& m) {
    if (m.quantity == 0) {
      cancel(m.id);
    } else if (m.which == side::buy) {
      submit(m, asks_, bids_, std::less_equal<>());
    } else {
      submit(m, bids_, asks_, std::greater_equal<>());
    }
  }

  [[nodiscard]] const trades& done() const { return done_; }
  [[nodiscard]] std::size_t resting() const { return orders_.size(); }

 private:
  using order = typename Memory::order;
  struct level {
    order* first = nullptr;
    order* last = nullptr;
  };
  template <class Better>
  using levels = std::map<std::int32_t, level, Better,
                          typename Memory::template allocator<std::pair<const std::int32_t, level>>>;
  using order_index = std::unordered_map<
      std::uint64_t, std::unique_ptr<order>, std::hash<std::uint64_t>, std::equal_to<>,
      typename Memory::template allocator<std::pair<const std::uint64_t, std::unique_ptr<order>>>>;

  template <class Opposite, class Own, class Crosses>
  void submit(const message& m, Opposite& opposite, Own& own, Crosses crosses) {
    std::int32_t left = m.quantity;
    while (left > 0 && !opposite.empty() && crosses(opposite.begin()->first, m.price)) {
      order* const maker = opposite.begin()->second.first;
      const std::int32_t quantity = std::min(left, maker->quantity);
      done_.add(maker->id, m.id, maker->price, quantity);
      left -= quantity;
      maker->quantity -= quantity;
      if (maker->quantity == 0) remove(opposite, maker);
    }
    if (left > 0) rest(own, m, left);
  }

  template <class Own>
  void rest(Own& own, const message& m, std::int32_t quantity) {
    auto added = std::make_unique<order>();
    added->id = m.id;
    added->price = m.price;
    added->quantity = quantity;
    added->which = m.which;
    level& line = own[m.price];
    added->previous = line.last;
    (line.last != nullptr ? line.last->next : line.first) = added.get();
    line.last = added.get();
    orders_.emplace(m.id, std::move(added));
  }

  void cancel(std::uint64_t id) {
    const auto found = orders_.find(id);
    if (found == orders_.end()) return;  // it has been matched meanwhile
    order* const gone = found->second.get();
    if (gone->which == side::buy) {
      remove(bids_, gone);
    } else {
      remove(asks_, gone);
    }
  }

  template <class Levels>
  void remove(Levels& from, order* gone) {
    const auto at = from.find(gone->price);
    (gone->previous != nullptr ? gone->previous->next : at->second.first) = gone->next;
    (gone->next != nullptr ? gone->next->previous : at->second.last) = gone->previous;
    if (at->second.first == nullptr) from.erase(at);
    orders_.erase(gone->id);
  }

  levels<std::greater<>> bids_;
  levels<std::less<>> asks_;
  order_index orders_;
  trades done_;
};

// ---- the stream ----

// A million orders around a price that wanders; for every three of them, one cancellation of a recent one.
std::vector<message> make_stream(std::size_t orders) {
  std::mt19937_64 random(20);
  std::vector<message> stream;
  stream.reserve(orders + orders / 3);
  std::int32_t middle = 100000;
  for (std::uint64_t id = 1; id <= orders; ++id) {
    if (random() % 64 == 0) middle += static_cast<std::int32_t>(random() % 21) - 10;
    const auto which = random() % 2 == 0 ? side::buy : side::sell;
    // Most rest behind the middle, some cross it.
    const auto distance = static_cast<std::int32_t>(random() % 400) - 40;
    const auto price = which == side::buy ? middle - distance : middle + distance;
    stream.push_back({id, price, static_cast<std::int32_t>(random() % 500) + 1, which});
    if (id % 3 == 0) stream.push_back({id - std::min(id, random() % 30000), 0, 0, side::buy});
  }
  return stream;
}

struct run_result {
  trades done;
  std::size_t resting;
  double seconds;
};

template <class Memory>
run_result run(const std::vector<message>& stream) {
  const auto begin = std::chrono::steady_clock::now();
  book<Memory> b;
  for (const message& m : stream) b.handle(m);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {b.done(), b.resting(), time.count()};
}

}  // namespace

int main() {
  constexpr std::size_t orders = 1'000'000;
  constexpr int rounds = 3;
  const std::vector<message> stream = make_stream(orders);
  run_result pooled{}, plain{};
  double best_pooled = 1e9, best_plain = 1e9;
  for (int round = 0; round < rounds; ++round) {
    pooled = run<pooled_memory>(stream);
    plain = run<plain_memory>(stream);
    best_pooled = std::min(best_pooled, pooled.seconds);
    best_plain = std::min(best_plain, plain.seconds);
  }
  const tarn::pool_stats pool = tarn::pool_of<pooled_order>().stats();
  std::printf("%zu messages: %llu trades, volume %llu, %zu orders left, checksum %016llx\n", stream.size(),
              static_cast<unsigned long long>(pooled.done.count),
              static_cast<unsigned long long>(pooled.done.volume), pooled.resting,
              static_cast<unsigned long long>(pooled.done.checksum));
  std::printf("pool of orders: at most about %zu at once\n", pool.peak);
  const double per_message = 1e9 / static_cast<double>(stream.size());
  std::printf("pooled %.1f ns per message, plain %.1f\n", best_pooled * per_message,
              best_plain * per_message);
  if (pooled.done.checksum == plain.done.checksum && pooled.resting == plain.resting) return EXIT_SUCCESS;
  std::fprintf(stderr, "the two books differ\n");
  return EXIT_FAILURE;
}
