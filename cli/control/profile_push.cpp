// SPDX-License-Identifier: MIT
#include "cli/control/profile_push.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/control/pushed_labels.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/export/live_profile.hpp"

namespace tarn::cli {

namespace {

constexpr double answer_seconds = 10;
constexpr double most_later_seconds = 3600;
constexpr const char* reason_names[] = {"no_profile", "unreachable", "refused", "late"};

// What may be wrong with one profile alone.
bool is_of_one_profile(int status) { return status == 400 || status == 413 || status == 422; }

std::string advice_for(int status) {
  if (status == 401 || status == 403) return "; give the header that it asks for by --push-headers";
  if (status == 404) return "; is the address that of the store itself, and the store of this kind?";
  return "";
}

}  // namespace

profile_push::profile_push(push_settings settings, push_source source)
    : settings_(std::move(settings)), source_(std::move(source)), client_(settings_.authorities) {
  headers();  // is refused now if it is wrong
  if (!settings_.authorities.empty() && !std::ifstream(settings_.authorities))
    throw cli_error(exit_code::usage, fmt::format("--push-ca {}: cannot be read", settings_.authorities),
                    "Name a file with certificates in PEM.");
  thread_ = std::thread([this] { run(); });
}

profile_push::~profile_push() {
  {
    const std::lock_guard turn(lock_);
    is_over_.store(true, std::memory_order_relaxed);
  }
  end_.notify_all();
  thread_.join();
}

bool profile_push::wait_until(double moment) {
  std::unique_lock turn(lock_);
  const auto is_over = [this] { return is_over_.load(std::memory_order_relaxed); };
  const double seconds = std::max(0.0, moment - monotonic_seconds());
  return !end_.wait_for(turn, std::chrono::duration<double>(seconds), is_over);
}

void profile_push::run() {
  double next = monotonic_seconds();
  while (wait_until(next)) {
    const std::vector<pid_t> processes = source_.processes();
    if (next < not_before_) {
      drop(refused, processes.size());
    } else {
      send_all(processes);
    }
    next += settings_.seconds;
    for (; next <= monotonic_seconds(); next += settings_.seconds) drop(late, processes.size());
  }
}

std::vector<std::string> profile_push::headers() const {
  std::string text;
  if (const std::string& file = settings_.headers_file; !file.empty()) {
    text = text_of_file(file);
    if (text.empty())
      throw cli_error(exit_code::usage, fmt::format("--push-headers {}: cannot be read, or is empty", file),
                      "Write one header in each line: Authorization: Bearer TOKEN");
  } else if (const char* const given = std::getenv("TARN_PUSH_HEADERS"); given != nullptr) {
    text = given;
  }
  std::vector<std::string> lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::size_t colon = line.find(':');
    if (colon == 0 || colon == std::string::npos || line.find_first_of(" \t") < colon)
      throw cli_error(exit_code::usage, "a line of --push-headers or TARN_PUSH_HEADERS is no header",
                      "Write one in each line: Authorization: Bearer TOKEN");
    lines.push_back(line);
  }
  return lines;
}

void profile_push::drop(reason why, std::size_t count) {
  dropped_[why].fetch_add(count, std::memory_order_relaxed);
  if (why != no_profile) lost_ += count;
}

profile_push::outcome profile_push::send(pid_t process, const std::vector<std::string>& headers) {
  http_post request;
  try {
    const std::string live = profiler::live_profile(source_.profile(process));
    request = request_to(settings_.store, live, labels_of(process, settings_.labels));
  } catch (const std::exception& error) {
    const std::string problem = error.what();  // mostly names the process
    return {false, false, no_profile,
            problem.starts_with("process ") ? problem : fmt::format("process {}: {}", process, problem)};
  }
  request.headers = headers;
  const http_reply reply = client_.post(request, answer_seconds, is_over_);
  if (reply.status >= 200 && reply.status < 300) {
    sent_bytes_.fetch_add(request.body.size(), std::memory_order_relaxed);
    return {true, false, no_profile, {}};
  }
  if (reply.status == 0) return {false, true, unreachable, reply.problem};
  if (reply.later_seconds > 0)
    not_before_ = monotonic_seconds() + std::min(reply.later_seconds, most_later_seconds);
  const std::string words = reply.problem.empty() ? "" : fmt::format(" ({})", reply.problem);
  return {false, !is_of_one_profile(reply.status), refused,
          fmt::format("it answers with status {}{}{}", reply.status, words, advice_for(reply.status))};
}

void profile_push::send_all(const std::vector<pid_t>& processes) {
  std::vector<std::string> lines;
  try {
    lines = headers();
  } catch (const cli_error& error) {
    drop(refused, processes.size());
    return tell(error.what());
  }
  std::string failure;
  std::string silent;
  bool has_sent = false;
  for (std::size_t at = 0; at < processes.size(); ++at) {
    const outcome result = send(processes[at], lines);
    if (is_over_.load(std::memory_order_relaxed)) return;
    if (result.is_sent) {
      sent_.fetch_add(1, std::memory_order_relaxed);
      has_sent = true;
    } else if (result.why == no_profile) {
      silent = result.problem;
      drop(no_profile);
    } else {
      if (failure.empty()) failure = result.problem;
      drop(result.why, result.is_over ? processes.size() - at : 1);
      if (result.is_over) break;
    }
  }
  tell_silent(silent);
  if (!failure.empty() || has_sent) tell(failure);
}

// Begins to fail, or succeeds again.
void profile_push::tell(const std::string& failure) {
  is_up_.store(failure.empty(), std::memory_order_relaxed);
  if (failure.empty() != is_bad_) return;
  is_bad_ = !failure.empty();
  if (is_bad_) {
    print_note(fmt::format("--push {}={}: {}; profiles are dropped until they are taken",
                           settings_.store.name(), settings_.store.url, failure));
  } else {
    print_note(fmt::format("--push {}={}: profiles are taken again; {} were dropped", settings_.store.name(),
                           settings_.store.url, std::exchange(lost_, 0)));
  }
}

void profile_push::tell_silent(const std::string& problem) {
  if (problem.empty() == !has_silent_) return;
  has_silent_ = !problem.empty();
  print_note(has_silent_ ? fmt::format("--push: {}", problem) : "--push: all processes give profiles again");
}

profiler::metric_list profile_push::metrics() const {
  const std::string store = profiler::written_labels({{"store", settings_.store.name()}});
  profiler::metric_family dropped{
      "tarn_push_dropped", true, "Profiles that were not sent, by the reason.", {}};
  for (unsigned why = 0; why < reasons; ++why)
    dropped.samples.push_back(
        {profiler::written_labels({{"store", settings_.store.name()}, {"reason", reason_names[why]}}),
         std::to_string(dropped_[why].load(std::memory_order_relaxed))});
  const auto one = [&store](const char* name, bool is_counter, const char* help, std::uint64_t value) {
    return profiler::metric_family{name, is_counter, help, {{store, std::to_string(value)}}};
  };
  return {{one("tarn_push_up", false, "1 if the store takes profiles.", is_up_.load() ? 1 : 0),
           one("tarn_push_sent", true, "Profiles that the store has taken.", sent_.load()),
           one("tarn_push_sent_bytes", true, "Their requests' bodies.", sent_bytes_.load()),
           std::move(dropped)}};
}

}  // namespace tarn::cli
