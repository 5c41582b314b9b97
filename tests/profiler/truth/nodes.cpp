// SPDX-License-Identifier: MIT
// One thread creates messages, another one destroys them: all have one type, live briefly and cross threads. With
// TARN_CHANGED the program follows the advice for it: an object pool.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#ifdef TARN_CHANGED
#include <tarn/pool.hpp>
#endif

namespace {

struct message {
  explicit message(unsigned long n) : number(n) {}
  unsigned long number;
  unsigned long more[11] = {};
};

#ifdef TARN_CHANGED
message* make(unsigned long number) { return tarn::pool_of<message>().create(number); }
void end(message* one) { tarn::pool_of<message>().destroy(one); }
#else
[[gnu::noinline]] message* make(unsigned long number) { return new message(number); }
[[gnu::noinline]] void end(message* one) { delete one; }
#endif

// Messages are handed over in batches, so that the time of the hand-over does not hide the allocator's. `full`: stores
// (release) and loads (acquire) of one thread pair with those of the other.
constexpr std::size_t batch = 1000;
struct hand_over {
  std::vector<message*> messages;
  std::atomic<bool> full{false};
};
hand_over places[4];

}  // namespace

int main(int count, char** words) {
  const int batches = count > 1 ? std::atoi(words[1]) : 8000;
  unsigned long sum = 0;
  std::thread consumer([batches, &sum] {
    for (int index = 0; index < batches; ++index) {
      hand_over& place = places[index % 4];
      while (!place.full.load(std::memory_order_acquire)) std::this_thread::yield();
      for (message* one : place.messages) {
        sum += one->number;
        end(one);
      }
      place.messages.clear();
      place.full.store(false, std::memory_order_release);
    }
  });
  for (int index = 0; index < batches; ++index) {
    hand_over& place = places[index % 4];
    while (place.full.load(std::memory_order_acquire)) std::this_thread::yield();
    for (std::size_t at = 0; at < batch; ++at) place.messages.push_back(make(at));
    place.full.store(true, std::memory_order_release);
  }
  consumer.join();
  std::printf("%lu\n", sum);
}
