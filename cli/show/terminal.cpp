// SPDX-License-Identifier: MIT
#include "cli/show/terminal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace tarn::cli {

namespace {

// Alternate screen without cursor, cleared; and back.
constexpr std::string_view take_screen = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view give_screen = "\x1b[?25h\x1b[?1049l";
constexpr char stop_key = 26;  // ^Z

termios saved;
volatile sig_atomic_t taken = 0;

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Safe in signal handlers.
void give_back() {
  if (taken == 0) return;
  taken = 0;
  put(give_screen);
  tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

void take() {
  if (taken != 0 || tcgetattr(STDIN_FILENO, &saved) != 0) return;
  termios raw = saved;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return;
  taken = 1;
  put(take_screen);
}

extern "C" void on_end(int number) {
  give_back();
  signal(number, SIG_DFL);
  raise(number);
}

constexpr std::array<int, 9> ending_signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
                                               SIGTERM, SIGHUP, SIGINT, SIGQUIT};

}  // namespace

bool terminal::is_there() {
  const char* const name = std::getenv("TERM");
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && name != nullptr &&
         std::string_view(name) != "dumb";
}

terminal::terminal() {
  static const bool at_exit = std::atexit(give_back) == 0;
  (void)at_exit;
  // An existing handler (one that passes signals on to a program) stays: its owner ends the process in order.
  for (const int number : ending_signals) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(number, on_end);
  }
  take();
}

terminal::~terminal() {
  give_back();
  for (const int number : ending_signals) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == on_end) signal(number, SIG_DFL);
  }
}

int terminal::rows() const {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

int terminal::columns() const {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void terminal::draw(const std::string& lines) {
  if (taken == 0) return;
  // No wrapping, so that long lines are cut; each line is cleared before it is written, and all below the last. Not
  // afterwards: behind a line as wide as the terminal, the cursor is still on its last character.
  std::string text = "\x1b[?7l\x1b[H";
  const int most = rows();
  int row = 0;
  std::size_t begin = 0;
  while (begin < lines.size() && row < most) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    text += row++ > 0 ? "\r\n\x1b[K" : "\x1b[K";
    text.append(lines, begin, end - begin);
    text += "\x1b[0m";
    begin = end + 1;
  }
  if (row < most) text += "\r\n\x1b[J";
  text += "\x1b[?7h";
  put(text);
}

std::optional<char> terminal::key() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (taken == 0 || poll(&input, 1, 0) <= 0) return std::nullopt;
  // One by one: keys that were pressed in a row wait for the next calls.
  char pressed = 0;
  if (read(STDIN_FILENO, &pressed, 1) != 1) return std::nullopt;
  if (pressed == '\x1b') {  // a key without a letter: its sequence, up to the final byte, is dropped
    char next = 0;
    while (poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &next, 1) == 1 &&
           (next == '[' || next == 'O' || next < '@')) {
    }
    return std::nullopt;
  }
  if (pressed == stop_key) {
    suspend();
    return std::nullopt;
  }
  return pressed;
}

void terminal::suspend() {
  give_back();
  raise(SIGSTOP);
  take();
}

}  // namespace tarn::cli
