// SPDX-License-Identifier: MIT
// misuse: runs one wrong use of the heap in a child process and judges the outcome.
// Owner: the misuse_* programs. Thread safety: none; the programs have one thread when they call it.
// Invariant: a case is good if the child either ends by SIGABRT with one line on stderr that names the pointer, or goes
// on and no_harm() finds nothing wrong: no address handed out twice, no overlap, no live block changed, no address
// outside the heap.
#pragma once

#include <malloc.h>

#include <atomic>

#include "check.hpp"

namespace guarantee {

// What a child tells its parent, in a shared page.
struct misuse_record {
  const void* pointer;  // the one that is misused
};
inline misuse_record* current_misuse = nullptr;

// Records the pointer of the wrong call that follows, and hides it from the optimiser.
inline void* misused(void* pointer) {
  current_misuse->pointer = pointer;
  return hide(pointer);
}

struct forbidden_range {
  const char* what;
  const char* from;
  const char* to;
};

// ---- the oracle ----

// Live blocks, allocated and stamped before the misuse, which must not change them.
class bystanders {
 public:
  void allocate(size_t size) {
    for (size_t i = 0; i < count; ++i) {
      sizes_[i] = i % 3 == 0 ? size : i % 3 == 1 ? size / 2 + 1 : size + size / 3 + 1;
      blocks_[i] = malloc(sizes_[i]);
      TARN_CHECK(blocks_[i] != nullptr, "malloc(%zu) fails", sizes_[i]);
      stamp(blocks_[i], i + 1, 0, sizes_[i]);
    }
  }
  void check(const char* when) const {
    for (size_t i = 0; i < count; ++i) {
      TARN_CHECK(stamped(blocks_[i], i + 1, sizes_[i]), "%s: the live block %p of %zu bytes has changed",
                 when, blocks_[i], sizes_[i]);
    }
  }
  void free_all() {
    for (void* block : blocks_) free(block);
  }

