// SPDX-License-Identifier: MIT
// Misuse: writes past the end and before the start of a block, and to a block after it was freed, over 1 to 4,096
// bytes. Each case runs in a child. A case is detected if the child ends by SIGABRT, or by a fault of the wrong write
// itself; harmless if it goes on and no block of another owner has changed; a crash if it ends by another signal after
// the wrong write; and harmful otherwise. With MISUSE_CASES=1 the program prints the outcome of each case.
// With libtarn-hardened.so preloaded no case may be harmful or a crash; other allocators are only measured.
#include "misuse.hpp"

using namespace guarantee;

namespace {

constexpr size_t sizes[] = {16, 24, 64, 100, 500, 2000, 10'000, 300'000};
constexpr size_t distances[] = {1, 2, 7, 8, 9, 16, 17, 32, 64, 100, 128, 256, 500, 1024, 2048, 4096};
constexpr size_t others = 60;

enum class misuse { overflow, underflow, use_after_free };
constexpr const char* names[] = {"overflow", "underflow", "use after free"};
enum outcome : int { harmless = 0, harm = 3 };

// Shared with the child: true during the wrong write, so that a fault then comes from a guard page.
volatile bool* writing = nullptr;

// Makes the wrong write. The pointer is volatile, so that the compiler neither removes the write nor calls the C
// library for it.
void write_wrongly(volatile char* from, size_t bytes, int direction) {
  *writing = true;
  for (size_t i = 0; i < bytes; ++i, from = from + direction) *from = 0x41;
  *writing = false;
}

// Blocks of other owners around the misused one: every second one was allocated before it, the others after it (for a
// use after free: after it was freed).
struct neighbours {
  void* blocks[others];
  size_t size;

  void take_every_second(size_t first, size_t of_size) {
    size = of_size;
    for (size_t i = first; i < others; i += 2) {
      blocks[i] = malloc(size);
      if (blocks[i] == nullptr) _exit(not_checkable);
      stamp(blocks[i], i + 1, 0, size);
    }
  }
  bool unchanged(size_t first, size_t step) const {
    for (size_t i = first; i < others; i += step) {
      if (!stamped(blocks[i], i + 1, size)) return false;
    }
    return true;
  }
};

// Returns the outcome, or ends by a signal if the misuse is detected.
int run_case(misuse kind, size_t size, size_t distance) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(silent, 2);
  static neighbours around;
  around.take_every_second(0, size);
  char* const block = static_cast<char*>(hide(malloc(size)));
  around.take_every_second(1, size);
  if (kind == misuse::overflow) write_wrongly(block + size, distance, 1);
  if (kind == misuse::underflow) write_wrongly(block - 1, distance, -1);
  if (kind == misuse::use_after_free) {
    // These blocks may reuse the memory of the freed one.
    free(block);
    for (size_t i = 1; i < others; i += 2) free(around.blocks[i]);
    around.take_every_second(1, size);
    write_wrongly(block, distance < size ? distance : size, 1);
    // Memory that was written after its free is handed out within this many pairs of malloc and free, or never.
    for (size_t i = 0; i < 6000; ++i) free(hide(malloc(size)));
  }
  const bool unchanged = around.unchanged(0, 1);
  if (kind != misuse::use_after_free) free(block);
  for (void* other : around.blocks) free(other);
  return unchanged ? harmless : harm;
}

struct tally {
  int detected = 0;
  int without_effect = 0;
  int harmful = 0;
  int crashed = 0;  // in the allocator, after the wrong write

  void count(misuse kind, size_t size, size_t distance) {
    *writing = false;  // the child of an earlier case may have ended during its wrong write
    const child_result result = run_in_child(60, [=] { return run_case(kind, size, distance); });
    if (result.exited && result.code == not_checkable) skip("no memory for a case");
    const char* verdict = "detected";
    if (result.exited && result.code == harmless) {
      ++without_effect;
      verdict = "without effect";
    } else if (result.exited && result.code == harm) {
      ++harmful;
      verdict = "harm";
    } else if (result.signal != SIGABRT && !*writing) {
      ++crashed;
      verdict = "crash";
    } else {
      ++detected;
    }
    if (getenv("MISUSE_CASES") != nullptr)
      measured("%s of %zu bytes, block of %zu: %s", names[static_cast<int>(kind)], distance, size, verdict);
  }
  void add(const tally& other) {
    detected += other.detected;
    without_effect += other.without_effect;
    harmful += other.harmful;
    crashed += other.crashed;
  }
  void tell(const char* name) const {
    measured("%s: %d cases: %d detected, %d without effect; harm %d, crash %d", name,
             detected + without_effect + harmful + crashed, detected, without_effect, harmful, crashed);
  }
};

}  // namespace

int main() {
  start();
  writing = shared_with_children<bool>();
  tally all;
  for (const misuse kind : {misuse::overflow, misuse::underflow, misuse::use_after_free}) {
    tally of_kind;
    for (const size_t size : sizes) {
      for (const size_t distance : distances) of_kind.count(kind, size, distance);
    }
    of_kind.tell(names[static_cast<int>(kind)]);
    all.add(of_kind);
  }
  all.tell("all");
  // Other allocators promise nothing here and are only measured.
  const char* const preload = getenv("LD_PRELOAD");
  const bool hardened = preload != nullptr && strstr(preload, "hardened") != nullptr;
  if (hardened && all.harmful + all.crashed != 0)
    fail("under the hardened build %d cases do harm, %d crash", all.harmful, all.crashed);
  return holds;
}
