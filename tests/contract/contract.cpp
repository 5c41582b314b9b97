// SPDX-License-Identifier: MIT
// contract [--quick] [--of PEER] CHECK…: runs checks by name, "all" of them, or "names" to print the names. Each runs
// in a child process of its own. Ends with 0 (the contract holds), 1 (broken) or 77 (one of them cannot be checked
// here).
// --of PEER: the functions are those of another allocator, whose deviations in the list below are expected.
#include "contract.hpp"

using namespace contract;

namespace {

struct check {
  const char* name;
  void (*run)();
};

constexpr check checks[] = {
    {"01_names", one_library_provides_all_names},
    {"01_ownership", every_taker_takes_what_every_giver_gives},
    {"02_alignment", blocks_are_aligned_and_apart},
    {"03_alignment_errors", bad_alignments_are_refused},
    {"04_overflow", impossible_sizes_are_refused},
    {"04_new_handler", new_handler_is_called},
    {"05_zero_size", blocks_of_no_bytes_are_distinct},
    {"06_errno", freeing_keeps_errno},
    {"07_realloc", realloc_keeps_every_byte},
    {"08_calloc", calloc_gives_zeroes},
    {"08_untouched", calloc_leaves_zero_pages_untouched},
};

struct deviation {
  const char* peer;
  const char* check;
  const char* how;
};

// Of Debian 12: glibc 2.36, jemalloc 5.3.0, mimalloc 2.0.9, gperftools 2.10.
constexpr deviation deviations[] = {
    {"glibc", "01_names", "has no cfree and no free_sized; operator new is libstdc++'s"},
    {"glibc", "02_alignment", "pvalloc(0) gives less than a page"},
    {"glibc", "03_alignment_errors", "aligned_alloc accepts an alignment that is no power of two"},
    {"glibc", "04_overflow", "libstdc++'s aligned new of SIZE_MAX bytes succeeds"},
    {"glibc", "04_new_handler", "libstdc++'s aligned new of SIZE_MAX bytes succeeds"},
    {"jemalloc", "01_names", "leaves reallocarray and pvalloc to libc"},
    {"jemalloc", "01_ownership", "leaves pvalloc and cfree to libc, which abort"},
    {"jemalloc", "02_alignment", "valloc(0) is not at a page"},
    {"jemalloc", "03_alignment_errors", "memalign does not set errno"},
    {"jemalloc", "04_overflow", "valloc does not set errno"},
    {"jemalloc", "04_new_handler", "ends the process when a handler throws"},
    {"jemalloc", "05_zero_size", "crashes for a block of libc's pvalloc"},
    {"jemalloc", "06_errno", "leaves cfree to libc, which aborts"},
    {"mimalloc", "01_names", "has no free_sized"},
    {"mimalloc", "01_ownership", "realloc(p, 0) gives a block"},
    {"mimalloc", "02_alignment", "blocks of 256 bytes are not aligned to 256"},
    {"mimalloc", "03_alignment_errors", "aligned_alloc accepts an alignment that is no power of two"},
    {"mimalloc", "04_overflow", "aborts"},
    {"mimalloc", "04_new_handler", "aborts"},
    {"mimalloc", "05_zero_size", "realloc(p, 0) gives a block"},
    {"mimalloc", "07_realloc", "blocks of 256 bytes are not aligned to 256"},
    {"mimalloc", "08_untouched", "calloc writes to memory that is zero"},
    {"tcmalloc", "01_names", "leaves reallocarray to libc"},
    {"tcmalloc", "03_alignment_errors", "aligned_alloc accepts an alignment that is no power of two"},
    {"tcmalloc", "04_overflow", "pvalloc of SIZE_MAX bytes succeeds"},
    {"tcmalloc", "04_new_handler", "nothrow new lets a handler's exception pass"},
    {"tcmalloc", "08_untouched", "calloc writes to memory that is zero"},
};

const char* deviation_of(const char* peer, const char* check) {
  for (const deviation& one : deviations) {
    if (strcmp(one.peer, peer) == 0 && strcmp(one.check, check) == 0) return one.how;
  }
  return nullptr;
}

// Of another allocator, one that was not known to deviate must not, and one that was may have been mended since.
int run(const check& one, const char* peer) {
  const child_result result = run_in_child(60, [&one] {
    one.run();
    return holds;
  });
  const char* const how = deviation_of(peer, one.name);
  if (how == nullptr) expect_good(result, one.name);
  if (how != nullptr && result.good()) measured("%s: this %s no longer deviates: %s", one.name, peer, how);
  return result.exited && result.code == not_checkable ? not_checkable : holds;
}

}  // namespace

int main(int count, char** arguments) {
  start();
  const char* peer = "";
  int status = holds;
  for (int i = 1; i < count; ++i) {
    const char* const argument = arguments[i];
    if (strcmp(argument, "--quick") == 0) {
      quick = true;
      continue;
    }
    if (strcmp(argument, "--of") == 0) {
      peer = arguments[++i];
      continue;
    }
    bool found = false;
    for (const check& one : checks) {
      if (strcmp(argument, "all") != 0 && strcmp(argument, one.name) != 0) continue;
      found = true;
      if (run(one, peer) != holds) status = not_checkable;
    }
    TARN_CHECK(found, "there is no check %s", argument);
  }
  return status;
}
