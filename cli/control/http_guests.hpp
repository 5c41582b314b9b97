// SPDX-License-Identifier: MIT
// http_guests: the open connections of an HTTP server, and which of them have to go, so that nobody keeps others out: a
// connection that has not sent a whole request, or not taken its answer, within its time; and, when there are too many,
// the oldest such one of the address that has most. A request that is being answered is never ended.
// Pure bookkeeping, without sockets; the caller ends what it is told to. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tarn::cli {

class http_guests {
 public:
  static constexpr std::size_t most = 32;
  static constexpr std::size_t most_of_address = 16;
  static constexpr double request_seconds =
      10;  // from the connection, or the end of the last answer, to a whole request
  static constexpr double answer_seconds = 60;  // from an answer's beginning until it has been taken

  // A new connection, by its descriptor. Returns what has to be ended for it, perhaps itself.
  std::vector<int> came(int connection, const std::string& address, double now);
  void asked(int connection);                 // its request is complete
  void answered(int connection, double now);  // its answer is being sent
  void waits(int connection, double now);     // its answer is sent
  void left(int connection);
  // What has to be ended now; each is named once.
  std::vector<int> late(double now);

  [[nodiscard]] std::size_t count() const { return all_.size(); }

 private:
  enum class state { asks, is_being_answered, takes, goes };
  struct guest {
    std::string address;
    state now = state::asks;
    double since = 0;
  };

  [[nodiscard]] std::size_t stays(const std::string& address) const;
  [[nodiscard]] std::size_t stays() const;
  int oldest_of(const std::string& address) const;
  std::string fullest_address() const;

  std::map<int, guest> all_;
};

}  // namespace tarn::cli
