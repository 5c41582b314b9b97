// SPDX-License-Identifier: MIT
// Line 53: a program that replaces operator new(size_t) and operator delete(void*) only, as the standard allows, meets every
// block of the other forms in these two; the same for the two aligned ones. Its blocks have a header, so a form that went
// past them would give back a pointer into a block.
#include <new>

#include "inject.hpp"

using namespace guarantee;

namespace {

constexpr size_t header = 64;
constexpr uint64_t mark = 0x1234567887654321;
constexpr auto over_aligned = std::align_val_t{32};

struct counts {
  size_t made = 0;
  size_t live = 0;
};
counts plain;
counts aligned;

void* make(counts& of, size_t size) {
  auto* const block =
      static_cast<char*>(aligned_alloc(header, (size + header + header - 1) / header * header));
  if (block == nullptr) throw std::bad_alloc();
  memcpy(block, &mark, sizeof mark);
  ++of.made;
  ++of.live;
  return block + header;
}

void destroy(counts& of, void* at) {
  if (at == nullptr) return;
  char* const block = static_cast<char*>(at) - header;
  TARN_CHECK(memcmp(block, &mark, sizeof mark) == 0,
             "operator delete got a block that operator new did not make");
  memset(block, 0, sizeof mark);
  --of.live;
  free(block);
}

bool refuses = false;

// Each form of new with each form of delete that fits: the number of blocks.
size_t use_plain_forms() {
  size_t blocks = 0;
  for (void* (*const allocate)(size_t) : {+[](size_t n) { return ::operator new(n); },
                                          +[](size_t n) { return ::operator new(n, std::nothrow); },
                                          +[](size_t n) { return ::operator new[](n); },
                                          +[](size_t n) { return ::operator new[](n, std::nothrow); }}) {
    for (void (*const release)(void*) :
         {+[](void* p) { ::operator delete(p); }, +[](void* p) { ::operator delete(p, size_t{100}); },
          +[](void* p) { ::operator delete(p, std::nothrow); }, +[](void* p) { ::operator delete[](p); },
          +[](void* p) { ::operator delete[](p, size_t{100}); },
          +[](void* p) { ::operator delete[](p, std::nothrow); }}) {
      release(hide(allocate(100)));
      ++blocks;
    }
  }
  return blocks;
}

size_t use_aligned_forms() {
  constexpr std::align_val_t a = over_aligned;
  size_t blocks = 0;
  for (void* (*const allocate)(size_t) : {+[](size_t n) { return ::operator new(n, a); },
                                          +[](size_t n) { return ::operator new(n, a, std::nothrow); },
                                          +[](size_t n) { return ::operator new[](n, a); },
                                          +[](size_t n) { return ::operator new[](n, a, std::nothrow); }}) {
    for (void (*const release)(void*) :
         {+[](void* p) { ::operator delete(p, a); }, +[](void* p) { ::operator delete(p, size_t{100}, a); },
          +[](void* p) { ::operator delete(p, a, std::nothrow); },
          +[](void* p) { ::operator delete[](p, a); },
          +[](void* p) { ::operator delete[](p, size_t{100}, a); },
          +[](void* p) { ::operator delete[](p, a, std::nothrow); }}) {
      release(hide(allocate(100)));
      ++blocks;
    }
  }
  return blocks;
}

}  // namespace

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // the program leaves that form out on purpose
#endif
void* operator new(size_t size) {
  if (refuses) throw std::bad_alloc();
  return make(plain, size);
}
void operator delete(void* at) noexcept { destroy(plain, at); }
void* operator new(size_t size, std::align_val_t) { return make(aligned, size); }
void operator delete(void* at, std::align_val_t) noexcept { destroy(aligned, at); }

int main() {
  start();
  const size_t before = plain.made;
  const size_t blocks = use_plain_forms();
  TARN_CHECK(plain.made - before == blocks && plain.live == 0,
             "%zu of %zu blocks went through the program's operators", plain.made - before, blocks);
  const size_t aligned_blocks = use_aligned_forms();
  TARN_CHECK(aligned.made == aligned_blocks && aligned.live == 0,
             "%zu of %zu aligned blocks went through the program's operators", aligned.made, aligned_blocks);
  refuses = true;
  TARN_CHECK(::operator new(10, std::nothrow) == nullptr&& ::operator new[](10, std::nothrow) == nullptr,
             "a nothrow form does not return null when the program's operator new throws");
  measured("%zu blocks, all through the program's operators", blocks + aligned_blocks);
  return holds;
}
