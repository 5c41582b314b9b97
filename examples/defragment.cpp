// SPDX-License-Identifier: MIT
// A cache that defragments itself: values come and go in all sizes, most of them go, and the rest would keep the memory of
// all of them. The cache can change its pointers, so it asks tarn which values are worth moving, a batch at a time, and
// moves them into fuller memory.
//
// The only thing it needs to know of the allocator is tarn_would_move_each(). A server would call defragment() with a small
// budget between requests, while tarn_get_stats() says that much more is in use than live.
#include <tarn/malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

struct value {
  std::uint32_t size;
  std::uint32_t key;
  char bytes[1];  // `size` of them
};

// Memory of this process that is in RAM.
double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  long size = 0;
  long resident = 0;
  if (file == nullptr || std::fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class cache {
 public:
  explicit cache(std::size_t slots) : slots_(slots, nullptr) {}
  ~cache() {
    for (value*& one : slots_) drop(one);
  }
  cache(const cache&) = delete;
  cache& operator=(const cache&) = delete;

  void put(std::size_t slot, std::uint32_t size) {
    drop(slots_[slot]);
    auto* const one = static_cast<value*>(tarn_malloc(offsetof(value, bytes) + size));
    if (one == nullptr) return;  // a cache may go without
    *one = {size, static_cast<std::uint32_t>(slot), {}};
    std::memset(one->bytes, static_cast<int>(slot % 251), size);
    slots_[slot] = one;
    live_ += offsetof(value, bytes) + size;
  }
  void drop_slot(std::size_t slot) { drop(slots_[slot]); }

  // Looks at `most` slots from where the last call ended, and moves those that are worth it. Returns how many it moved.
  std::size_t defragment(std::size_t most) {
    constexpr std::size_t batch = 64;
    std::size_t moved = 0;
    for (std::size_t looked = 0; looked < most; looked += batch) {
      const void* blocks[batch];
      unsigned char worth_it[batch];
      for (std::size_t i = 0; i < batch; ++i) blocks[i] = slots_[(next_ + i) % slots_.size()];
      // At most 1.125 times as full as the mean; null is never worth it.
      if (tarn_would_move_each(blocks, batch, 1.125, worth_it) != 0) {
        for (std::size_t i = 0; i < batch; ++i) {
          value*& one = slots_[(next_ + i) % slots_.size()];
          void* const to = worth_it[i] != 0 ? tarn_move(one) : nullptr;
          if (to == nullptr) continue;  // not worth it, or no memory: it stays where it is
          one = static_cast<value*>(to);
          ++moved;
        }
      }
      next_ = (next_ + batch) % slots_.size();
    }
    return moved;
  }

  [[nodiscard]] bool is_whole() const {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const value* const one = slots_[slot];
      if (one == nullptr) continue;
      if (one->key != slot) return false;
      for (std::uint32_t i = 0; i < one->size; ++i) {
        if (one->bytes[i] != static_cast<char>(slot % 251)) return false;
      }
    }
    return true;
  }
  // Of values and slots.
  [[nodiscard]] double live_bytes() const {
    return static_cast<double>(live_) + static_cast<double>(slots_.size() * sizeof(value*));
  }

 private:
  void drop(value*& one) {
    if (one == nullptr) return;
    live_ -= offsetof(value, bytes) + one->size;
    tarn_free(one);
    one = nullptr;
  }

  std::vector<value*> slots_;
  std::size_t next_ = 0;
  std::size_t live_ = 0;
};

void report(const char* when, const cache& values, double before) {
  tarn_trim(0);
  const double resident = resident_bytes() - before;
  std::printf("%s: %.1f MiB live, %.1f MiB resident, %.2f times as much\n", when,
              values.live_bytes() / 1048576, resident / 1048576, resident / values.live_bytes());
}

}  // namespace

int main() {
  constexpr std::size_t count = 640'000;
  const double before = resident_bytes();
  cache values(count);
  std::uint32_t random = 1;
  for (std::size_t slot = 0; slot < count; ++slot) {
    random = random * 1664525 + 1013904223;
    values.put(slot, 20 + (random >> 8) % 600);
  }
  report("filled", values, before);
  for (std::size_t slot = 0; slot < count; ++slot) {
    random = random * 1664525 + 1013904223;
    if ((random >> 8) % 4 != 0) values.drop_slot(slot);
  }
  report("three of four dropped", values, before);
  std::size_t moved = 0;
  for (std::size_t more = 1; more != 0; moved += more) more = values.defragment(count);
  report("defragmented", values, before);
  const double ratio = (resident_bytes() - before) / values.live_bytes();
  std::printf("moved %s values; resident is %s 1.15 times what is live; every value is %s\n",
              moved != 0 ? "some" : "no", ratio <= 1.15 ? "at most" : "more than",
              values.is_whole() ? "whole" : "broken");
}
