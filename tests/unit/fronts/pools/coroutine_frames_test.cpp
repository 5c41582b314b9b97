// SPDX-License-Identifier: MIT
// coroutine_frames and frame_allocator: frames of all sizes, freed by any thread, failures, exceptions.
#include "tarn/coroutine_frames.hpp"

#include <gtest/gtest.h>

#include <coroutine>
#include <cstdlib>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fronts/pools/pool_support.hpp"

namespace {

using tarn::testing_support::pools_named;

std::uint64_t live_frames() { return pools_named("tarn::coroutine_frames/").live; }

// A coroutine that gives one int after its first suspension.
class lazy {
 public:
  struct promise_type : tarn::coroutine_frames {
    lazy get_return_object() { return lazy(handle::from_promise(*this)); }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(int result) { value = result; }
    void unhandled_exception() { error = std::current_exception(); }
    int value = 0;
    std::exception_ptr error;
  };
  using handle = std::coroutine_handle<promise_type>;

  explicit lazy(handle frame) : frame_(frame) {}
  lazy(lazy&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  ~lazy() {
    if (frame_) frame_.destroy();
  }
  int get() {
    frame_.resume();
    if (frame_.promise().error) std::rethrow_exception(frame_.promise().error);
    return frame_.promise().value;
  }
  [[nodiscard]] void* address() const { return frame_.address(); }

 private:
  handle frame_;
};

template <std::size_t Bytes>
lazy with_variables(int start) {
  volatile unsigned char room[Bytes] = {};
  room[Bytes / 2] = static_cast<unsigned char>(start);
  co_await std::suspend_never{};
  co_return room[Bytes / 2] + 1;
}
lazy that_throws() {
  throw std::runtime_error("from a coroutine");
  co_return 0;
}

TEST(coroutine_frames, frames_come_from_pools_and_go_back) {
  const auto before = live_frames();
  {
    lazy one = with_variables<10>(5);
    lazy two = with_variables<1000>(6);
    EXPECT_GE(live_frames(), before);  // the compiler may leave a frame out
    EXPECT_EQ(one.get(), 6);
    EXPECT_EQ(two.get(), 7);
  }
  EXPECT_EQ(live_frames(), before);
}

// Behind a pointer, so that the frames' ends are not known where they are made.
std::vector<lazy> make_many(int count) {
  std::vector<lazy> many;
  for (int i = 0; i < count; ++i) {
    many.push_back(with_variables<10>(i % 100));
    many.push_back(with_variables<100>(i % 100));
    many.push_back(with_variables<500>(i % 100));
    many.push_back(with_variables<3000>(i % 100));
    many.push_back(with_variables<20000>(i % 100));
  }
  return many;
}

TEST(coroutine_frames, frames_of_many_sizes_do_not_overlap) {
  const auto before = live_frames();
  std::vector<lazy> many = make_many(200);
  EXPECT_EQ(live_frames(), before + 800) << "four of five sizes fit into pools";
  for (std::size_t i = 0; i < many.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many[i].address()) % 16, 0U);
    EXPECT_EQ(many[i].get(), static_cast<int>(i / 5 % 100) + 1);
  }
  many.clear();
  EXPECT_EQ(live_frames(), before);
}

TEST(coroutine_frames, another_thread_may_free_a_frame) {
  const auto before = live_frames();
  std::vector<lazy> many = make_many(500);
  std::thread([many = std::move(many)]() mutable {
    for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i].get(), static_cast<int>(i / 5 % 100) + 1);
    many.clear();
  }).join();
  EXPECT_EQ(live_frames(), before);
}

// A thread's first use of a size may be the end of another thread's frame; it may also end with free slots.
TEST(coroutine_frames, threads_that_only_end_frames) {
  const auto before = live_frames();
  for (int round = 0; round < 20; ++round) {
    std::vector<lazy> many = make_many(20);
    std::jthread ends([many = std::move(many)]() mutable { many.clear(); });
  }
  EXPECT_EQ(live_frames(), before);
}

TEST(coroutine_frames, an_exception_frees_the_frame) {
  const auto before = live_frames();
  EXPECT_THROW(that_throws().get(), std::runtime_error);
  EXPECT_EQ(live_frames(), before);
}

// Without exceptions: null is passed on.
struct optional_task {
  struct promise_type : tarn::try_coroutine_frames {
    optional_task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    static optional_task get_return_object_on_allocation_failure() { return {nullptr}; }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<> frame;
};
optional_task optional(int start) {
  volatile char room[200] = {};
  room[100] = static_cast<char>(start);
  co_await std::suspend_always{};
  if (room[100] != start) std::abort();
}

TEST(coroutine_frames, promises_that_expect_null) {
  const optional_task task = optional(1);
  ASSERT_TRUE(task.frame != nullptr);
  task.frame.destroy();
}

TEST(frame_allocator, containers_and_shared_pointers) {
  std::map<int, std::string, std::less<>, tarn::frame_allocator<std::pair<const int, std::string>>> names;
  for (int i = 0; i < 1000; ++i) names[i] = std::to_string(i);
  EXPECT_EQ(names[999], "999");
  const auto shared = std::allocate_shared<std::string>(tarn::frame_allocator<std::string>(), "shared");
  EXPECT_EQ(*shared, "shared");
  std::vector<int, tarn::frame_allocator<int>> numbers;
  for (int i = 0; i < 100000; ++i) numbers.push_back(i);
  EXPECT_EQ(numbers[99999], 99999);
  EXPECT_TRUE(tarn::frame_allocator<int>() == tarn::frame_allocator<char>());
}

TEST(frame_allocator, over_aligned_types_and_lengths_that_overflow) {
  struct alignas(256) line {
    char bytes[256];
  };
  std::list<line, tarn::frame_allocator<line>> lines(10);
  for (const line& each : lines) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&each) % 256, 0U);
  tarn::frame_allocator<std::uint64_t> allocator;
  EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 4), std::bad_array_new_length);
  // The sanitizers' operator new ends the process instead.
  constexpr bool sanitized =
      tarn::testing_support::under_thread_sanitizer || tarn::testing_support::under_address_sanitizer;
  if (!sanitized) {
    EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 16), std::bad_alloc);
  }
  std::allocator_traits<tarn::frame_allocator<void>>::rebind_alloc<char> rebound{
      tarn::frame_allocator<void>()};
  rebound.deallocate(rebound.allocate(100), 100);
}

}  // namespace
