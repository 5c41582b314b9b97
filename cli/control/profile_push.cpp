// SPDX-License-Identifier: MIT
#include "cli/control/profile_push.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/export/live_profile.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr double answer_seconds = 10;
constexpr double seconds_without_any = 1;
constexpr double most_later_seconds = 3600;
constexpr double seconds_between_reasons = 60;
// What is told of, besides the statuses of HTTP; 0: there was no answer.
constexpr int no_headers = -1;
constexpr int rejected = -2;
constexpr int nothing_told = -3;
constexpr const char* wrong_store = "; is the address that of the store itself, and the store of this kind?";
constexpr const char* reason_names[] = {"no_profile", "unreachable", "refused", "late"};

// "Name: value", as RFC 9110 has it; the blank is asked for, so that other files with colons are none.
bool is_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const bool has_name =
      std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), [](char each) {
        return std::string_view("!#$%&'*+-.^_`|~").find(each) != std::string_view::npos ||
               (each >= '0' && each <= '9') || (each >= 'A' && each <= 'Z') || (each >= 'a' && each <= 'z');
      });
  const std::string_view value = line.substr(colon + 1);
  return has_name && (value.starts_with(' ') || value.starts_with('\t')) &&
         value.find_first_not_of(" \t") != std::string_view::npos &&
         std::none_of(value.begin(), value.end(), [](char each) {
           return (static_cast<unsigned char>(each) < ' ' && each != '\t') || each == '\x7f';
         });
}

// What may be wrong with one profile alone.
bool is_of_one_profile(int status) { return status == 400 || status == 413 || status == 422; }

// `path`: that of the request, behind the store's address.
std::string advice_for(const http_reply& reply, const push_store& store, std::string_view path) {
  const int status = reply.status;
  if (const std::string& place = reply.leads_to; place.ends_with(path) && place.size() > path.size())
    return fmt::format("; it leads to {}; write --push {}={}", place, store.name(),
                       place.substr(0, place.size() - path.size()));
  if (!reply.leads_to.empty())
    return fmt::format("; it leads to {}, which is not followed; give --push the address of the store itself",
                       reply.leads_to);
  if (status == 401 || status == 403) return "; give the header that it asks for by --push-headers";
  if (status == 404) return wrong_store;
  return "";
}

}  // namespace

profile_push::profile_push(push_settings settings, push_source source)
    : settings_(std::move(settings)), source_(std::move(source)), client_(settings_.authorities) {
  headers();  // is refused now if it is wrong
  if (!settings_.authorities.empty() && !std::ifstream(settings_.authorities))
    throw cli_error(exit_code::refused, fmt::format("--push-ca {}: cannot be read", settings_.authorities),
                    "Name a file with certificates in PEM.");
}

void profile_push::begin() {
  thread_ = std::thread([this] { run(); });
}

void profile_push::end() {
  if (!thread_.joinable()) return;
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
  // A store that closes the connection is no reason to end; libcurl leaves this signal to its user.
  sigset_t pipe = {};
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  double next = monotonic_seconds();
  while (wait_until(next)) {
    const std::vector<pid_t> processes = source_.processes();
    if (next < not_before_) {
      drop(refused, processes.size());
    } else {
      send_all(processes);
    }
    // Where nobody can be asked yet, the first profile comes soon.
    next += processes.empty() ? std::min(seconds_without_any, settings_.seconds) : settings_.seconds;
    for (; next <= monotonic_seconds(); next += settings_.seconds) drop(late, processes.size());
  }
}

