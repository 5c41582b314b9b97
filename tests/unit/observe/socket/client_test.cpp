// SPDX-License-Identifier: MIT
#include "observe/socket/client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "broken_invariant.hpp"
#include "os/syscall.hpp"

namespace tarn::control_socket {

struct client_test_access {
  static std::size_t& used(client& c) { return c.used_; }
  static std::size_t& sent(client& c) { return c.sent_; }
  static char*& memory(client& c) { return c.memory_; }
};

namespace {

class client_test : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    served_.begin(ends_[1], now_);
  }
  void TearDown() override { close(ends_[0]); }

  void send_text(const std::string& text) {
    ASSERT_EQ(::send(ends_[0], text.data(), text.size(), 0), ssize_t(text.size()));
  }
  void step(std::int64_t later_ms = 0) { served_.step(now_ + later_ms); }
  // Leaves no room for an answer.
  void fill() const {
    const int least = 1;
    setsockopt(ends_[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    while (::send(ends_[1], "x", 1, MSG_DONTWAIT) == 1) {
    }
  }
  // What has been sent to the client so far.
  std::string received() {
    char text[65536];
    const ssize_t bytes = recv(ends_[0], text, sizeof text, MSG_DONTWAIT);
    return bytes > 0 ? std::string(text, static_cast<std::size_t>(bytes)) : "";
  }

  static constexpr std::int64_t now_ = 1000;
  int ends_[2] = {-1, -1};
  client served_;
};

TEST_F(client_test, answers_a_line_and_ends) {
  send_text("tarn/1 set decay_ms=1000\n");
  step();
  EXPECT_EQ(received(), "tarn/1 ok 14\ndecay_ms=1000\n");
  EXPECT_FALSE(served_.is_used());
}

TEST_F(client_test, waits_for_the_end_of_a_line) {
  for (const char c : std::string("tarn/1 help")) {
    send_text(std::string(1, c));
    step();
    EXPECT_TRUE(served_.is_used());
  }
  send_text("\nwhat follows is not read");
  step();
  EXPECT_EQ(received().substr(0, 10), "tarn/1 ok ");
}

TEST_F(client_test, refuses_garbage) {
  send_text(std::string("GET / HTTP/1.1\r\n\r\n\0\xff", 20));
  step();
  EXPECT_EQ(received().substr(0, 13), "tarn/1 error ");
}

TEST_F(client_test, refuses_a_line_that_is_too_long) {
  send_text(std::string(client::longest_request + 100, 'x'));
  step();
  EXPECT_NE(received().find("at most 512 bytes"), std::string::npos);
  EXPECT_FALSE(served_.is_used());
}

TEST_F(client_test, drops_who_sends_nothing_in_time) {
  step(client::request_ms - 1);
  EXPECT_TRUE(served_.is_used());
  step(client::request_ms);
  EXPECT_FALSE(served_.is_used());
}

TEST_F(client_test, drops_who_has_gone) {
  shutdown(ends_[0], SHUT_RDWR);
  step();
  EXPECT_FALSE(served_.is_used());
}

TEST_F(client_test, drops_who_does_not_read) {
  fill();
  send_text("tarn/1 metrics\n");
  step();
  ASSERT_TRUE(served_.is_used() && served_.is_writing());
  step(client::progress_ms - 1);
  EXPECT_TRUE(served_.is_used());
  step(client::progress_ms);
  EXPECT_FALSE(served_.is_used());
}

TEST_F(client_test, sends_an_answer_in_parts) {
  fill();
  send_text("tarn/1 metrics\n");
  step();
  ASSERT_TRUE(served_.is_writing());
  std::string all;
  for (int i = 0; i < 1000 && served_.is_used(); ++i) {
    step();
    all += received();
  }
  all += received();
  EXPECT_EQ(all.substr(all.size() - 6), "# EOF\n");
}

TEST_F(client_test, finds_a_broken_invariant) {
  served_.validate();
  client_test_access::used(served_) = client::longest_request + 1;
  EXPECT_BROKEN(served_.validate(), "client", "used_ <= longest_request && sent_ <= end_", &served_);
  client_test_access::used(served_) = 0;
  client_test_access::sent(served_) = 1;
  EXPECT_BROKEN(served_.validate(), "client", "used_ <= longest_request && sent_ <= end_", &served_);
  client_test_access::sent(served_) = 0;
  served_.drop();
  char byte = 0;
  client_test_access::memory(served_) = &byte;
  EXPECT_BROKEN(served_.validate(), "client", "descriptor_ >= 0 || memory_ == nullptr", &served_);
  client_test_access::memory(served_) = nullptr;
}

}  // namespace
}  // namespace tarn::control_socket
