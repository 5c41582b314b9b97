// SPDX-License-Identifier: MIT
// How the page heap finds the parts of reservations that it unmaps: in time that grows with the number of free spans
// only, and not beside a part that another thread is unmapping.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "../../guarantees/kernel_emulator.hpp"
#include "base/compiler.hpp"
#include "os/guarded_memory.hpp"
#include "os/memory.hpp"
#include "own_engine.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

using source = page_heap::source;
using use = page_heap::use;

constexpr std::size_t piece_pages = 2 * mib >> page_shift;
// So many fill three reservations, each of which continues the one before.
constexpr std::size_t piece_count = 48;

bool is_mapped(std::uintptr_t at) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(at), os::system_page_size(), &resident) == 0;
}

// In the order of their addresses.
std::vector<span*> take_pieces(page_heap& heap, std::size_t count) {
  std::vector<span*> pieces(count);
  for (span*& s : pieces) {
    s = heap.allocate(piece_pages, 1, span_state::large, source::any, use::sparse);
  }
  std::sort(pieces.begin(), pieces.end(), [](const span* a, const span* b) { return a->start < b->start; });
  return pieces;
}

// A heap of `count` holes that have been unmapped, with as many free spans that could be, each between spans in use.
std::unique_ptr<testing_support::own_engine> heap_with_holes(std::size_t count) {
  auto engine = testing_support::make_engine();
  page_heap& heap = engine->heap;
  const std::vector<span*> pieces = take_pieces(heap, 4 * count);
  for (std::size_t i = 0; i < pieces.size(); i += 2) heap.deallocate(pieces[i], page_backing::clean);
  std::size_t unmapped = 0;
  while (unmapped < count * 2 * mib) {
    const std::size_t bytes = heap.unmap_free(2 * mib);
    if (bytes == 0) return nullptr;
    unmapped += bytes;
  }
  return engine;
}

// The least time in microseconds of several requests that no free memory can serve.
double hopeless_request_us(page_heap& heap) {
  double least = 1e12;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(heap.unmap_free(std::size_t{1} << 48), 0U);
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

TEST(page_heap_holes, a_request_that_fails_takes_time_in_proportion_to_the_free_spans) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs the address space";
  const auto few = heap_with_holes(250);
  const auto many = heap_with_holes(2000);
  if (few == nullptr || many == nullptr) GTEST_SKIP() << "no address space or no mappings for the holes";
  const double time_of_few = hopeless_request_us(few->heap);
  const double time_of_many = hopeless_request_us(many->heap);
  // 8 times as many spans; the fixed part is two system calls. A walk over all holes for each span takes 64 times as
  // long.
  EXPECT_LT(time_of_many, 25 * time_of_few + 100) << time_of_few << " us with 250 holes";
  many->heap.validate();
}

// ---- reservations without guards ----

long without_guards(const guarantee::kernel::call& c) {
  const bool is_long = c.arguments[1] >= static_cast<long>(mib);
  if (c.number == SYS_mmap && c.arguments[2] == PROT_NONE && is_long) return -ENOMEM;
  return guarantee::kernel::pass(c);
}

// 0: good. As with a limit on address space that leaves room for a reservation and for no guards.
int unmap_around_one_span() {
  guarantee::kernel::emulate(without_guards);
  const auto engine = testing_support::make_engine();
  page_heap& heap = engine->heap;
  std::vector<span*> pieces = take_pieces(heap, piece_count);
  const std::size_t reserved = heap.stats().reserved;
  for (std::size_t i = 0; i < piece_count; ++i) {
    if (i != piece_count / 2) heap.deallocate(pieces[i]);
  }
  heap.validate();
  const std::size_t unmapped = heap.unmap_free(reserved - 3 * 2 * mib);
  heap.validate();
  std::memset(reinterpret_cast<void*>(pieces[piece_count / 2]->start), 1, 2 * mib);
  return unmapped >= reserved - 3 * 2 * mib ? 0 : 1;
}

TEST(page_heap_holes, reservations_without_guards_are_unmapped_up_to_their_borders) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs the system calls";
  const guarantee::child_result child = guarantee::run_in_child(20, unmap_around_one_span);
  if (child.code == guarantee::not_checkable) GTEST_SKIP() << "no filter";
  EXPECT_TRUE(child.good()) << "exit status " << child.code << ", signal " << child.signal;
}

