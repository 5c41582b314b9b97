// SPDX-License-Identifier: MIT
#include "comparison.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>

#include "child_process.hpp"
#include "cli_error.hpp"
#include "memory_conditioner.hpp"
#include "text.hpp"

namespace tarn::cli {

namespace {

constexpr double default_budget_seconds = 60;
constexpr int fewest_default_rounds = 3;
constexpr int most_default_rounds = 10;
// Of a failing program's stderr, what is shown.
constexpr off_t error_tail_bytes = 2000;
constexpr std::size_t error_tail_lines = 5;
// How often the time left is told anew. Each time takes some microseconds, of another process than the one measured.
constexpr double seconds_between_looks = 1;

class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) close(number_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

int open_or_throw(const std::string& path, int flags) {
  const int number = open(path.c_str(), flags | O_CLOEXEC);
  if (number < 0) {
    throw cli_error(exit_code::usage, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  return number;
}

// A nameless file for the program's stderr; -1 when there can be none, which only loses the tail.
int open_error_file() {
  std::string path = "/tmp/tarn-compare-XXXXXX";
  const int number = mkostemp(path.data(), O_CLOEXEC);
  if (number >= 0) unlink(path.c_str());
  return number;
}

std::string read_tail(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  if (size <= 0) return {};
  const off_t begin = std::max<off_t>(0, size - error_tail_bytes);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t lines = 1;
  for (std::size_t position = text.size(); position > 0; --position) {
    if (text[position - 1] == '\n' && lines++ == error_tail_lines) return text.substr(position);
  }
  return text;
}

run_figures figures_of(double wall, const rusage& usage) {
  run_figures figures;
  figures.wall_seconds = wall;
  figures.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  figures.peak_rss_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  figures.minor_faults = static_cast<double>(usage.ru_minflt);
  figures.major_faults = static_cast<double>(usage.ru_majflt);
  return figures;
}

// Kills the child's whole group and takes its exit status.
void kill_and_reap(pid_t child) {
  kill(-child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

int rounds_that_fit(double seconds_per_round) {
  if (seconds_per_round <= 0) return most_default_rounds;
  const double fit = std::floor(default_budget_seconds / seconds_per_round);
  return static_cast<int>(std::clamp<double>(fit, fewest_default_rounds, most_default_rounds));
}

double seconds_left(int rounds, double seconds_per_round, double elapsed) {
  return (rounds - 1) * seconds_per_round + std::max(0.0, seconds_per_round - elapsed);
}

comparison::comparison(const std::vector<contender>& contenders, const program_target& target,
                       std::vector<std::string> words, const comparison_settings& settings)
    : target_(target),
      words_(std::move(words)),
      settings_(settings),
      progress_(settings.progress),
      random_(settings.seed) {
  for (const contender& who : contenders) outcome_.results.push_back({who, {}, {}, {}});
}

comparison_outcome comparison::run() {
  if (settings_.rounds) outcome_.rounds = *settings_.rounds;
  for (round_ = 0; round_ == 0 || round_ < settings_.warmup_rounds + outcome_.rounds; ++round_) {
    round_begin_ = monotonic_seconds();
    run_round();
    seconds_per_round_ = monotonic_seconds() - round_begin_;
    if (round_ == 0 && !settings_.rounds) outcome_.rounds = rounds_that_fit(seconds_per_round_);
    const bool any_left = std::any_of(outcome_.results.begin(), outcome_.results.end(),
                                      [](const contender_result& result) { return result.failure.empty(); });
    if (!any_left) break;
  }
  progress_.clear();
  return outcome_;
}

void comparison::run_round() {
  std::vector<std::size_t> order(outcome_.results.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random_);
  std::vector<attempt> attempts(order.size());
  for (const std::size_t index : order) {
    const contender_result& result = outcome_.results[index];
    if (!result.failure.empty()) continue;
    progress_.show(describe(result.who));
    condition_memory(settings_.conditioning_bytes);
    attempts[index] = run_once(result.who);
  }
  if (round_ == 0) settle_usual_exit(attempts);
  for (std::size_t index = 0; index < attempts.size(); ++index) {
    contender_result& result = outcome_.results[index];
    if (result.failure.empty()) record(result, attempts[index], round_ >= settings_.warmup_rounds);
  }
}

comparison::attempt comparison::run_once(const contender& who) {
  const descriptor input(open_or_throw(settings_.input, O_RDONLY));
  const descriptor output(settings_.show_output ? -1 : open_or_throw("/dev/null", O_WRONLY));
  const descriptor errors(settings_.show_output ? -1 : open_error_file());
  child_request request;
  request.path = target_.path;
  request.arguments = words_;
  request.variables = environment_for(who);
  request.standard_input = input.get();
  request.standard_output = output.get();
  request.standard_error = errors.get() >= 0 ? errors.get() : output.get();
  request.own_group = true;

  const held_signals signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const double begin = monotonic_seconds();
  attempt result = wait_for(start_child(request, signals.before()), begin, signals, who);
  if (errors.get() >= 0) result.error_tail = read_tail(errors.get());
  return result;
}

comparison::attempt comparison::wait_for(pid_t child, double begin, const held_signals& signals,
                                         const contender& who) {
  attempt result;
  for (;;) {
    rusage usage = {};
    if (wait4(child, &result.wait_status, WNOHANG, &usage) == child) {
      result.figures = figures_of(monotonic_seconds() - begin, usage);
      return result;
    }
    double wait_seconds = seconds_between_looks;
    if (settings_.timeout_seconds > 0) {
      wait_seconds = std::min(wait_seconds, begin + settings_.timeout_seconds - monotonic_seconds());
    }
    if (wait_seconds <= 0) {
      kill_and_reap(child);
      result.timed_out = true;
      return result;
    }
    const timespec wait = to_timespec(wait_seconds);
    const int signal = sigtimedwait(&signals.held(), nullptr, &wait);
    if (signal > 0 && signal != SIGCHLD) {
      kill_and_reap(child);
      throw interrupted{signal};
    }
    // The terminal's line is the program's, if it may write there.
    if (signal < 0 && !settings_.show_output) progress_.show(describe(who));
  }
}

// The first round decides what the program's ordinary end is: success if any contender sees it,
// otherwise the failure that all have in common (a search that finds nothing exits with 1, and is
// worth measuring all the same).
void comparison::settle_usual_exit(const std::vector<attempt>& attempts) {
  bool alike = true;
  for (const attempt& one : attempts) {
    if (!one.timed_out && one.wait_status == 0) {
      outcome_.usual_exit = 0;
      return;
    }
    alike = alike && !one.timed_out && one.wait_status == attempts.front().wait_status;
  }
  if (alike) {
    outcome_.usual_exit = attempts.front().wait_status;
    outcome_.usual_error_tail = attempts.front().error_tail;
  }
}

bool comparison::as_usual(const attempt& one) const {
  if (one.timed_out) return false;
  if (settings_.ignore_failure && WIFEXITED(one.wait_status)) return true;
  return outcome_.usual_exit && one.wait_status == *outcome_.usual_exit;
}

void comparison::record(contender_result& result, const attempt& one, bool timed) const {
  if (as_usual(one)) {
    if (timed) result.rounds.push_back(one.figures);
    return;
  }
  result.failure = one.timed_out
                       ? fmt::format("still running after {} s (--timeout)", settings_.timeout_seconds)
                       : format_exit(one.wait_status);
  result.error_tail = one.error_tail;
}

std::string comparison::describe(const contender& who) const {
  std::string place = fmt::format("warm-up {}/{}", round_ + 1, settings_.warmup_rounds);
  if (round_ >= settings_.warmup_rounds) {
    place = fmt::format("round {}/{}", round_ - settings_.warmup_rounds + 1,
                        outcome_.rounds > 0 ? std::to_string(outcome_.rounds) : "?");
  }
  std::string text = fmt::format("{}: {}", place, who.name);
  if (round_ > 0) {
    const double left = seconds_left(settings_.warmup_rounds + outcome_.rounds - round_, seconds_per_round_,
                                     monotonic_seconds() - round_begin_);
    text += fmt::format(", about {:.0f} s left", std::ceil(left));
  }
  return text;
}

}  // namespace tarn::cli
