// SPDX-License-Identifier: MIT
// asio_handler: a completion handler whose operation's memory comes from the pools of tarn/coroutine_frames.hpp. For
// Boost.Asio (1.66 or later) and for Asio without Boost; it includes neither.
//
//     socket.async_read_some(buffer, tarn::asio_handler([self](auto error, std::size_t length) { ... }));
//
// Asio allocates memory for each asynchronous operation that is under way (some 100 to 300 bytes), by the handler's
// associated allocator. Its own keeps one or two blocks per thread that runs the io_context, and none for other threads;
// all other operations go to operator new. Use this wrapper where a thread has many operations under way at a time, or
// starts operations that another thread finishes. Do not use it for one operation after the other in one thread: Asio's
// own cache serves these for less (docs/how-to/adapters/asio.md has figures).
//
// The wrapper keeps the handler's executor and cancellation slot if the handler has them as members (executor_type,
// get_executor(); cancellation_slot_type, get_cancellation_slot()), as bind_executor() and bind_cancellation_slot() make
// them. What is associated by a specialisation of Asio's traits is lost: wrap such handlers the other way round,
// bind_executor(executor, asio_handler(...)). Its allocator is a frame_allocator, whatever the handler's was.
// From Boost 1.79 on boost::asio::bind_allocator(tarn::frame_allocator<void>(), token) does the same, also for completion
// tokens that are not handlers.
// asio::awaitable: its frames have a cache of Asio's own, to which no allocator can be given (docs/how-to/adapters/asio.md).
// Thread safety, failure: those of the handler, of frame_allocator. Cost: as a pair of create() and destroy() of a pool.
#pragma once

#include <type_traits>
#include <utility>

#include "tarn/coroutine_frames.hpp"

namespace tarn {

template <class Handler>
class asio_handler;

namespace detail {

// Members that Asio looks for; none if the handler does not have them, as Asio takes a faster path then.
template <class Handler, class = void>
struct asio_executor {};
template <class Handler>
struct asio_executor<Handler, std::void_t<typename Handler::executor_type>> {
  using executor_type = typename Handler::executor_type;
  [[nodiscard]] executor_type get_executor() const noexcept {
    return static_cast<const asio_handler<Handler>*>(this)->handler().get_executor();
  }
};

template <class Handler, class = void>
struct asio_cancellation_slot {};
template <class Handler>
struct asio_cancellation_slot<Handler, std::void_t<typename Handler::cancellation_slot_type>> {
  using cancellation_slot_type = typename Handler::cancellation_slot_type;
  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept {
    return static_cast<const asio_handler<Handler>*>(this)->handler().get_cancellation_slot();
  }
};

}  // namespace detail

template <class Handler>
class asio_handler : public detail::asio_executor<Handler>, public detail::asio_cancellation_slot<Handler> {
 public:
  using allocator_type = frame_allocator<char>;

  explicit asio_handler(Handler handler) noexcept(std::is_nothrow_move_constructible_v<Handler>)
      : handler_(std::move(handler)) {}

  [[nodiscard]] allocator_type get_allocator() const noexcept { return {}; }
  [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

  template <class... Results>
  void operator()(Results&&... results) {
    handler_(std::forward<Results>(results)...);
  }

 private:
  Handler handler_;
};

}  // namespace tarn
