// SPDX-License-Identifier: MIT
// The reports on misuse of a guarded block, line by line. With TARN_GUARDED=1 every allocation of this program is
// guarded as long as slots are free.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "engine/engine.hpp"
#include "tarn/malloc.h"

#include "../system_probes.hpp"
#include "expect_abort.hpp"

namespace tarn {
namespace {

constexpr std::size_t size = 96;

std::string hex(const void* p) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(p)));
  return text;
}

// A regular expression for "tarn: TITLE by thread N:" and at least two lines with frames.
std::string stack(const std::string& title) {
  return "tarn: " + title +
         " by thread [0-9]+:\n(tarn:   #[0-9]+ +0x[0-9a-f]+( [^ \n]+\\+0x[0-9a-f]+)?( [^ \n]+)?\n){2,}";
}
std::string report(const std::string& first, bool freed, const std::string& last) {
  std::string out = "^tarn: " + first + "\n" + stack("allocated");
  if (freed) out += stack("freed");
  out += "(tarn: for source lines, FILE\\+OFFSET of each: addr2line -Cfipe [^\n]+ 0x[0-9a-f]+\n)?";
  if (!last.empty()) out += stack(last);
  return out + TARN_END_OF_OUTPUT;
}
std::string of_block(const void* block) { return " of a block of 96 bytes at " + hex(block); }

char* volatile hidden = nullptr;

void write_to(volatile char* at) { *at = 1; }
char read_from(const volatile char* at) { return *at; }

// A guarded block that ends where its page ends. The first allocations of a class are not guarded, and some guarded
// blocks begin where their page begins; so it tries several times.
char* guarded() {
  for (int i = 0; i < 20; ++i) {
    auto* const block = static_cast<char*>(tarn_malloc(size));
    if (!engine::guards.contains(block) || (address_of(block) + size) % 4096 != 0) continue;
    hidden = block;
    return block;
  }
  ADD_FAILURE() << "no guarded block";
  return nullptr;
}

class guarded_death : public testing::Test {
 protected:
  ~guarded_death() override {
    if (block_ != nullptr && engine::guards.size_of(block_) != 0) tarn_free(block_);
  }
  char* const block_ = guarded();
};

TEST_F(guarded_death, overflow) {
  if (!system_probes::faults_can_be_sent_again()) GTEST_SKIP() << system_probes::no_sending;
  for (const std::size_t distance : {1, 8, 16, 64, 4096}) {
    char* const at = block_ + size - 1 + distance;
    const std::string bytes = std::to_string(distance) + (distance == 1 ? " byte" : " bytes");
    EXPECT_EXIT(write_to(at), testing::KilledBySignal(SIGSEGV),
                report("overflow: " + hex(at) + ": write, " + bytes + " past the end" + of_block(block_),
                       false, "write"));
    EXPECT_EXIT(read_from(at), testing::KilledBySignal(SIGSEGV),
                report("overflow: " + hex(at) + ": read, " + bytes + " past the end" + of_block(block_),
                       false, "read"));
  }
}

TEST_F(guarded_death, underflow_beyond_the_page) {
  if (!system_probes::faults_can_be_sent_again()) GTEST_SKIP() << system_probes::no_sending;
  char* const at = block_ - 4096;
  EXPECT_EXIT(write_to(at), testing::KilledBySignal(SIGSEGV),
              report("underflow: " + hex(at) + ": write, 4096 bytes before the start" + of_block(block_),
                     false, "write"));
}

TEST_F(guarded_death, damage_within_the_page_is_found_when_the_block_is_freed) {
  for (const int distance : {1, 8, 64}) {
    char* const at = block_ - distance;
    const std::string bytes = std::to_string(distance) + (distance == 1 ? " byte" : " bytes");
    EXPECT_EXIT(
        {
          write_to(at);
          tarn_free(block_);
        },
        testing::KilledBySignal(SIGABRT),
        report("underflow: " + hex(at) + ": found when the block was freed: write, " + bytes +
                   " before the start" + of_block(block_),
               true, ""));
  }
}

TEST_F(guarded_death, use_after_free) {
  if (!system_probes::faults_can_be_sent_again()) GTEST_SKIP() << system_probes::no_sending;
  tarn_free(block_);
  for (const int offset : {0, 16, 95}) {
    char* const at = block_ + offset;
    const std::string byte = "byte " + std::to_string(offset);
    EXPECT_EXIT(write_to(at), testing::KilledBySignal(SIGSEGV),
                report("use after free: " + hex(at) + ": write, " + byte + of_block(block_), true, "write"));
    EXPECT_EXIT(read_from(at), testing::KilledBySignal(SIGSEGV),
                report("use after free: " + hex(at) + ": read, " + byte + of_block(block_), true, "read"));
  }
}

TEST_F(guarded_death, double_free) {
  tarn_free(block_);
  EXPECT_EXIT(tarn_free(hidden), testing::KilledBySignal(SIGABRT),
              report("double free: " + hex(block_) + ": byte 0" + of_block(block_), true, "free called"));
}

TEST_F(guarded_death, invalid_free) {
  EXPECT_EXIT(
      tarn_free(hidden + 16), testing::KilledBySignal(SIGABRT),
      report("invalid free of a pointer into a block: " + hex(block_ + 16) + ": byte 16" + of_block(block_),
             false, "free called"));
  EXPECT_EXIT(tarn_free(hidden - 16), testing::KilledBySignal(SIGABRT),
              report("invalid free of a pointer that is not a block: " + hex(block_ - 16) +
                         ": 16 bytes before the start" + of_block(block_),
                     false, "free called"));
}

TEST_F(guarded_death, realloc_and_size_of_a_freed_block) {
  tarn_free(block_);
  EXPECT_EXIT(tarn_realloc(hidden, 200), testing::KilledBySignal(SIGABRT),
              "^tarn: size asked of a pointer that is not a block: ");
  EXPECT_EXIT(tarn_usable_size(hidden), testing::KilledBySignal(SIGABRT),
              "^tarn: size asked of a pointer that is not a block: ");
}

}  // namespace
}  // namespace tarn
