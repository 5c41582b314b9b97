// SPDX-License-Identifier: MIT
// Misuse, hardened build: a size that operator delete or free_sized gets is not that of the block, and a size is asked of a
// pointer into a block. Each case ends the process with one line; every form of new goes with every form of delete that
// names the right size.
#include <new>

#include "misuse.hpp"

// C23; older libc's have no declaration.
extern "C" void free_sized(void* block, size_t size) __attribute__((weak));

using namespace guarantee;

namespace {

using std::align_val_t;

void use_right_sizes() {
  for (const size_t size :
       {0UL, 1UL, 15UL, 16UL, 24UL, 1016UL, 1017UL, 5000UL, 262'136UL, 300'000UL, 5'000'000UL}) {
    operator delete(hide(operator new(size)), size);
    operator delete[](hide(operator new[](size)), size);
    operator delete(hide(operator new(size, std::nothrow)), size);
    for (const size_t alignment : {1UL, 8UL, 16UL, 64UL, 4096UL, 65'536UL}) {
      operator delete(hide(operator new(size, align_val_t(alignment))), size, align_val_t(alignment));
      operator delete[](hide(operator new[](size, align_val_t(alignment))), size, align_val_t(alignment));
    }
  }
}

void new_as(size_t made, size_t named) { operator delete(misused(operator new(made)), named); }
void new_array_as(size_t made, size_t named) { operator delete[](misused(operator new[](made)), named); }
void new_aligned_as(size_t made, size_t named, size_t alignment) {
  operator delete(misused(operator new(made, align_val_t(alignment))), named, align_val_t(alignment));
}

}  // namespace

int main() {
  start();
  use_right_sizes();
  misuse_tally tally;
  misuse_case("delete of a char as 32 bytes", tally, [] { new_as(1, 32); });
  misuse_case("delete of 32 bytes as a char", tally, [] { new_as(32, 1); });
  misuse_case("delete[] of 300,000 bytes as 500,000", tally, [] { new_array_as(300'000, 500'000); });
  misuse_case("delete of 64 bytes, aligned, as 128", tally, [] { new_aligned_as(64, 128, 64); });
  misuse_case("delete of 16,384 bytes, aligned, as 16,374", tally,
              [] { new_aligned_as(16'384, 16'374, 8192); });
  if (free_sized != nullptr)
    misuse_case("free_sized of 16 bytes as 100", tally, [] { free_sized(misused(malloc(16)), 100); });
  misuse_case("size of a pointer into a block", tally, [] {
    char* const block = static_cast<char*>(malloc(16));
    malloc_usable_size(misused(block + 1));
  });
  if (tally.harmless != 0) fail("%d cases go on", tally.harmless);
  return finish(tally);
}
