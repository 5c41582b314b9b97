// SPDX-License-Identifier: MIT
// Line 9: model test. Threads allocate, resize, hand over and free blocks at random. The model knows the size and the
// stamp of every live block, and every byte of a block is checked when it is resized, handed over or freed, by the
// thread that holds it then. This finds blocks that overlap, lost bytes and callocs that are not zero.
#include <malloc.h>

#include <atomic>
#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t thread_count = 4;
constexpr size_t own_slots = 3000;
constexpr size_t shared_slots = 1024;

// What the model knows of a block. Records lie outside the heap and are reused by the thread that frees the block.
struct record {
  void* start;
  size_t size;
  uint64_t seed;
  bool has_other_size;  // from memalign or realloc, which sized delete does not fit
  record* next_free;
};

std::atomic<record*> shared[shared_slots];
std::atomic<size_t> operations{0};
size_t operations_wanted = 0;

class worker {
 public:
  explicit worker(uint64_t number) : random_(number * 7919 + 9), number_(number) {
    slots_ = own_array<record*>(own_slots);
    records_ = own_array<record>(record_count);
  }

  void run() {
    const size_t share = operations_wanted / thread_count;
    for (size_t i = 0; i < share; ++i) step();
    for (size_t i = 0; i < own_slots; ++i) release(slots_[i]);
    operations.fetch_add(share, std::memory_order_relaxed);
  }

  void release(record*& r) {
    if (r == nullptr) return;
    check(*r);
    switch (r->seed % 3) {
      case 0: free(r->start); break;
      case 1: ::operator delete(r->start); break;
      default: r->has_other_size ? free(r->start) : ::operator delete(r->start, r->size); break;
    }
    give_back(r);
    r = nullptr;
  }

 private:
  static constexpr size_t record_count = own_slots + shared_slots + 64;

  void step() {
    record*& mine = slots_[random_.below(own_slots)];
    const size_t choice = random_.below(100);
    if (choice < 25) {
      exchange(mine);
    } else if (mine == nullptr) {
      mine = allocate();
    } else if (choice < 45) {
      resize(*mine);
    } else {
      release(mine);
    }
  }

  // Takes a record that this thread has got with another thread's block, or else one of its own array. Null if none is
  // left.
  record* fresh_record() {
    if (free_records_ != nullptr) {
      record* const r = free_records_;
      free_records_ = r->next_free;
      return r;
    }
    return used_records_ < record_count ? &records_[used_records_++] : nullptr;
  }
  void give_back(record* r) {
    r->next_free = free_records_;
    free_records_ = r;
  }

  // Mostly small sizes, as in programs: one in 500 is above 64 KiB, one in 20,000 above 1 MiB.
  size_t random_size() {
    const size_t kind = random_.below(20'000);
    if (kind == 0) return random_.below(4 * mib) + 1;
    if (kind < 40) return random_.below(256 * kib) + 1;
    if (kind < 600) return random_.below(16 * kib) + 1;
    if (kind < 4000) return random_.below(1024) + 1;
    return random_.below(160);
  }

  record* allocate() {
    record* const r = fresh_record();
    if (r == nullptr) return nullptr;
    r->size = random_size();
    r->seed = ++seed_ * thread_count + number_;
    const size_t kind = random_.below(8);
    r->has_other_size = kind == 1;
    switch (kind) {
      case 0:
        r->start = calloc(1, r->size);
        TARN_CHECK(r->start != nullptr, "calloc of %zu bytes fails", r->size);
        TARN_CHECK(first_nonzero(r->start, r->size) == r->size, "calloc(%zu) at %p is not zero", r->size,
                   r->start);
        break;
      case 1: r->start = memalign(size_t{16} << random_.below(9), r->size); break;
      case 2: r->start = ::operator new(r->size); break;
      default: r->start = malloc(r->size); break;
    }
    TARN_CHECK(r->start != nullptr, "a request of %zu bytes fails", r->size);
    stamp(r->start, r->seed, 0, r->size);
    return r;
  }

  void resize(record& r) {
    check(r);
    const size_t size = random_size() + 1;
    void* const moved = realloc(r.start, size);
    TARN_CHECK(moved != nullptr, "realloc from %zu to %zu fails", r.size, size);
    const size_t kept = r.size < size ? r.size : size;
    TARN_CHECK(stamped(moved, r.seed, kept), "realloc from %zu to %zu loses bytes", r.size, size);
    stamp(moved, r.seed, kept, size);
    r.start = moved;
    r.size = size;
    r.has_other_size = true;
  }

  // Ownership of a block passes with the exchange. Release publishes the stamps; acquire, its partner in the other
  // thread's exchange, sees them.
  void exchange(record*& mine) {
    mine = shared[random_.below(shared_slots)].exchange(mine, std::memory_order_acq_rel);
    if (mine != nullptr) check(*mine);
  }

  static void check(const record& r) {
    const size_t wrong = first_difference(r.start, r.seed, r.size);
    TARN_CHECK(wrong == r.size, "byte %zu of the block of %zu bytes at %p changed under its owner", wrong,
               r.size, r.start);
  }

  random_numbers random_;
  uint64_t number_;
  uint64_t seed_ = 0;
  record** slots_;
  record* records_;
  size_t used_records_ = 0;
  record* free_records_ = nullptr;
};

void* run_worker(void* argument) {
  static_cast<worker*>(argument)->run();
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  start();
  operations_wanted = long_run() ? 1'000'000'000 : 10'000'000;
  if (count > 1) operations_wanted = strtoul(arguments[1], nullptr, 10);
  worker workers[thread_count] = {worker{0}, worker{1}, worker{2}, worker{3}};
  pthread_t threads[thread_count];
  for (size_t i = 0; i < thread_count; ++i) threads[i] = start_thread(run_worker, &workers[i]);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  for (auto& place : shared) {
    record* left = place.exchange(nullptr, std::memory_order_acquire);
    workers[0].release(left);
  }
  measured("%zu operations in %zu threads", operations.load(), thread_count);
  return holds;
}
