// SPDX-License-Identifier: MIT
// asio_handler: a completion handler whose operation's memory comes from the pools of tarn/coroutine_frames.hpp. For
// Boost.Asio (1.66 or later) and for Asio without Boost: define TARN_ASIO_STANDALONE before including this header.
//
//     socket.async_read_some(buffer, tarn::asio_handler([self](auto error, std::size_t length) { ... }));
//
// Asio allocates memory for each asynchronous operation that is under way (some 100 to 300 bytes), by the handler's
// associated allocator. Its own keeps one or two blocks per thread that runs the io_context, and none for other threads; all
// other operations go to operator new. Use this wrapper where a thread has many
// operations under way at a time, or starts operations that another thread finishes. Do not use it for one operation after
// the other in one thread: Asio's own cache is as fast there.
//
// The wrapper keeps the handler's associated executor. Its associated allocator is frame_allocator<void>'s, whatever the
// handler's was. From Boost 1.79 on boost::asio::bind_allocator(tarn::frame_allocator<void>(), token) does the same, also
// for completion tokens that are not handlers.
// asio::awaitable: its frames have a cache of Asio's own, one or two blocks per thread, to which no allocator can be given
// (docs/how-to/adapters/asio.md).
// Thread safety, failure: those of the handler, of frame_allocator. Cost: as a pair of create() and destroy() of a pool.
#pragma once

#include "tarn/detail/abi.hpp"

#if defined(TARN_ASIO_STANDALONE)
#include <asio/associated_executor.hpp>
#define TARN_DETAIL_ASIO asio
#else
#include <boost/asio/associated_executor.hpp>
#define TARN_DETAIL_ASIO boost::asio
#endif

#include <type_traits>
#include <utility>

#include "tarn/coroutine_frames.hpp"

namespace tarn::inline TARN_ABI {

inline namespace TARN_POOL_MODE {

template <class Handler>
class asio_handler {
 public:
  using allocator_type = frame_allocator<char>;

  explicit asio_handler(Handler handler) noexcept(std::is_nothrow_move_constructible_v<Handler>)
      : handler_(std::move(handler)) {}

  [[nodiscard]] allocator_type get_allocator() const noexcept { return {}; }
  // For the specialisation of associated_executor below.
  [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

  template <class... Results>
  void operator()(Results&&... results) {
    handler_(std::forward<Results>(results)...);
  }

 private:
  Handler handler_;
};

}  // namespace TARN_POOL_MODE

}  // namespace tarn::inline TARN_ABI

// The wrapped handler's executor.
template <class Handler, class Executor>
struct TARN_DETAIL_ASIO::associated_executor<tarn::asio_handler<Handler>, Executor> {
  using type = typename associated_executor<Handler, Executor>::type;
  static type get(const tarn::asio_handler<Handler>& wrapper,
                  const Executor& executor = Executor()) noexcept {
    return associated_executor<Handler, Executor>::get(wrapper.handler(), executor);
  }
};

#undef TARN_DETAIL_ASIO
