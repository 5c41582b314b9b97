// SPDX-License-Identifier: MIT
// client: one connection to the control socket: a line of text in, one answer out, then the end.
//
//   request    "tarn/1 COMMAND ARGUMENTS\n", at most longest_request bytes
//   answer     "tarn/1 ok LENGTH\n" or "tarn/1 error LENGTH\n", then LENGTH bytes: the result, or one sentence
//
// Nothing that a client sends or leaves out delays the process: each step reads or writes what is there, and a client
// that does not go on within its time is dropped.
// Owner: the control thread. Thread safety: none.
// Invariants: used_ <= longest_request; sent_ <= end_; an unused client has no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/invariant.hpp"

namespace tarn::control_socket {

#pragma GCC visibility push(hidden)

class client {
 public:
  static constexpr std::size_t longest_request = 512;
  static constexpr std::size_t longest_answer = std::size_t{64} << 20;
  static constexpr std::int64_t request_ms = 2000;   // from the connection to the end of the line
  static constexpr std::int64_t progress_ms = 5000;  // from one part of the answer that is taken to the next
  static constexpr std::int64_t connection_ms = 60000;

  client() = default;
  ~client() { drop(); }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // Takes over a connection, or refuses it if its other end is neither of the process's user nor root.
  void begin(long descriptor, std::int64_t now_ms);
  // Reads or writes what can be, and runs the command when its line is complete.
  void step(std::int64_t now_ms);
  // Ends the connection; the object can be used again.
  void drop();

  [[nodiscard]] bool is_used() const { return descriptor_ >= 0; }
  [[nodiscard]] long descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_writing() const { return memory_ != nullptr; }
  [[nodiscard]] std::int64_t deadline_ms() const { return deadline_ms_ < last_ms_ ? deadline_ms_ : last_ms_; }

  void validate() const {
    TARN_INVARIANT("client", this, used_ <= longest_request && sent_ <= end_);
    TARN_INVARIANT("client", this, descriptor_ >= 0 || memory_ == nullptr);
  }

 private:
  friend struct client_test_access;

  void read();
  void write(std::int64_t now_ms);
  // Runs the command of the line, of `length` bytes; refuses the line if `problem` is not null.
  void answer_line(std::size_t length, const char* problem, std::int64_t now_ms);

  long descriptor_ = -1;
  std::int64_t deadline_ms_ = 0;
  std::int64_t last_ms_ = 0;
  char request_[longest_request] = {};
  std::size_t used_ = 0;
  char* memory_ = nullptr;  // of the answer, with its first line
  std::size_t mapped_ = 0;
  std::size_t sent_ = 0;
  std::size_t end_ = 0;
};

#pragma GCC visibility pop

}  // namespace tarn::control_socket
