// SPDX-License-Identifier: MIT
// asio: an echo server of coroutines whose frames, and whose operations' memory, come from pools. It serves four clients
// that run in the same process, and ends with them. Link: Boost.Asio (headers), tarn::tarn-api.
#include <utility>  // before Boost 1.74, which uses std::exchange without it

#include <boost/asio.hpp>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "asio.hpp"
#include "tarn/process.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int clients = 4;
constexpr int messages = 500;

// A coroutine that runs by itself; its frame is freed when it returns.
struct session {
  struct promise_type : tarn::coroutine_frames {
    session get_return_object() { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Awaits the operation that start(handler) begins; 0 bytes when it fails.
template <class Start>
struct transferred {
  Start start;
  std::size_t length = 0;

  static bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    start(tarn::asio_handler([this, caller](boost::system::error_code error, std::size_t bytes) {
      length = error ? 0 : bytes;
      caller.resume();
    }));
  }
  [[nodiscard]] std::size_t await_resume() const { return length; }
};
template <class Start>
transferred(Start) -> transferred<Start>;

session echo(tcp::socket socket) {
  char data[1024];
  for (;;) {
    const std::size_t length = co_await transferred{
        [&](auto handler) { socket.async_read_some(asio::buffer(data), std::move(handler)); }};
    if (length == 0) co_return;
    co_await transferred{
        [&](auto handler) { asio::async_write(socket, asio::buffer(data, length), std::move(handler)); }};
  }
}

void accept(tcp::acceptor& acceptor, int left) {
  acceptor.async_accept(
      tarn::asio_handler([&acceptor, left](boost::system::error_code error, tcp::socket socket) {
        if (!error) echo(std::move(socket));
        if (left > 1) accept(acceptor, left - 1);
      }));
}

int run_client(unsigned short port) {
  asio::io_context context;
  tcp::socket socket(context);
  socket.connect({asio::ip::address_v4::loopback(), port});
  int same = 0;
  for (int i = 0; i < messages; ++i) {
    const std::string sent = "message " + std::to_string(i);
    asio::write(socket, asio::buffer(sent));
    std::string received(sent.size(), ' ');
    asio::read(socket, asio::buffer(received));
    same += received == sent ? 1 : 0;
  }
  return same;
}

}  // namespace

int main() {
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  const unsigned short port = acceptor.local_endpoint().port();
  accept(acceptor, clients);
  std::vector<int> same(clients);
  {
    std::vector<std::jthread> threads;
    for (int& each : same) threads.emplace_back([&each, port] { each = run_client(port); });
    context.run();
  }
  int echoed = 0;
  for (const int each : same) echoed += each;
  std::printf("%d messages echoed\n", echoed);
  std::uint64_t live = 0;
  for (const auto& pool : tarn::pools()) live += pool.stats.live;
  std::printf("%llu frames are left\n", static_cast<unsigned long long>(live));
}