  static constexpr size_t count = 12;
  void* blocks_[count];
  size_t sizes_[count];
};

struct harm_search {
  size_t size;                       // of the block that was misused
  const forbidden_range* forbidden;  // memory outside the heap
  size_t forbidden_count;
};

inline int blocks_by_address(const void* left, const void* right) {
  const uintptr_t a = *static_cast<const uintptr_t*>(left);
  const uintptr_t b = *static_cast<const uintptr_t*>(right);
  return (a > b) - (a < b);
}

struct found_block {
  uintptr_t start;
  size_t size;
  uint64_t seed;
};

inline void check_apart(found_block* blocks, size_t count) {
  qsort(blocks, count, sizeof *blocks, blocks_by_address);
  for (size_t i = 1; i < count; ++i) {
    TARN_CHECK(blocks[i].start != blocks[i - 1].start, "0x%lx is handed out twice", blocks[i].start);
    TARN_CHECK(blocks[i - 1].start + blocks[i - 1].size <= blocks[i].start,
               "0x%lx (%zu bytes) and 0x%lx overlap", blocks[i - 1].start, blocks[i - 1].size,
               blocks[i].start);
  }
}

inline void check_owned(const harm_search& search, const found_block& block) {
  for (size_t i = 0; i < search.forbidden_count; ++i) {
    const forbidden_range& range = search.forbidden[i];
    const bool outside = block.start + block.size <= reinterpret_cast<uintptr_t>(range.from) ||
                         reinterpret_cast<uintptr_t>(range.to) <= block.start;
    TARN_CHECK(outside, "malloc(%zu) hands out 0x%lx, %s", block.size, block.start, range.what);
  }
}

// Allocates many blocks of about the misused size, all live at the same time, stamps and checks them.
inline void allocate_and_judge(const harm_search& search) {
  const size_t count = search.size <= 4096       ? 4000
                       : search.size <= 32 * kib ? 300
                       : search.size <= mib      ? 24
                                                 : 5;
  found_block* const blocks = own_array<found_block>(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t size = i % 4 == 3 ? search.size / 2 + 1 : search.size;
    void* const block = i % 16 == 0 ? calloc(1, size) : malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails after the misuse", size);
    if (i % 16 == 0) TARN_CHECK(first_nonzero(block, size) == size, "calloc(%zu) is not zero", size);
    blocks[i] = {reinterpret_cast<uintptr_t>(block), size, i + 1000};
    check_owned(search, blocks[i]);
    stamp(block, blocks[i].seed, 0, size);
  }
  check_apart(blocks, count);
  for (size_t i = 0; i < count; ++i) {
    void* const block = reinterpret_cast<void*>(blocks[i].start);
    TARN_CHECK(stamped(block, blocks[i].seed, blocks[i].size), "the content of the live block %p has changed",
               block);
  }
  for (size_t i = 0; i < count; ++i) free(reinterpret_cast<void*>(blocks[i].start));
  munmap(blocks, count * sizeof *blocks);
}

inline void* judge_in_thread(void* search) {
  allocate_and_judge(*static_cast<const harm_search*>(search));
  return nullptr;
}

// Allocates in this thread, in another one and, after a trim, in both at the same time: errors that one thread's cache
// hides show when other threads get its objects.
inline void no_harm(harm_search search) {
  allocate_and_judge(search);
  pthread_join(start_thread(judge_in_thread, &search), nullptr);
  malloc_trim(0);
  const pthread_t other = start_thread(judge_in_thread, &search);
  allocate_and_judge(search);
  pthread_join(other, nullptr);
}

// ---- the verdict ----

struct misuse_tally {
  int detected = 0;  // aborted with the line that names the pointer
  int harmless = 0;
  int harm = 0;
  int crashed = 0;
  int hung = 0;
  int unnamed = 0;  // aborted otherwise
};

inline bool names_pointer(const char* text, const void* pointer) {
  char number[32];
  snprintf(number, sizeof number, "%lx", reinterpret_cast<uintptr_t>(pointer));
  return strstr(text, number) != nullptr;
}

inline void judge(const char* name, const child_result& result, const char* text, misuse_tally& tally) {
  const char* const newline = strchr(text, '\n');
  constexpr const char* emulators_line =
      "qemu: uncaught target signal";  // the line that qemu-user prints after the program's own
  const bool one_line = newline != nullptr && (newline[1] == '\0' || strncmp(newline + 1, emulators_line,
                                                                             strlen(emulators_line)) == 0);
  const char* verdict = nullptr;
  if (result.exited && result.code == holds) {
    ++tally.harmless;
    return;
  }
  if (result.exited && result.code == not_checkable) _exit(not_checkable);
  if (result.hung()) {
    verdict = "hangs";
    ++tally.hung;
  } else if (result.exited) {
    verdict = "does harm";
    ++tally.harm;
  } else if (result.signal != SIGABRT) {
    verdict = "crashes";
    ++tally.crashed;
  } else if (!one_line) {
    verdict = "aborts, but not with one line";
    ++tally.unnamed;
  } else if (!names_pointer(text, current_misuse->pointer)) {
    verdict = "aborts, but its message does not name the pointer";
    ++tally.unnamed;
  } else {
    ++tally.detected;
    return;
  }
  char line[700];
  snprintf(line, sizeof line, "BROKEN: %s: %s (pointer %p, signal %d) %.400s", name, verdict,
           current_misuse->pointer, result.signal, text);
  const size_t length = strcspn(line, "\n");
  line[length] = '\n';
  if (write(2, line, length + 1) < 0) return;
}

// Runs `body` in a child and reads its stderr. After a bad case the program goes on with the next one.
template <typename function>
void misuse_case(const char* name, misuse_tally& tally, function body) {
  if (current_misuse == nullptr) current_misuse = shared_with_children<misuse_record>();
  current_misuse->pointer = nullptr;
  char text[1024];
  const child_result result = run_and_hear(20, text, [&] {
    body();
    return holds;
  });
  judge(name, result, text, tally);
}

inline int finish(const misuse_tally& tally) {
  const int good = tally.detected + tally.harmless;
  const int bad = tally.harm + tally.crashed + tally.hung + tally.unnamed;
  measured("%d cases: %d detected, %d without effect; harm %d, crash %d, hang %d, abort without the line %d",
           good + bad, tally.detected, tally.harmless, tally.harm, tally.crashed, tally.hung, tally.unnamed);
  return bad == 0 ? holds : broken;
}

}  // namespace guarantee
