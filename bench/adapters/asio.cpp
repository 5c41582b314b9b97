// SPDX-License-Identifier: MIT
// adapter_asio awaitable|plain|tarn [CONNECTIONS [MESSAGES [THREADS]]]: an echo server of coroutines on one or several threads, with
// a coroutine for each message that it answers; CONNECTIONS clients in one further thread send MESSAGES each, one at a time.
//   awaitable  boost::asio::awaitable and use_awaitable: frames and operations from Asio's cache, else operator new
//   plain      coroutines of this file: frames from operator new, operations from Asio's cache, else operator new
//   tarn       the same coroutines with promises that derive from tarn::coroutine_frames, and handlers by tarn::asio_handler
// Known to favour: many connections leave Asio's cache, of one block per thread and kind, empty.
// Method: loopback TCP, 64 bytes a message; sockets and threads are made before the clock starts. The clients' own handlers
// are of the mode's kind, too. The kernel's share of the time is large: compare "cpu_seconds" and "news".
// Output: one JSON object: time, calls of operator new and page faults for all messages; what tarn's pools handed out.
#include <utility>  // before Boost 1.74, which uses std::exchange without it

#include <boost/asio.hpp>
#include <coroutine>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "tarn/adapters/asio.hpp"
#include "tarn/process.hpp"
#include "usage.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t message_bytes = 64;

// ---- Asio's coroutines ----

asio::awaitable<bool> answer_one(tcp::socket& socket) {
  char data[message_bytes];
  error_code error;
  co_await asio::async_read(socket, asio::buffer(data), asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return false;
  co_await asio::async_write(socket, asio::buffer(data), asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}
asio::awaitable<void> serve(tcp::socket socket) {
  // (GCC 12 makes wrong code of co_await in the condition of a while loop.)
  bool more = true;
  while (more) more = co_await answer_one(socket);
}
asio::awaitable<void> send_all(tcp::socket socket, int messages) {
  char data[message_bytes] = {};
  for (int i = 0; i < messages; ++i) {
    std::memset(data, i, sizeof data);
    co_await asio::async_write(socket, asio::buffer(data), asio::use_awaitable);
    co_await asio::async_read(socket, asio::buffer(data), asio::use_awaitable);
  }
}

// ---- coroutines of this file ----

struct plain_frames {};

// The handler as this kind of coroutines passes it to Asio.
template <class Frames, class Handler>
auto handler_for(Handler handler) {
  if constexpr (std::is_same_v<Frames, tarn::coroutine_frames>) {
    return tarn::asio_handler(std::move(handler));
  } else {
    return handler;
  }
}

template <class Frames>
struct detached {
  struct promise_type : Frames {
    detached get_return_object() { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// A coroutine that another one awaits.
template <class Frames>
class task {
 public:
  struct promise_type : Frames {
    struct resume_caller {
      static bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().caller;
      }
      void await_resume() noexcept {}
    };
    task get_return_object() { return task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static resume_caller final_suspend() noexcept { return {}; }
    void return_value(bool result) { value = result; }
    void unhandled_exception() { std::terminate(); }
    std::coroutine_handle<> caller;
    bool value = false;
  };

  task(task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  ~task() {
    if (frame_) frame_.destroy();
  }
  static bool await_ready() { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    frame_.promise().caller = caller;
    return frame_;
  }
  bool await_resume() { return frame_.promise().value; }

 private:
  explicit task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

template <class Frames, class Start>
struct operation {
  Start start;
  bool succeeded = false;

  static bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    start(handler_for<Frames>([this, caller](error_code error, std::size_t) {
      succeeded = !error;
      caller.resume();
    }));
  }
  [[nodiscard]] bool await_resume() const { return succeeded; }
};
template <class Frames, class Start>
operation<Frames, Start> operate(Start start) {
  return {std::move(start)};
}

template <class Frames>
task<Frames> answer_one_with_frames(tcp::socket& socket) {
  char data[message_bytes];
  const bool read = co_await operate<Frames>(
      [&](auto handler) { asio::async_read(socket, asio::buffer(data), std::move(handler)); });
  if (!read) co_return false;
  const bool written = co_await operate<Frames>(
      [&](auto handler) { asio::async_write(socket, asio::buffer(data), std::move(handler)); });
  co_return written;
}
template <class Frames>
detached<Frames> serve_with_frames(tcp::socket socket) {
  bool more = true;
  while (more) more = co_await answer_one_with_frames<Frames>(socket);
}
template <class Frames>
detached<Frames> send_all_with_frames(tcp::socket socket, int messages) {
  char data[message_bytes] = {};
  for (int i = 0; i < messages; ++i) {
    std::memset(data, i, sizeof data);
    co_await operate<Frames>(
        [&](auto handler) { asio::async_write(socket, asio::buffer(data), std::move(handler)); });
    co_await operate<Frames>(
        [&](auto handler) { asio::async_read(socket, asio::buffer(data), std::move(handler)); });
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const int connections = count > 2 ? std::atoi(arguments[2]) : 64;
  const int messages = count > 3 ? std::atoi(arguments[3]) : 2000;
  const int threads = count > 4 ? std::atoi(arguments[4]) : 1;
  const bool with_tarn = mode == "tarn";
  const bool with_awaitable = mode == "awaitable";
  if ((!with_tarn && !with_awaitable && mode != "plain") || connections < 1 || messages < 1 || threads < 1) {
    std::fprintf(stderr, "usage: adapter_asio awaitable|plain|tarn [CONNECTIONS [MESSAGES [THREADS]]]\n");
    return 2;
  }
  asio::io_context server;
  asio::io_context clients;
  tcp::acceptor acceptor(server, {asio::ip::address_v4::loopback(), 0});
  std::vector<tcp::socket> of_server;
  std::vector<tcp::socket> of_clients;
  for (int i = 0; i < connections; ++i) {
    of_clients.emplace_back(clients);
    of_clients.back().connect(acceptor.local_endpoint());
    of_server.push_back(acceptor.accept());
    of_clients.back().set_option(tcp::no_delay(true));
    of_server.back().set_option(tcp::no_delay(true));
  }
  std::printf("{\"mode\": \"%s\", \"connections\": %d, \"messages\": %d, \"threads\": %d, ", arguments[1],
              connections, connections * messages, threads);
  const bench::usage all;
  for (tcp::socket& socket : of_server) {
    if (with_awaitable) {
      asio::co_spawn(server, serve(std::move(socket)), asio::detached);
    } else if (with_tarn) {
      asio::post(server, [&socket] { serve_with_frames<tarn::coroutine_frames>(std::move(socket)); });
    } else {
      asio::post(server, [&socket] { serve_with_frames<plain_frames>(std::move(socket)); });
    }
  }
  for (tcp::socket& socket : of_clients) {
    if (with_awaitable) {
      asio::co_spawn(clients, send_all(std::move(socket), messages), asio::detached);
    } else if (with_tarn) {
      asio::post(clients, [&socket, messages] {
        send_all_with_frames<tarn::coroutine_frames>(std::move(socket), messages);
      });
    } else {
      asio::post(clients,
                 [&socket, messages] { send_all_with_frames<plain_frames>(std::move(socket), messages); });
    }
  }
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back([&server] { server.run(); });
    clients.run();
  }
  all.print("echo");
  std::uint64_t misses = 0;
  for (const auto& pool : tarn::pools()) misses += pool.stats.refills;
  std::printf("\"pool_refills\": %llu, \"resident_kib\": %ld}\n", static_cast<unsigned long long>(misses),
              bench::usage::resident_kib());
}
