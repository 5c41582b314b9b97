// SPDX-License-Identifier: MIT
// Requests to the process that records a program, and its answers.
#include "cli/recording/session_control.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

// A process that answers requests about this one, until its end.
class answering_session {
 public:
  explicit answering_session(std::function<nlohmann::json(const nlohmann::json&)> answer)
      : control_(getpid()), worker_([this, answer = std::move(answer)] {
          while (!ends_) {
            control_.serve(answer);
            if (late_) control_.answer_late({{"late", true}});
            usleep(1000);
          }
        }) {}
  ~answering_session() {
    ends_ = true;
    worker_.join();
  }
  answering_session(const answering_session&) = delete;
  answering_session& operator=(const answering_session&) = delete;

  bool is_open() const { return control_.is_open(); }
  void answer_late() { late_ = true; }

 private:
  session_control control_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> late_{false};
  std::thread worker_;
};

std::string session_refusal(const nlohmann::json& request, pid_t process = getpid()) {
  return testing_support::refusal_of<cli_error>([&] { ask_session(process, request); });
}

TEST(session_control, a_request_is_answered) {
  answering_session session([](const nlohmann::json& request) {
    return nlohmann::json{{"asked", request["verb"]}};
  });
  ASSERT_TRUE(session.is_open());
  EXPECT_EQ(ask_session(getpid(), {{"verb", "dump"}}).what["asked"], "dump");
  EXPECT_EQ(ask_session(getpid(), {{"verb", "detach"}}).what["asked"], "detach");
  EXPECT_FALSE(session_control(getpid()).is_open()) << "a program is recorded once";
}

TEST(session_control, a_problem_is_an_error_with_advice) {
  answering_session session([](const nlohmann::json&) { return already_recorded(77); });
  EXPECT_EQ(
      session_refusal({{"verb", "attach"}}),
      "125 process 77 is already being recorded | To write its data so far: tarn attach --dump 77. To end a recording begun by "
      "tarn attach: tarn attach --stop 77. A recording by tarn profile lasts until the program ends.");
}

TEST(session_control, an_empty_answer_is_given_later) {
  std::atomic<bool> asked{false};
  answering_session session([&asked](const nlohmann::json&) {
    asked = true;
    return nlohmann::json::object();
  });
  nlohmann::json answer;
  std::thread asks([&answer] { answer = ask_session(getpid(), {{"verb", "detach"}}).what; });
  while (!asked) usleep(1000);
  session.answer_late();
  asks.join();
  EXPECT_EQ(answer["late"], true);
}

TEST(session_control, a_program_that_is_not_recorded) {
  const std::string process = std::to_string(getpid());
  EXPECT_EQ(session_refusal({{"verb", "dump"}}),
            "125 process " + process +
                " is not being recorded by this user | Begin a recording: tarn attach " + process);
}

TEST(session_control, a_program_that_does_not_exist) {
  EXPECT_TRUE(session_refusal({{"verb", "dump"}}, 2147483646)
                  .starts_with("125 process 2147483646 has ended, or does not exist |"));
}

}  // namespace
}  // namespace tarn::cli
