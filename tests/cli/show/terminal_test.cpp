// SPDX-License-Identifier: MIT
// The screen of a view that is redrawn, on a pseudo-terminal that this test reads.
#include "cli/show/terminal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace tarn::cli {
namespace {

constexpr const char* screen_taken = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr const char* screen_given = "\x1b[?25h\x1b[?1049l";

// A child process on a terminal of 3 rows and 20 columns.
class child_on_terminal {
 public:
  explicit child_on_terminal(const std::function<void()>& work) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size = {3, 20, 0, 0};
    EXPECT_EQ(ioctl(slave_, TIOCSWINSZ, &size), 0);
    child_ = fork();
    if (child_ != 0) return;
    alarm(60);
    dup2(slave_, STDIN_FILENO);
    dup2(slave_, STDOUT_FILENO);
    setenv("TERM", "xterm", 1);
    work();
    std::_Exit(0);
  }
  ~child_on_terminal() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(slave_);
    close(master_);
  }
  child_on_terminal(const child_on_terminal&) = delete;
  child_on_terminal& operator=(const child_on_terminal&) = delete;

  // What the child writes, until it ends in `end`, or nothing comes for ten seconds.
  std::string read_until(const std::string& end) const {
    std::string text;
    pollfd ready = {master_, POLLIN, 0};
    while (!text.ends_with(end) && poll(&ready, 1, 10'000) > 0) {
      char bytes[256];
      const ssize_t size = read(master_, bytes, sizeof bytes);
      if (size <= 0) break;
      text.append(bytes, static_cast<std::size_t>(size));
    }
    return text;
  }
  void press(const std::string& keys) const {
    EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  bool echoes() const {
    termios now = {};
    EXPECT_EQ(tcgetattr(slave_, &now), 0);
    return (now.c_lflag & ECHO) != 0;
  }
  void send(int number) const { kill(child_, number); }
  int ended() {
    int status = 0;
    waitpid(child_, &status, 0);
    return status;
  }

 private:
  int master_;
  int slave_ = -1;
  pid_t child_ = -1;
};

TEST(terminal, draws_at_most_its_rows_and_gives_the_screen_back) {
  child_on_terminal child([] {
    terminal screen;
    if (screen.rows() != 3 || screen.columns() != 20) std::_Exit(1);
    screen.draw("one\ntwo\nthree\nfour\n");
  });
  EXPECT_EQ(child.read_until(screen_given),
            std::string(screen_taken) +
                "\x1b[?7l\x1b[H\x1b[Kone\x1b[0m\r\r\n\x1b[Ktwo\x1b[0m\r\r\n\x1b[Kthree\x1b[0m\x1b[?7h" +
                screen_given);
  EXPECT_EQ(WEXITSTATUS(child.ended()), 0);
  EXPECT_TRUE(child.echoes());
}

TEST(terminal, a_line_as_wide_as_the_terminal_keeps_its_last_character) {
  child_on_terminal child([] {
    terminal screen;
    screen.draw("12345678901234567890\n");
  });
  const std::string text = child.read_until(screen_given);
  const std::size_t line = text.find("12345678901234567890");
  ASSERT_NE(line, std::string::npos);
  // Clearing to the end of the line, with the cursor still on its last column, would clear that column.
  EXPECT_LT(text.find("\x1b[K"), line);
  EXPECT_EQ(text.find("\x1b[K", line), std::string::npos);
  EXPECT_EQ(text.find("\x1b[J", line), text.find("\n", line) + 1);
}

TEST(terminal, keys_come_without_enter_and_arrows_are_ignored) {
  child_on_terminal child([] {
    terminal screen;
    std::string keys;
    while (!keys.ends_with("q")) {
      if (const auto key = screen.key()) keys += *key;
      screen.draw(keys);
      usleep(1000);
    }
    std::_Exit(keys == "aq" ? 0 : 1);
  });
  child.read_until("\x1b[?7h");
  EXPECT_FALSE(child.echoes());
  child.press("a");
  child.read_until("H\x1b[Ka\x1b[0m\r\r\n\x1b[J\x1b[?7h");
  child.press("\x1b[A");
  usleep(50'000);
  child.press("q");
  EXPECT_EQ(WEXITSTATUS(child.ended()), 0);
}

TEST(terminal, a_signal_that_ends_the_process_gives_the_screen_back) {
  child_on_terminal child([] {
    terminal screen;
    screen.draw("here");
    for (;;) pause();
  });
  child.read_until("\x1b[?7h");
  child.send(SIGTERM);
  EXPECT_EQ(child.read_until(screen_given), screen_given);
  EXPECT_EQ(WTERMSIG(child.ended()), SIGTERM);
  EXPECT_TRUE(child.echoes());
}

TEST(terminal, is_there_where_both_ends_are_terminals_that_can_move_the_cursor) {
  child_on_terminal child([] {
    const bool there = terminal::is_there();
    setenv("TERM", "dumb", 1);
    const bool dumb = terminal::is_there();
    unsetenv("TERM");
    const bool unnamed = terminal::is_there();
    setenv("TERM", "xterm", 1);
    close(STDIN_FILENO);
    std::_Exit(there && !dumb && !unnamed && !terminal::is_there() ? 0 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(child.ended()), 0);
}

}  // namespace
}  // namespace tarn::cli
