// SPDX-License-Identifier: MIT libFuzzer over the whole API. An input is a sequence of operations on the malloc family,
// operator new, jemalloc's functions, pools, recyclers, buffers, arenas, scopes and containers in them, each executed by
// one of three threads. In between there are forks, ends of threads, threads that run at the same time, changes of options, and trims. A model
// records all memory that is held and the contents of every byte.
// In the fast and the hardened build, malloc and operator new of the whole process are tarn's; under AddressSanitizer,
// tarn has only its functions tarn_….
#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "arenas.hpp"
#include "bursts.hpp"
#include "containers.hpp"
#include "crowd.hpp"
#if !TARN_FUZZ_SHARED
#include "flagged.hpp"
#endif
#include "model.hpp"
#include "operators.hpp"
#include "pools.hpp"
#include "scopes.hpp"
#include "settings.hpp"
#include "sources.hpp"
#include "tarn/malloc.h"
#include "watchdog.hpp"

namespace tarn::fuzz {
namespace {

constexpr std::size_t most_held = 400;  // pieces of memory, from each source
constexpr std::size_t most_bytes = std::size_t{64} << 20;

// The run of one input, which begins and ends with an empty model.
class session {
 public:
  session(const std::uint8_t* data, std::size_t size) : in_(data, size) {}

  void run() {
    while (!in_.at_end()) step();
    check_all();
    give_all_back();
    validate_heap();
  }

 private:
  using operation = void (session::*)();

  void step() {
    static constexpr operation operations[] = {
        &session::allocate,      &session::allocate,         &session::release,
        &session::release,       &session::resize,           &session::ask_size,
        &session::bad_calls,     &session::take_object,      &session::give_object,
        &session::take_slots,    &session::give_slots,       &session::take_node,
        &session::give_node,     &session::take_recycled,    &session::give_recycled,
        &session::take_buffer,   &session::give_buffer,      &session::use_arena,
        &session::use_arena,     &session::maintain,         &session::set_option,
        &session::burst,         &session::set_text,         &session::take_operator,
        &session::give_operator, &session::change_container, &session::run_crowd,
        &session::move,          &session::fragment,         &session::use_scope,
        &session::use_flags,     &session::use_flags,        &session::use_checked_arena};
    const std::uint8_t what = in_.byte();
    who_ = in_.byte() % workers::count;
    if (what == 255) return fork_child();
    if (what >= 250) return threads().end(who_);
    const operation chosen = operations[what % std::size(operations)];
    threads().run(who_, [this, chosen] { (this->*chosen)(); });
  }

  // ---- the malloc family ----

  void allocate() {
    const unsigned form = in_.byte() % 8;
    const std::size_t size = in_.bytes();
    const std::size_t alignment = in_.alignment();
    if (blocks_.size() == most_held || bytes_ + size > most_bytes) return;
    std::size_t promised = size >= 16 ? 16 : 8;
    void* block = nullptr;
    switch (form) {
      case 0:
        block = tarn_calloc(size, 1);
        check_zero(block, size);
        break;
      case 1: block = tarn_aligned_alloc(promised = alignment, size); break;
      case 2:
        promised = std::max(alignment, sizeof(void*));
        require(tarn_posix_memalign(&block, promised, size) == 0, "posix_memalign fails");
        break;
      case 3: block = tarn_memalign(promised = alignment, size); break;
      case 4:
        promised = 4096;
        block = in_.byte() % 2 == 0 ? tarn_valloc(size) : tarn_pvalloc(size);
        break;
      case 5: block = tarn_realloc(nullptr, size); break;
      default: block = tarn_malloc(size);
    }
    add(blocks_, block, size, promised);
    require(tarn_usable_size(block) >= size, "the usable size is less than the requested one", block);
  }

  void release() {
    if (blocks_.empty()) return;
    const held one = take(blocks_);
    switch (in_.byte() % 3) {
      case 0: return tarn_free_sized(one.bytes, one.size);
      case 1: return tarn_free_aligned_sized(one.bytes, one.alignment, one.size);
      default: return tarn_free(one.bytes);
    }
  }

  void resize() {
    if (blocks_.empty()) return;
    held one = take(blocks_);
    const std::size_t size = std::max<std::size_t>(in_.bytes(), 1);
    if (bytes_ + size > most_bytes) return tarn_free(one.bytes);
    void* const moved =
        in_.byte() % 2 == 0 ? tarn_realloc(one.bytes, size) : tarn_reallocarray(one.bytes, 1, size);
    require(moved != nullptr, "realloc fails", one.bytes);
    one.bytes = static_cast<unsigned char*>(moved);
    one.check(std::min(one.size, size));
    add(blocks_, moved, size, size >= 16 ? 16 : 8);
  }

