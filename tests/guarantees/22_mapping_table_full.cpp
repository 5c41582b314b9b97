// SPDX-License-Identifier: MIT
// Guarantee 22, second half: the process's table of mappings (vm.max_map_count) is full, or nearly full. mmap, munmap,
// mprotect and mremap then fail with ENOMEM. As soon as there is room, everything works again.
#include "failure_workload.hpp"

namespace {

using namespace guarantee;

constexpr size_t page = 4096;
constexpr size_t largest_table = 400'000;

// Fills the table: neighbouring pages of different protection cannot share an entry.
class filler {
 public:
  explicit filler(size_t entries) : bytes_((entries + 2) * page) {
    void* const memory = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) skip("mmap of %zu bytes: %s", bytes_, strerror(errno));
    at_ = static_cast<char*>(memory);
  }
  void fill() {
    for (size_t offset = page; offset + page < bytes_; offset += 2 * page) {
      if (mprotect(at_ + offset, page, PROT_READ) != 0) {
        full_ = true;
        edge_ = offset;
        return;
      }
    }
  }
  bool full() const { return full_; }
  // Makes about `entries` of the table free: each page that gets its neighbours' protection again frees two.
  void leave(size_t entries) {
    for (size_t freed = 0; freed + 1 < entries && edge_ > 2 * page; freed += 2) {
      edge_ -= 2 * page;
      mprotect(at_ + edge_, page, PROT_NONE);
    }
  }
  void drop() { munmap(at_, bytes_); }

 private:
  size_t bytes_;
  char* at_ = nullptr;
  size_t edge_ = 0;
  bool full_ = false;
};

// Blocks that most allocators map one by one. Freeing every second one splits mappings that the kernel has merged, and
// needs entries that a full table does not have.
class neighbours {
 public:
  explicit neighbours(size_t size) {
    for (void*& block : blocks_) {
      block = take(size);
      if (block != nullptr) memset(block, 1, 64);
    }
  }
  void free_from(size_t first) {
    for (size_t i = first; i < count; i += 2) {
      errno = 4711;
      give(blocks_[i]);
      TARN_CHECK(errno == 4711, "free in a full table of mappings changed errno to %d", errno);
    }
  }

 private:
  static constexpr size_t count = 32;
  void* blocks_[count];
};

struct figures {
  size_t refused;
};

int with_entries_left(size_t limit, size_t entries, figures* out) {
  run_with_threads(refusals::forbidden, 2, 1);
  neighbours middling(300 * kib);
  neighbours huge(40 * mib);
  filler table(2 * limit);
  table.fill();
  if (!table.full()) skip("the table of mappings does not fill up at vm.max_map_count = %zu", limit);
  // Under qemu-user the emulator's own mappings fill the table, too, and the emulator overflows its stack when it gets
  // no memory.
  const size_t own = vma_count();
  if (own + 16 < limit) skip("the full table of %zu mappings has only %zu of this process", limit, own);
  table.leave(entries);
  huge.free_from(1);
  middling.free_from(1);
  run_with_threads(refusals::accepted, 2, 3);
  huge.free_from(0);
  middling.free_from(0);
  out->refused += refusal_count;
  table.drop();
  run_with_threads(refusals::forbidden, 2, 2);
  return holds;
}

}  // namespace

int main() {
  start();
  const size_t limit = read_number("/proc/sys/vm/max_map_count");
  if (limit == 0) skip("/proc/sys/vm/max_map_count cannot be read");
  if (limit > largest_table) skip("vm.max_map_count is %zu; filling it would take too much memory", limit);
  auto* const out = shared_with_children<figures>();
  for (size_t entries : {0U, 2U, 4U, 8U, 16U, 64U, 200U}) {
    char what[64];
    snprintf(what, sizeof what, "%zu entries left of %zu", entries, limit);
    const child_result result = run_in_child(60, [=] { return with_entries_left(limit, entries, out); });
    expect_good(result, what);
  }
  measured("0 to 200 of %zu mappings left: %zu requests refused, none harmed", limit, out->refused);
}
