// SPDX-License-Identifier: MIT
// command: what can be asked at the control socket. A new command is a function here or in the file of its subject, and
// one line of the table in commands.cpp.
//
// Thread safety: commands run in the control thread, one at a time; it holds no lock of the engine. It is not a thread
// of libc (os/own_threads/thread.hpp): a command must not allocate with malloc, nor call functions of libc that set errno, take a
// lock of libc or ask for the thread (dl_iterate_phdr, dladdr, pthread_…); it makes system calls by os::system_call().
// Files that it opens are in a table of descriptors of the control thread's own, which the program does not see.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/text.hpp"

namespace tarn::control_socket {

// What a command answers: text or bytes, up to the capacity of the buffer behind it. What exceeds it makes the answer an
// error (server.cpp).
class answer : public text_writer {
 public:
  answer(char* buffer, std::size_t capacity) : text_writer(buffer, capacity) {}

  // In place of everything written so far: one sentence that says what is wrong and what to do.
  text_writer& refuse() {
    clear();
    refused_ = true;
    return *this;
  }
  [[nodiscard]] bool is_refused() const { return refused_; }

  // The shape of heap_profile::receiver: `to` is an answer.
  static void receive(void* to, const char* data, std::size_t bytes) {
    static_cast<answer*>(to)->put(std::string_view(data, bytes));
  }

 private:
  bool refused_ = false;
};

struct command {
  std::string_view name;
  const char* takes;    // what follows the name; "" if nothing may
  const char* meaning;  // one sentence
  void (*run)(std::string_view arguments, answer& out);
};

#pragma GCC visibility push(hidden)

std::span<const command> commands();

// Runs the command of a request's line (without the line's end), or refuses.
void run(std::string_view line, answer& out);

#pragma GCC visibility pop

}  // namespace tarn::control_socket