  void move() {
    if (blocks_.empty()) return;
    held one = take(blocks_);
    static_cast<void>(tarn_would_move(one.bytes, 1.0));
    const std::size_t usable = tarn_usable_size(one.bytes);
    one.bytes = static_cast<unsigned char*>(tarn_move(one.bytes));
    require(one.bytes != nullptr, "tarn_move fails");
    one.check();
    require(tarn_usable_size(one.bytes) >= usable, "a block has become shorter by moving", one.bytes);
    add(blocks_, one.bytes, one.size, one.alignment);
  }

  // The model then holds, and writes to, all usable bytes of the block.
  void ask_size() {
    if (blocks_.empty()) return;
    const held one = take(blocks_);
    const std::size_t usable = tarn_usable_size(one.bytes);
    require(usable >= one.size, "the usable size is less than the requested one", one.bytes);
    add(blocks_, one.bytes, usable, one.alignment);
  }

  void bad_calls() {
    errno = 0;
    require(tarn_malloc(SIZE_MAX - in_.byte()) == nullptr && errno == ENOMEM, "malloc of all memory");
    require(tarn_calloc(SIZE_MAX / 2, 3) == nullptr, "calloc of a product that overflows");
    require(tarn_reallocarray(nullptr, SIZE_MAX / 2, 3) == nullptr,
            "reallocarray of a product that overflows");
    errno = 0;
    require(tarn_aligned_alloc(24, 8) == nullptr && errno == EINVAL, "aligned_alloc with alignment 24");
    void* out = this;
    require(tarn_posix_memalign(&out, 4, 8) == EINVAL && out == this, "posix_memalign with alignment 4");
    tarn_free(nullptr);
    require(tarn_usable_size(nullptr) == 0, "the size of null");
    if (blocks_.empty()) return;
    require(tarn_realloc(blocks_[0].bytes, SIZE_MAX / 2) == nullptr, "realloc to half of the address space");
    blocks_[0].check();
  }

  void burst() { bursts_.change(in_, number_); }
  void fragment() { bursts_.fragment(in_); }

  // ---- pools ----

  void take_object() { pooled_.take_object(in_, ++number_, who_); }
  void give_object() { pooled_.give_object(in_, who_); }
  void take_slots() { pooled_.take_slots(in_, ++number_); }
  void give_slots() { pooled_.give_slots(in_); }
  void take_node() { pooled_.take_node(in_, ++number_); }
  void give_node() { pooled_.give_node(in_); }

  // ---- recyclers and buffers ----

  struct recycled_text {
    recycler<std::string>::handle text;
    std::string content;
  };
  void take_recycled() {
    if (recycled_.size() == most_held) return;
    recycled_text one{texts().get(), std::string(in_.below(500), static_cast<char>(in_.byte()))};
    require(one.text->empty(), "a recycled string is not empty");
    *one.text = one.content;
    recycled_.push_back(std::move(one));
  }
  void give_recycled() {
    if (in_.byte() % 32 == 0) texts().trim();
    if (recycled_.empty()) return;
    const std::size_t index = in_.below(static_cast<std::uint32_t>(recycled_.size()));
    require(*recycled_[index].text == recycled_[index].content, "a recycled string has changed");
    std::swap(recycled_[index], recycled_.back());
    recycled_.pop_back();
  }

  void take_buffer() {
    const std::size_t size = in_.bytes();
    if (buffers_.size() >= 16 || size > (std::size_t{2} << 20)) return;
    const bool zeroed = in_.byte() % 2 == 0;
    buffer got = buffers(zeroed).get(size);
    require(got.size() == size && got.capacity() >= size, "a buffer's size", got.data());
    if (zeroed) check_zero(got.data(), got.capacity());
    buffers_.add(got.data(), got.capacity(), 4096, ++number_);
    buffer_handles_.push_back(std::move(got));
  }
  void give_buffer() {
    if (buffers_.empty()) return;
    const std::size_t index = in_.below(static_cast<std::uint32_t>(buffers_.size()));
    static_cast<void>(buffers_.take(index));
    std::swap(buffer_handles_[index], buffer_handles_.back());
    buffer_handles_.pop_back();
  }