// ---- a part that another thread is unmapping ----

page_heap* window_heap = nullptr;
std::vector<span*> window_pieces;
bool in_window = false;
std::size_t unmapped_in_window = 0;

// Before the first munmap of a part comes what another thread may do meanwhile.
long with_other_thread(const guarantee::kernel::call& c) {
  if (c.number == SYS_munmap && c.arguments[1] >= static_cast<long>(mib) && !in_window) {
    in_window = true;
    for (span*& s : window_pieces) window_heap->deallocate(std::exchange(s, nullptr));
    unmapped_in_window = window_heap->unmap_free(8 * mib);
    window_heap->validate();
  }
  return guarantee::kernel::pass(c);
}

// 0: good.
int unmap_two_neighbours() {
  const auto engine = testing_support::make_engine();
  page_heap& heap = engine->heap;
  std::vector<span*> pieces = take_pieces(heap, piece_count);
  if (pieces.back()->end() - pieces.front()->start != piece_count * 2 * mib) return guarantee::not_checkable;
  const std::uintptr_t border = pieces[20]->start;
  const std::uintptr_t before = border - os::guard_bytes;
  for (std::size_t i = 20; i < 40; ++i) heap.deallocate(pieces[i]);
  window_heap = &heap;
  window_pieces.assign(pieces.begin() + 10, pieces.begin() + 20);
  guarantee::kernel::emulate(with_other_thread);
  const std::size_t unmapped = heap.unmap_free(8 * mib);
  heap.validate();
  if (!in_window || unmapped == 0) return 2;
  while (heap.unmap_free(2 * mib) != 0) heap.validate();
  // Both parts are unmapped; nothing of them, and no guard between them, is left.
  return is_mapped(before) || is_mapped(border) ? 1 : 0;
}

TEST(page_heap_holes, a_part_beside_one_that_is_being_unmapped_leaves_no_guard_behind) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs the system calls";
  const guarantee::child_result child = guarantee::run_in_child(20, unmap_two_neighbours);
  if (child.code == guarantee::not_checkable) GTEST_SKIP() << "no filter, or no reservation in one piece";
  EXPECT_TRUE(child.good()) << "exit status " << child.code << ", signal " << child.signal;
}

// ---- a long block where a reservation was ----

std::uintptr_t next_place = 0;
constexpr std::size_t long_block = 8 * mib;

// A system that maps long blocks where a part of a reservation has been unmapped.
long in_the_hole(const guarantee::kernel::call& c) {
  guarantee::kernel::call placed = c;
  if (c.number == SYS_mmap && c.arguments[0] == 0 && c.arguments[1] == static_cast<long>(long_block)) {
    placed.arguments[0] = static_cast<long>(next_place);
    placed.arguments[3] |= MAP_FIXED_NOREPLACE;
  }
  return guarantee::kernel::pass(placed);
}

// 0: good.
int use_long_block_again() {
  const auto engine = testing_support::make_engine();
  page_heap& heap = engine->heap;
  const span* const first = heap.allocate(1, 1, span_state::large, source::any, use::dense);
  if (first == nullptr || !first->is_first_use) return 2;
  // What nobody has been given goes back to the system.
  if (heap.unmap_free(2 * long_block) < 2 * long_block) return guarantee::not_checkable;
  next_place = align_up(first->end(), huge_page_size) + huge_page_size;
  guarantee::kernel::emulate(in_the_hole);
  span* const block = heap.allocate(long_block >> page_shift, 1, span_state::large, source::any, use::filled);
  if (block == nullptr || block->start != next_place) return guarantee::not_checkable;
  heap.deallocate(block);
  heap.validate();
  const span* const again = heap.allocate(1, 1, span_state::large, source::warm, use::dense);
  if (again == nullptr || again->start != next_place) return 3;
  return again->is_first_use ? 1 : 0;
}

TEST(page_heap_holes, memory_of_a_block_mapped_in_one_has_been_used) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs the system calls";
  const guarantee::child_result child = guarantee::run_in_child(20, use_long_block_again);
  if (child.code == guarantee::not_checkable) GTEST_SKIP() << "no filter, or no hole";
  EXPECT_TRUE(child.good()) << "exit status " << child.code << ", signal " << child.signal;
}

}  // namespace
}  // namespace tarn
