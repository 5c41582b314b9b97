// SPDX-License-Identifier: MIT
// Guarantee 46: with default options, a program that misuses every block of a size is ended within 100,000 allocations
// of that size, with a report that names the misuse. Checked in 10 processes each, for overflows and underflows at
// distances of 1 to 4,096 bytes and uses after free, with sizes up to the largest that is sampled. A program without
// misuse is not ended.
//
// A misuse is a write whose effect lasts until the block is freed, or a read. A read is found if it leaves the pages of
// the block, that is, from 16 bytes after its end. Not found are reads of the up to 15 bytes after it that alignment
// leaves, and reads before the block in its first page: only every fourth block of a class begins at a guard.
#include "../system_probes.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int allocations = 100'000;
constexpr int processes = 10;

enum class misuse { none, overflow, underflow, use_after_free, late_use_after_free };
enum class access { write, read };

struct planted {
  const char* name;
  misuse what;
  size_t distance;  // overflow, underflow: which byte after or before the block; late use: blocks freed since
  access how = access::write;
};

constexpr planted all[] = {
    {"overflow", misuse::overflow, 1},
    {"overflow", misuse::overflow, 8},
    {"overflow", misuse::overflow, 15},
    {"overflow", misuse::overflow, 16},
    {"overflow", misuse::overflow, 64},
    {"overflow", misuse::overflow, 256},
    {"overflow", misuse::overflow, 1024},
    {"overflow", misuse::overflow, 4096},
    {"underflow", misuse::underflow, 1},
    {"underflow", misuse::underflow, 16},
    {"underflow", misuse::underflow, 256},
    {"underflow", misuse::underflow, 4096},
    {"use after free", misuse::use_after_free, 0},
    {"use after free", misuse::late_use_after_free, 1000},
    {"overflow", misuse::overflow, 16, access::read},
    {"overflow", misuse::overflow, 4096, access::read},
    {"use after free", misuse::use_after_free, 0, access::read},
};
constexpr size_t sizes[] = {8, 24, 64, 100, 1000, 4096, 10000, 16384};

// The address that the program reads or writes, in or near a block that it has just allocated or freed.
volatile char* place_of(const planted& plan, char* block, size_t size) {
  if (plan.what == misuse::overflow) return block + size - 1 + plan.distance;
  if (plan.what == misuse::underflow) return block - plan.distance;
  return plan.what == misuse::use_after_free ? block + size / 2 : block + size - 1;
}

// Restores what it has overwritten, so that misuse of a block without guards does no harm.
int misuse_every_block(const planted& plan, size_t size) {
  constexpr int late = 1000;
  static char* freed[late];
  for (int i = 0; i < allocations; ++i) {
    char* block = static_cast<char*>(hide(malloc(size)));
    block[0] = block[size - 1] = 1;
    const bool overrun = plan.what == misuse::overflow || plan.what == misuse::underflow;
    if (!overrun) free(block);
    if (plan.what == misuse::late_use_after_free) {
      char* const earlier = freed[i % late];
      freed[i % late] = block;
      block = earlier;
    }
    if (plan.what == misuse::none || block == nullptr) continue;
    volatile char* const at = place_of(plan, block, size);
    const char before = *at;
    if (plan.how == access::write) *at = static_cast<char>(before ^ 0x55);
    if (overrun) free(block);
    if (plan.how == access::write) *at = before;
  }
  return holds;
}

void expect_report(const planted& plan, size_t size) {
  char text[8192];
  const child_result result = run_and_hear(60, text, [&] { return misuse_every_block(plan, size); });
  if (plan.what == misuse::none) {
    TARN_CHECK(result.good() && text[0] == '\0', "blocks of %zu bytes without misuse: signal %d, %s", size,
               result.signal, text);
    return;
  }
  TARN_CHECK(!result.exited, "%s of %zu bytes, blocks of %zu: not found in %d allocations", plan.name,
             plan.distance, size, allocations);
  TARN_CHECK(result.signal == SIGSEGV || result.signal == SIGABRT, "%s: signal %d", plan.name, result.signal);
  const bool named = strncmp(text, "tarn: ", 6) == 0 && strncmp(text + 6, plan.name, strlen(plan.name)) == 0;
  TARN_CHECK(named, "%s of %zu bytes, blocks of %zu: the report is %.200s", plan.name, plan.distance, size,
             text);
  TARN_CHECK(strstr(text, "\ntarn: allocated by thread ") != nullptr, "%s: no stack: %s", plan.name, text);
}

}  // namespace

int main() {
  start();
  if (!system_probes::faults_can_be_sent_again()) skip("%s", system_probes::no_sending);
  // Fills the first pages of the heap: a write before the heap faults even without a guard.
  for (int i = 0; i < 16; ++i) static_cast<void>(malloc(1000));
  int cases = 0;
  for (const size_t size : sizes) {
    expect_report({"no misuse", misuse::none, 0}, size);
    for (const planted& plan : all) {
      for (int i = 0; i < processes; ++i) expect_report(plan, size);
      ++cases;
    }
  }
  measured("%d of %d cases found in %d allocations, in each of %d processes", cases, cases, allocations,
           processes);
}
