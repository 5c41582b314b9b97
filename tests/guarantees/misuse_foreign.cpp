// SPDX-License-Identifier: MIT
// Misuse, fast build: free, realloc or delete of a pointer that is not from the heap does no harm: to the stack, static
// data, code, memory that the program has mapped, unmapped and non-canonical addresses, small integers, memory between
// the allocator's blocks.
#include <new>

#include "misuse.hpp"

using namespace guarantee;

namespace {

alignas(64) char static_memory[64 * kib];
const char constant_memory[64] = "text";
char* mapped_memory = nullptr;
char* reserved_memory = nullptr;

struct way {
  const char* name;
  void (*act)(void* pointer);
};

constexpr way ways[] = {
    {"free", [](void* pointer) { free(misused(pointer)); }},
    {"free twice",
     [](void* pointer) {
       free(misused(pointer));
       free(misused(pointer));
     }},
    {"realloc",
     [](void* pointer) {
       void* const moved = realloc(misused(pointer), 300);
       if (moved != nullptr && moved != pointer) stamp(moved, 3, 0, 300);
     }},
    {"delete", [](void* pointer) { ::operator delete(misused(pointer)); }},
    {"sized delete", [](void* pointer) { ::operator delete(misused(pointer), 64); }},
};

struct target {
  const char* name;
  void* (*pointer)(char* stack);
};

constexpr target targets[] = {
    {"the stack", [](char* stack) -> void* { return stack + 64; }},
    {"the stack, misaligned", [](char* stack) -> void* { return stack + 67; }},
    {"static memory", [](char*) -> void* { return static_memory + 4096; }},
    {"static memory, misaligned", [](char*) -> void* { return static_memory + 4097; }},
    {"constants", [](char*) -> void* { return const_cast<char*>(constant_memory); }},
    {"code",
     [](char*) -> void* { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&run_again) & ~15UL); }},
    {"mapped memory", [](char*) -> void* { return mapped_memory; }},
    {"the middle of mapped memory", [](char*) -> void* { return mapped_memory + 2 * mib + 64; }},
    {"reserved memory", [](char*) -> void* { return reserved_memory + 4 * mib; }},
    {"address 16", [](char*) -> void* { return reinterpret_cast<void*>(16); }},
    {"address 4096", [](char*) -> void* { return reinterpret_cast<void*>(4096); }},
    {"the end of user space", [](char*) -> void* { return reinterpret_cast<void*>(0x7ffffffff000UL); }},
    {"a non-canonical address", [](char*) -> void* { return reinterpret_cast<void*>(0x4141414141414140UL); }},
    {"the highest address", [](char*) -> void* { return reinterpret_cast<void*>(~15UL); }},
    {"past a small block's end", [](char*) -> void* { return static_cast<char*>(malloc(64)) + 64 + 8; }},
    {"past a large block's end",
     [](char*) -> void* {
       char* const block = static_cast<char*>(malloc(5 * mib));
       return block + malloc_usable_size(block);
     }},
    {"before a large block", [](char*) -> void* { return static_cast<char*>(malloc(5 * mib)) - 16; }},
};

void run_case(const way& w, const target& t, misuse_tally& tally) {
  char name[128];
  snprintf(name, sizeof name, "%s of a pointer to %s", w.name, t.name);
  misuse_case(name, tally, [&w, &t] {
    alignas(64) char stack[4096];
    stamp(stack, 1, 0, sizeof stack);
    stamp(static_memory, 2, 0, sizeof static_memory);
    stamp(mapped_memory, 3, 0, 4 * mib);
    const forbidden_range forbidden[] = {
        {"the stack", stack, stack + sizeof stack},
        {"static memory", static_memory, static_memory + sizeof static_memory},
        {"constants", constant_memory, constant_memory + sizeof constant_memory},
        {"memory that the program mapped", mapped_memory, mapped_memory + 4 * mib},
        {"memory that the program reserved", reserved_memory, reserved_memory + 8 * mib},
    };
    bystanders live;
    live.allocate(64);
    w.act(t.pointer(hide(&stack[0])));
    live.check("after the foreign free");
    for (const size_t size : {size_t{64}, size_t{1000}, size_t{32}, 300 * kib, 5 * mib}) {
      no_harm({size, forbidden, sizeof forbidden / sizeof *forbidden});
    }
    TARN_CHECK(stamped(stack, 1, sizeof stack), "the stack has been written to");
    TARN_CHECK(stamped(static_memory, 2, sizeof static_memory), "static memory has been written to");
    TARN_CHECK(stamped(mapped_memory, 3, 4 * mib), "mapped memory has been written to");
    live.check("after allocating more");
    live.free_all();
  });
}

}  // namespace

int main() {
  start();
  mapped_memory = own_array<char>(4 * mib);
  reserved_memory = static_cast<char*>(mmap(nullptr, 8 * mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  misuse_tally tally;
  for (const target& t : targets) {
    for (const way& w : ways) run_case(w, t, tally);
  }
  return finish(tally);
}
