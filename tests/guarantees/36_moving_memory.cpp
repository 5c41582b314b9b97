// SPDX-License-Identifier: MIT
// Guarantee 36: no matter which memory call fails, and in what state the kernel then leaves the memory, only the heap's
// own mappings change: blocks that grow keep their bytes, and so do pieces of 64 KiB that another thread maps and
// unmaps at the same time. Each kernel of kernel_emulator.hpp is tested in a process of its own.
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t piece_size = 64 * kib;
constexpr size_t piece_count = 32;
size_t pieces_mapped = 0;
bool stop = false;

// Maps pieces at addresses that the kernel chooses, and checks the content of each before unmapping it.
void* map_pieces(void*) {
  unsigned char* pieces[piece_count] = {};
  for (size_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++i) {
    unsigned char*& piece = pieces[i % piece_count];
    if (piece != nullptr) {
      for (size_t at = 0; at < piece_size; at += 4096) {
        TARN_CHECK(piece[at] == 0xe7, "a mapping of another thread at %p has been overwritten: reads 0x%02x",
                   static_cast<void*>(piece), piece[at]);
      }
      munmap(piece, piece_size);
    }
    piece = own_array<unsigned char>(piece_size);
    for (size_t at = 0; at < piece_size; at += 4096) piece[at] = 0xe7;
    __atomic_fetch_add(&pieces_mapped, 1, __ATOMIC_RELAXED);
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
  return nullptr;
}

void wait_for_pieces() {
  const size_t until = __atomic_load_n(&pieces_mapped, __ATOMIC_RELAXED) + 2 * piece_count;
  for (int i = 0; i < 1000 && __atomic_load_n(&pieces_mapped, __ATOMIC_RELAXED) < until; ++i) sleep_ms(1);
}

// Grows a block as a vector does: to 1.5 times its size, or to the double.
void grow(slot& one, size_t to) {
  void* const block = hide(realloc(one.at, to));
  if (block == nullptr) return one.check("after a refused realloc");
  const slot grown{static_cast<unsigned char*>(block), one.size};
  grown.check("after realloc");
  one = {static_cast<unsigned char*>(block), to};
  one.stamp(to);
}

int grow_beside_pieces(kernel::answer how) {
  const pthread_t neighbour = start_thread(map_pieces, nullptr);
  kernel::let_others_run = wait_for_pieces;
  wait_for_pieces();
  kernel::emulate(how);
  slot halves{};
  slot doubles{};
  slot beside[64] = {};
  TARN_CHECK(halves.fill(600 * kib) && doubles.fill(16 * mib + 300 * kib), "malloc fails");
  for (size_t i = 0; halves.size < 32 * mib; ++i) {
    beside[i % 64].clear("beside blocks that grow");
    beside[i % 64].fill(200 * kib + i * 16 * kib);
    grow(halves, halves.size + halves.size / 2);
    if (i % 6 == 2) grow(doubles, 2 * doubles.size);
  }
  halves.clear("at the end");
  doubles.clear("at the end");
  // Memory that was freed is handed out again: it must be mapped and belong to no other thread.
  for (size_t i = 0; i < 64; ++i) {
    beside[i].clear("beside blocks that have grown");
    beside[i].fill(i * 40 * kib + 1);
  }
  for (slot& one : beside) one.clear("at the end");
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  pthread_join(neighbour, nullptr);
  return holds;
}

}  // namespace

// With a number as argument the program tests only the kernel of that number.
int main(int argc, char** argv) {
  start();
  struct {
    const char* name;
    kernel::answer how;
  } const kernels[] = {
      {"this machine's kernel", kernel::pass},
      {"mremap unmaps its destination and refuses several mappings", kernel::old_mremap},
      {"no mremap succeeds", kernel::no_mremap},
      {"mremap moves a part", kernel::half_moved},
      {"mmap(MAP_FIXED) leaves a hole", kernel::fixed_mmap_leaves_hole},
      {"no munmap succeeds", kernel::no_munmap},
      {"madvise: EPERM", kernel::no_madvise<EPERM>},
      {"madvise: ENOSYS", kernel::no_madvise<ENOSYS>},
      {"madvise: EINVAL", kernel::no_madvise<EINVAL>},
      {"madvise: EAGAIN", kernel::no_madvise<EAGAIN>},
  };
  for (const auto& one : kernels) {
    if (argc > 1 && atoi(argv[1]) != &one - kernels) continue;
    expect_good(run_in_child(100, [&one] { return grow_beside_pieces(one.how); }), one.name);
  }
  measured("this kernel and %zu kinds of failure, no byte lost", sizeof kernels / sizeof *kernels - 1);
  return holds;
}
