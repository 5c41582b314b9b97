// SPDX-License-Identifier: MIT
// session_host: makes the header of a session, and receives the files that recorded processes send. A thread of its own shows
// in the header that the collector lives, as its owner may be busy for seconds. Owned by the recording, for one thread. Any process may send something to the sockets: what is not of the session, or is no
// process file, is closed at once.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "profiler/collect/process_memory.hpp"
#include "profiler/proc/ticks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// A process that begins to record.
struct arrival {
  std::unique_ptr<process_memory> memory;
  // From the kernel, in the collector's namespaces.
  std::uint32_t process = 0;
  uid_t user = 0;
};

class session_host {
 public:
  // Throws profile_error when the system refuses the memory or the socket.
  session_host(record_mode mode, std::uint64_t sample_bytes, std::uint32_t first_halvings,
               const tick_clock& clock);
  ~session_host();
  session_host(const session_host&) = delete;
  session_host& operator=(const session_host&) = delete;

  // The value of session_variable for the program.
  std::string place() const;
  // The descriptors that place() names.
  std::vector<int> placed_descriptors() const;
  session_header& header() noexcept { return *header_; }
  // The next process that has sent its file. Does not wait; empty: there is none now.
  std::optional<arrival> receive();

 private:
  void make_header();
  void begin_to_beat();
  void beat();
  void open_named_socket();
  void open_placed_socket();
  std::optional<arrival> receive_from(int socket);

  int header_file_ = -1;
  session_header* header_ = nullptr;
  int named_socket_ = -1;
  // For processes in other network namespaces; -1: no directory for it could be made.
  int placed_socket_ = -1;
  int socket_place_ = -1;  // O_PATH descriptor of the placed socket, whose name is removed
  std::uint64_t address_ = 0;
  std::uint64_t secret_ = 0;
  std::mutex end_lock_;
  std::condition_variable end_;
  bool has_ended_ = false;
  std::thread heart_;
};

}  // namespace tarn::profiler
