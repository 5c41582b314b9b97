// SPDX-License-Identifier: MIT
// asio_handler and coroutine_frames with Boost.Asio: operations and frames come from the pools, executors stay, and a server
// of several threads echoes.
#include "tarn/adapters/asio.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio.hpp>
#include <coroutine>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tarn/process.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::uint64_t taken_from_pools() {
  std::uint64_t count = 0;
  for (const auto& pool : tarn::pools()) {
    if (pool.name.starts_with("tarn::coroutine_frames/")) count += pool.stats.hits + pool.stats.refills;
  }
  return count;
}
std::uint64_t live_in_pools() {
  std::uint64_t count = 0;
  for (const auto& pool : tarn::pools()) {
    if (pool.name.starts_with("tarn::coroutine_frames/")) count += pool.stats.live;
  }
  return count;
}

// A coroutine that nobody awaits.
struct detached {
  struct promise_type : tarn::coroutine_frames {
    detached get_return_object() { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Awaits the operation that start(handler) begins.
template <class Start>
struct operation {
  Start start;
  boost::system::error_code error{};
  std::size_t length = 0;

  static bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    start(tarn::asio_handler([this, caller](boost::system::error_code e, std::size_t n) {
      error = e;
      length = n;
      caller.resume();
    }));
  }
  std::size_t await_resume() const { return error ? 0 : length; }
};
template <class Start>
operation(Start) -> operation<Start>;

detached echo(tcp::socket socket) {
  char data[512];
  for (;;) {
    const std::size_t length = co_await operation{
        [&](auto handler) { socket.async_read_some(asio::buffer(data), std::move(handler)); }};
    if (length == 0) co_return;
    co_await operation{
        [&](auto handler) { asio::async_write(socket, asio::buffer(data, length), std::move(handler)); }};
  }
}

TEST(asio_handler, a_server_with_two_threads_echoes_and_frees_everything) {
  const auto live = live_in_pools();
  const auto taken = taken_from_pools();
  {
    asio::io_context context;
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    const auto port = acceptor.local_endpoint().port();
    constexpr int clients = 8;
    constexpr int messages = 200;
    std::function<void(int)> accept = [&](int left) {
      acceptor.async_accept(
          tarn::asio_handler([&, left](boost::system::error_code error, tcp::socket socket) {
            ASSERT_FALSE(error);
            echo(std::move(socket));
            if (left > 1) accept(left - 1);
          }));
    };
    accept(clients);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) threads.emplace_back([&context] { context.run(); });
    for (int c = 0; c < clients; ++c) {
      threads.emplace_back([port, c] {
        asio::io_context own;
        tcp::socket socket(own);
        socket.connect({asio::ip::address_v4::loopback(), port});
        for (int m = 0; m < messages; ++m) {
          const std::string sent = "message " + std::to_string(c * messages + m);
          asio::write(socket, asio::buffer(sent));
          std::string received(sent.size(), ' ');
          asio::read(socket, asio::buffer(received));
          EXPECT_EQ(received, sent);
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }
  EXPECT_EQ(live_in_pools(), live);
  EXPECT_GT(taken_from_pools(), taken);
}

TEST(asio_handler, operations_come_from_the_pools) {
  asio::io_context context;
  const auto live = live_in_pools();
  std::vector<asio::steady_timer> timers;
  int ended = 0;
  for (int i = 0; i < 50; ++i) {
    timers.emplace_back(context, std::chrono::milliseconds(1));
    timers.back().async_wait(tarn::asio_handler([&ended](boost::system::error_code) { ++ended; }));
  }
  EXPECT_EQ(live_in_pools(), live + 50);
  context.run();
  EXPECT_EQ(ended, 50);
  EXPECT_EQ(live_in_pools(), live);
}

TEST(asio_handler, the_handlers_executor_stays) {
  asio::io_context context;
  auto strand = asio::make_strand(context);
  bool in_strand = false;
  asio::steady_timer timer(context, std::chrono::milliseconds(1));
  timer.async_wait(tarn::asio_handler(asio::bind_executor(
      strand, [&](boost::system::error_code) { in_strand = strand.running_in_this_thread(); })));
  context.run();
  EXPECT_TRUE(in_strand);
}

TEST(asio_handler, handlers_that_can_only_be_moved) {
  asio::io_context context;
  auto number = std::make_unique<int>(3);
  int seen = 0;
  asio::post(context, tarn::asio_handler([number = std::move(number), &seen] { seen = *number; }));
  context.run();
  EXPECT_EQ(seen, 3);
}

}  // namespace
