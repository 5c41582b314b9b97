// SPDX-License-Identifier: MIT
// The control thread: listens at the door and answers its clients. It exists while the option `control` is on, and
// sleeps in one system call while nobody is connected. docs/design/0031 says why it must be a thread, and what it costs.
//
// The thread leaves the program's table of descriptors before it opens anything, and closes what its copy of the table
// has. So the program never sees a descriptor of the door, cannot close it, and inherits none to its children; and the
// door cannot write into a file of the program.
// Thread safety: everything here is the control thread's own. A child has none of it; it starts a thread of its own.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/text.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "observe/socket/client.hpp"
#include "observe/socket/door.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "os/syscall.hpp"

namespace tarn::control_socket {
namespace {

using os::system_call;

constexpr unsigned most_clients = 16;
// After the system has refused a descriptor.
constexpr std::int64_t rest_ms = 100;
constexpr unsigned unshare_first = 1U << 1;  // CLOSE_RANGE_UNSHARE of Linux 5.9

// Gives the thread a table of its own with nothing in it but standard error, for complaints until the door is open.
// False: the kernel is too old.
bool leave_descriptors() {
  constexpr unsigned all = ~0U;
  if (system_call(SYS_close_range, 3, all, unshare_first) != 0) return false;
  system_call(SYS_close, 0);
  system_call(SYS_close, 1);
  return true;
}

class server {
 public:
  // True: the thread must end, for a hold or because the process's rights have changed. False: there is to be no door
  // with the setting number `setting` any more, or it cannot be opened.
  bool run(unsigned setting) {
    if (!leave_descriptors()) {
      text_buffer<128> line;
      line.put("tarn: control: the control socket needs Linux 5.9 or newer; there is none\n");
      os::write_notice(line);
      return false;
    }
    open_wake();
    bool must_end = false;
    const bool opened = wake_ >= 0 && open_door();
    system_call(SYS_close, 2);
    while (opened && !(must_end = os::control_thread_must_end()) && options::control_setting() == setting)
      wait_and_serve();
    system_call(SYS_close, wake_);
    return must_end;
  }

 private:
  static constexpr unsigned wake_index = 0;
  static constexpr unsigned door_index = 1;
  static constexpr unsigned first_client = 2;

  bool open_door() {
    char folder[options::longest_control_folder + 1];
    options::copy_control_folder(folder);
    return folder[0] == '\0' ? door_.open_standard("/tmp") : door_.open(folder);
  }

  void open_wake() {
    const std::uint64_t signals = std::uint64_t{1} << (os::control_wake_signal - 1);
    wake_ = system_call(SYS_signalfd4, -1, &signals, sizeof signals, O_NONBLOCK | O_CLOEXEC);
  }

  // A negative descriptor is not polled.
  std::int64_t fill(pollfd (&polled)[first_client + most_clients], std::int64_t now) {
    std::int64_t until = -1;
    const auto by = [&until](std::int64_t time) { until = until < 0 ? time : std::min(until, time); };
    const bool has_room =
        std::any_of(clients_, clients_ + most_clients, [](const client& c) { return !c.is_used(); });
    const bool accepts = has_room && now >= rests_until_;
    if (has_room && !accepts) by(rests_until_);
    polled[wake_index] = {static_cast<int>(wake_), POLLIN, 0};
    polled[door_index] = {accepts ? static_cast<int>(door_.descriptor()) : -1, POLLIN, 0};
    for (unsigned i = 0; i < most_clients; ++i) {
      const client& c = clients_[i];
      const short events = c.is_writing() ? POLLOUT : POLLIN;
      polled[first_client + i] = {c.is_used() ? static_cast<int>(c.descriptor()) : -1, events, 0};
      if (c.is_used()) by(c.deadline_ms());
    }
    return until;
  }

  void wait_and_serve() {
    pollfd polled[first_client + most_clients];
    const std::int64_t begin = os::now_ms();
    const std::int64_t until = fill(polled, begin);
    const std::int64_t left = std::max<std::int64_t>(until - begin, 0) + 1;
    const timespec limit{left / 1000, left % 1000 * 1000000};
    const long ready =
        system_call(SYS_ppoll, polled, first_client + most_clients, until < 0 ? nullptr : &limit, 0, 0);
    if (ready < 0 && ready != -EINTR) os::sleep_ms(rest_ms);
    const std::int64_t now = os::now_ms();
    if (ready > 0 && polled[wake_index].revents != 0) take_signal();
    for (unsigned i = 0; i < most_clients; ++i) {
      client& c = clients_[i];
      const bool asked = ready > 0 && polled[first_client + i].revents != 0;
      if (c.is_used() && (asked || now >= c.deadline_ms())) c.step(now);
    }
    if (ready > 0 && polled[door_index].revents != 0) accept_clients(now);
  }

  void take_signal() {
    char about_signal[128];
    system_call(SYS_read, wake_, about_signal, sizeof about_signal);
  }

  void accept_clients(std::int64_t now) {
    for (client& c : clients_) {
      if (c.is_used()) continue;
      const long descriptor =
          system_call(SYS_accept4, door_.descriptor(), 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) {
        if (descriptor != -EAGAIN) rests_until_ = now + rest_ms;
        return;
      }
      c.begin(descriptor, now);
    }
  }

  long wake_ = -1;
  std::int64_t rests_until_ = 0;
  door door_;
  client clients_[most_clients];
};

}  // namespace
}  // namespace tarn::control_socket

void tarn::os::control_thread_body() {
  using namespace tarn;
  engine::begin_bare_thread();
  system_call(SYS_prctl, PR_SET_NAME, "tarn-control");
  for (;;) {
    begin_control_thread();
    const unsigned setting = options::control_setting();
    bool goes_on = false;
    if (options::control_is_wanted()) {
      control_socket::server server;
      goes_on = server.run(setting);
    }
    leave_thread(engine_thread::control);
    // Whoever has changed the option meanwhile relies on this thread.
    goes_on = goes_on || options::control_setting() != setting;
    if (!goes_on || !stay_in_thread(engine_thread::control)) return;
  }
}