  // ---- arenas, scopes, flags ----

  void use_arena() { arena_->change(in_); }
  void use_checked_arena() { checked_arena_->change(in_); }
  void use_scope() { in_.byte() % 8 == 0 ? scoped_.end(in_) : scoped_.use(in_, number_); }
  void use_flags() {
#if !TARN_FUZZ_SHARED
    switch (in_.byte() % 16) {
      case 0:
        if (zeroes_++ < 2) flagged_blocks::take_zeroes(in_);
        return;
      case 1:
      case 2: return flagged_.stretch(in_);
      case 3:
      case 4:
      case 5: return flagged_.resize(in_);
      case 6:
      case 7:
      case 8: return flagged_.give(in_);
      default: return flagged_.take(in_, ++number_);
    }
#endif
  }

  // ---- operator new and containers ----

  void take_operator() {
    if (operators_.size() < most_held) operators_.take(in_, ++number_);
  }
  void give_operator() { operators_.give(in_); }
  void change_container() { containers_.change(in_); }

  // ---- other threads, maintenance, options, forks ----

  void run_crowd() {
    if (crowds_++ == 1) return;
    const std::uint64_t seed = in_.below(65536);
    const crowd all(seed, in_.byte() % 3);
  }

  void maintain() {
    switch (in_.byte() % 5) {
      case 0: tarn_trim(in_.bytes()); break;
      case 1: ask_for_figures(); break;
      case 2: ask_by_names_of_libc(); break;
      case 3:
        validate_heap();
        own_pool().trim();
        break;
      default: check_all();
    }
  }

  void set_option() { set_known_option(in_); }
  void set_text() { set_any_option(in_); }

  // The child checks all memory of its parent and gives it back, which does not change the parent.
  void fork_child() {
    if (forks_++ == 1) return;
    run_in_child([this] {
      check_all();
      give_all_back();
      tarn_free(tarn_malloc(1000));
      tarn_trim(0);
      validate_heap();
    });
  }

  // ---- help ----

  void add(live_set& set, void* memory, std::size_t size, std::size_t alignment) {
    set.add(memory, size, alignment, ++number_);
    bytes_ += size;
  }
  held take(live_set& set) {
    const held out = set.take(in_.below(static_cast<std::uint32_t>(set.size())));
    bytes_ -= out.size;
    return out;
  }
  void check_all() const {
    for (const live_set* set : {&blocks_, &buffers_}) set->check();
    pooled_.check();
    arena_->check();
    checked_arena_->check();
    scoped_.check();
#if !TARN_FUZZ_SHARED
    flagged_.check();
#endif
    for (const recycled_text& one : recycled_)
      require(*one.text == one.content, "a recycled string has changed");
    operators_.check();
    containers_.check();
  }
  void give_all_back() {
    who_ = 0;
    arena_->empty();
    checked_arena_->empty();
    scoped_.empty(in_);
    bursts_.empty();
#if !TARN_FUZZ_SHARED
    while (!flagged_.empty()) flagged_.give(in_);
#endif
    while (!blocks_.empty()) release();
    pooled_.empty(in_);
    while (!buffers_.empty()) give_buffer();
    while (!recycled_.empty()) give_recycled();
    while (!operators_.empty()) give_operator();
    containers_.empty();
  }

  input in_;
  std::map<std::uintptr_t, std::uintptr_t> ranges_;
  live_set blocks_{ranges_};
  pooled_objects pooled_{ranges_};
  live_set buffers_{ranges_};
  std::unique_ptr<arenas> arena_ = make_arenas(ranges_);
  std::unique_ptr<arenas> checked_arena_ = make_checked_arenas(ranges_);
  scoped_blocks scoped_{ranges_};
#if !TARN_FUZZ_SHARED
  flagged_blocks flagged_{ranges_};
#endif
  operator_blocks operators_{ranges_};
  containers containers_;
  bursts bursts_;
  std::vector<recycled_text> recycled_;
  std::vector<buffer> buffer_handles_;
  unsigned who_ = 0;  // the thread that executes the operation
  std::uint64_t number_ = 0;
  std::size_t bytes_ = 0;
  int forks_ = 0;
  int crowds_ = 0;
  int zeroes_ = 0;
};

}  // namespace
}  // namespace tarn::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tarn::fuzz::watched_run watched;
  auto one = std::make_unique<tarn::fuzz::session>(data, size);
  one->run();
  return 0;
}
