// SPDX-License-Identifier: MIT
#include "observe/socket/client.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/units.hpp"
#include "observe/socket/command.hpp"
#include "os/memory.hpp"
#include "os/syscall.hpp"

namespace tarn::control_socket {
namespace {

using os::system_call;

constexpr std::string_view protocol = "tarn/1 ";
// For the answer's first line, which is written when the answer's length is known.
constexpr std::size_t heading_room = 48;

// Reserves address space; pages are used as they are written. Less if the process may not have so much.
char* map_answer(std::size_t& bytes) {
  for (bytes = client::longest_answer; bytes >= 64 * kib; bytes /= 8) {
    if (void* const memory = os::reserve(bytes, os::system_page_size())) return static_cast<char*>(memory);
  }
  return nullptr;
}

// Keeps the pages of the first `used` bytes.
void shorten(char* memory, std::size_t& mapped, std::size_t used) {
  const std::size_t kept = align_up(used, os::system_page_size());
  if (kept >= mapped) return;
  if (os::release_own(memory + kept, mapped - kept)) mapped = kept;
}

bool may_ask(long descriptor) {
  struct ucred peer {};
  unsigned length = sizeof peer;
  if (system_call(SYS_getsockopt, descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == 0 || static_cast<long>(peer.uid) == system_call(SYS_geteuid);
}

}  // namespace

void client::begin(long descriptor, std::int64_t now_ms) {
  descriptor_ = descriptor;
  deadline_ms_ = now_ms + request_ms;
  last_ms_ = now_ms + connection_ms;
  used_ = sent_ = end_ = 0;
  if (!may_ask(descriptor)) answer_line(0, "only the process's own user and root may ask", now_ms);
}

void client::drop() {
  if (memory_ != nullptr) os::release_own(memory_, mapped_);
  memory_ = nullptr;
  if (descriptor_ >= 0) system_call(SYS_close, descriptor_);
  descriptor_ = -1;
  used_ = sent_ = end_ = 0;
}

void client::step(std::int64_t now_ms) {
  if (now_ms >= deadline_ms()) {
    drop();
  } else if (is_writing()) {
    write(now_ms);
  } else {
    read();
    const auto* const end =
        is_used() ? static_cast<const char*>(std::memchr(request_, '\n', used_)) : nullptr;
    if (end != nullptr) {
      answer_line(static_cast<std::size_t>(end - request_), nullptr, now_ms);
    } else if (used_ == longest_request) {
      answer_line(0, "a request has at most 512 bytes", now_ms);
    }
  }
  validate();
}

void client::read() {
  const long bytes =
      system_call(SYS_recvfrom, descriptor_, request_ + used_, longest_request - used_, MSG_DONTWAIT);
  if (bytes == -EAGAIN || bytes == -EINTR) return;
  if (bytes <= 0) return drop();
  used_ += static_cast<std::size_t>(bytes);
}

void client::write(std::int64_t now_ms) {
  const long bytes =
      system_call(SYS_sendto, descriptor_, memory_ + sent_, end_ - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes == -EAGAIN || bytes == -EINTR) return;
  if (bytes <= 0) return drop();
  sent_ += static_cast<std::size_t>(bytes);
  deadline_ms_ = now_ms + progress_ms;
  if (sent_ == end_) drop();
}

void client::answer_line(std::size_t length, const char* problem, std::int64_t now_ms) {
  memory_ = map_answer(mapped_);
  if (memory_ == nullptr) return drop();
  answer out(memory_ + heading_room, mapped_ - heading_room);
  const std::string_view line(request_, length);
  if (problem != nullptr) {
    out.refuse().put(problem);
  } else if (!line.starts_with(protocol)) {
    out.refuse()
        .put("a request begins with \"")
        .put(protocol)
        .put("\"; this process has tarn ")
        .put(TARN_VERSION);
  } else {
    run(part_of(line, protocol.size()), out);
  }
  if (out.size() > out.stored()) {
    out.refuse().put("the answer is longer than ").number(mapped_).put(" bytes");
  }
  text_buffer<heading_room> heading;
  heading.put(protocol).put(out.is_refused() ? "error " : "ok ").number(out.size()).put('\n');
  sent_ = heading_room - heading.size();
  end_ = heading_room + out.size();
  std::memcpy(memory_ + sent_, heading.data(), heading.size());
  shorten(memory_, mapped_, end_);
  deadline_ms_ = now_ms + progress_ms;
  write(now_ms);
}

}  // namespace tarn::control_socket