std::vector<std::string> profile_push::headers() const {
  std::string text;
  if (const std::string& file = settings_.headers_file; !file.empty()) {
    text = text_of_file(file);
    if (text.empty())
      throw cli_error(exit_code::refused, fmt::format("--push-headers {}: cannot be read, or is empty", file),
                      "Write one header in each line: Authorization: Bearer TOKEN");
  } else if (const char* const given = std::getenv("TARN_PUSH_HEADERS"); given != nullptr) {
    text = given;
  }
  std::vector<std::string> lines;
  std::istringstream from(text);
  int number = 0;
  for (std::string line; std::getline(from, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    // The line may be a secret.
    if (!is_header(line))
      throw cli_error(
          exit_code::usage,
          fmt::format("line {} of {} is no header", number,
                      settings_.headers_file.empty() ? "TARN_PUSH_HEADERS"
                                                     : "--push-headers " + settings_.headers_file),
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
    request = request_to(settings_.store, live, source_.labels(process));
  } catch (const std::exception& error) {
    const auto status = profiler::read_process(static_cast<std::uint32_t>(process));
    if (!status || status->has_ended()) return {};  // since it was listed: nothing is lost
    const std::string problem = error.what();       // mostly names the process
    return {false, false, no_profile,
            problem.starts_with("process ") ? problem : fmt::format("process {}: {}", process, problem), 0};
  }
  request.headers = headers;
  const http_reply reply = client_.post(request, answer_seconds, is_over_);
  const bool is_taken = reply.status >= 200 && reply.status < 300;
  if (is_taken && reply.is_page)
    return {false, true, refused, fmt::format("it answers with a page for people{}", wrong_store), rejected};
  if (is_taken) {
    if (const std::string why = rejection_in(settings_.store, reply.body); !why.empty())
      return {false, false, refused, why, rejected};
    sent_bytes_.fetch_add(request.body.size(), std::memory_order_relaxed);
    return {true, false, no_profile, {}, 0};
  }
  if (reply.status == 0) return {false, true, unreachable, reply.problem, 0};
  if (reply.later_seconds > 0)
    not_before_ = monotonic_seconds() + std::min(reply.later_seconds, most_later_seconds);
  const std::string words = reply.problem.empty() ? "" : fmt::format(" ({})", reply.problem);
  return {false, !is_of_one_profile(reply.status), refused,
          fmt::format("it answers with status {}{}{}", reply.status, words,
                      advice_for(reply, settings_.store,
                                 std::string_view(request.url).substr(settings_.store.url.size()))),
          reply.status};
}

void profile_push::send_all(const std::vector<pid_t>& processes) {
  std::vector<std::string> lines;
  try {
    lines = headers();
  } catch (const cli_error& error) {
    drop(refused, processes.size());
    return tell(error.what(), no_headers);
  }
  outcome failure;
  std::string silent;
  bool has_sent = false;
  for (std::size_t at = 0; at < processes.size(); ++at) {
    const outcome result = send(processes[at], lines);
    const bool is_end = is_over_.load(std::memory_order_relaxed);
    if (is_end && !result.is_sent && result.why == no_profile) return;  // the process has ended
    if (is_end && result.why == unreachable) return note_unsent(result.problem);
    if (result.is_sent) {
      sent_.fetch_add(1, std::memory_order_relaxed);
      has_sent = true;
    } else if (result.why == no_profile) {
      if (result.problem.empty()) continue;
      silent = result.problem;
      drop(no_profile);
    } else {
      if (failure.problem.empty()) failure = result;
      drop(result.why, result.is_over ? processes.size() - at : 1);
      if (result.is_over) break;
    }
    if (is_end) break;
  }
  tell_silent(silent);
  if (!failure.problem.empty() || has_sent) tell(failure.problem, failure.kind);
}

// Only the sums tell of it, and only if not all others were sent: the program's end waits for no store.
void profile_push::note_unsent(const std::string& problem) {
  has_unsent_ = true;
  if (!std::exchange(is_bad_, true)) told_kind_ = nothing_told;
  last_ = problem;
  last_kind_ = 0;
}

void profile_push::tell_sums() const {
  std::uint64_t dropped = 0;
  for (const auto& each : dropped_) dropped += each.load(std::memory_order_relaxed);
  const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
  if (sent > 0 && dropped == 0) return;
  if (has_unsent_) ++dropped;
  const std::string sums = sent + dropped == 0
                               ? "nothing was sent, as no process gave a profile before it ended"
                               : fmt::format("profiles sent: {}, dropped: {}", sent, dropped);
  std::string why;
  if (is_bad_ && last_kind_ != told_kind_)
    why = "; the last reason: " + last_;
  else if (!is_bad_ && dropped_[late].load(std::memory_order_relaxed) > 0)
    why = ", as those before took longer than the interval";
  print_note(fmt::format("--push {}={}: {}{}", settings_.store.name(), settings_.store.url, sums, why));
}

// Begins to fail, fails for another reason, or succeeds again. The words of one kind of reason may differ each time.
void profile_push::tell(const std::string& failure, int kind) {
  is_up_.store(failure.empty(), std::memory_order_relaxed);
  const bool was_bad = std::exchange(is_bad_, !failure.empty());
  last_ = failure;
  last_kind_ = kind;
  if (is_bad_) {
    const double now = monotonic_seconds();
    if (was_bad && (kind == told_kind_ || now < next_change_)) return;
    if (was_bad) next_change_ = now + seconds_between_reasons;
    told_kind_ = kind;
    print_note(fmt::format("--push {}={}: {}; profiles are dropped until they are taken",
                           settings_.store.name(), settings_.store.url, failure));
  } else if (was_bad) {
    print_note(fmt::format("--push {}={}: profiles are taken again; dropped meanwhile: {}",
                           settings_.store.name(), settings_.store.url, std::exchange(lost_, 0)));
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
