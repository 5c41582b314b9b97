// SPDX-License-Identifier: MIT
#include "cli/agent/mcp_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/agent/agent_tools.hpp"
#include "cli/agent/rpc_message.hpp"
#include "cli/agent/running_verb.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"

namespace tarn::cli {

namespace {

// Oldest first. 2025-03-26 is missing: it asks servers to take batches.
constexpr std::array<const char*, 3> protocol_versions = {"2024-11-05", "2025-06-18", "2025-11-25"};
constexpr std::size_t most_waiting = 16;

constexpr const char* instructions =
    "Memory allocation of C, C++ and other programs on Linux: find what costs, change it, prove that it helps. 1. profile "
    "the program (mode full if it runs for seconds), then show. 2. advise. 3. Edit the source and build it to another "
    "path, so that the recorded program stays. 4. prove with build, for time and peak memory; or profile the new program and "
    "diff, for exact counts. A finding that prove does not confirm is not an improvement: say so.";

// The newest that is not newer than what the client asks for; of one that is older than all, the newest.
std::string version_for(const nlohmann::json& parameters) {
  const auto asked = parameters.find("protocolVersion");
  const std::string wish = asked != parameters.end() && asked->is_string() ? asked->get<std::string>() : "";
  const char* chosen = protocol_versions.back();
  for (const char* each : protocol_versions) {
    if (wish >= each) chosen = each;
  }
  return chosen;
}

void write_line(const std::string& line) {
  fmt::print("{}", line);
  flush_standard_output();
}

struct asked_call {
  nlohmann::json id;
  tool_call call;
};

class agent_server {
 public:
  explicit agent_server(std::string version) : version_(std::move(version)) {}

  int run() {
    const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD};
    const open_file news(signalfd(-1, &signals.held(), SFD_CLOEXEC | SFD_NONBLOCK));
    if (news.number() < 0) throw resource_error("cannot watch for signals", errno);
    mask_ = signals.before();
    while (!is_over_) {
      start_next();
      wait_for_news(news.number());
      if (running_ && running_->is_over()) finish();
    }
    if (running_) {
      running_->end_within(running_verb::seconds_to_end);
      waiting_.push_front({running_id_, running_->call()});
    }
    running_.reset();
    for (const asked_call& each : waiting_)
      write_line(
          rpc_error(each.id, rpc_code::busy, "the server has ended before the call; keep its input open"));
    return exit_code::success;
  }

 private:
  void wait_for_news(int signals) {
    std::vector<pollfd> streams = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
    int wait = -1;
    if (running_) {
      running_->add_streams(streams);
      wait = running_->milliseconds_to_wait();
    }
    if (poll(streams.data(), streams.size(), wait) < 0 && errno != EINTR)
      throw resource_error("cannot wait for messages", errno);
    if (running_) running_->take(streams);
    if (streams[1].revents != 0) take_signals(signals);
    if (streams[0].revents != 0) read_messages();
  }

  void take_signals(int signals) {
    signalfd_siginfo one = {};
    while (read(signals, &one, sizeof one) == sizeof one) {
      if (one.ssi_signo != SIGCHLD) is_over_ = true;
    }
    if (running_) running_->reap_orphans();
  }

  void read_messages() {
    std::array<char, 65536> part;
    const ssize_t size = read(STDIN_FILENO, part.data(), part.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) {
      is_over_ = true;
      if (!line_.empty()) take(read_rpc_line(line_));  // the last one had no end
      return;
    }
    std::string_view rest(part.data(), static_cast<std::size_t>(size));
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      keep(rest.substr(0, end));
      rest.remove_prefix(end + 1);
      if (!std::exchange(is_too_long_, false)) take(read_rpc_line(line_));
      line_.clear();
    }
    keep(rest);
  }

  // Of a line that is too long nothing is kept, and its refusal is sent before its end comes.
  void keep(std::string_view part) {
    if (is_too_long_) return;
    line_.append(part);
    if (line_.size() <= most_line_bytes) return;
    is_too_long_ = true;
    line_ = {};
    write_line(refusal_of_long_line());
  }

  void take(rpc_line said) {
    if (!said.refusal.empty()) write_line(said.refusal);
    if (!said.request) return;
    const rpc_request& request = *said.request;
    if (request.id.is_null()) {
      if (request.method == "notifications/cancelled") cancel(request.parameters);
      return;
    }
    if (request.method == "initialize") {
      write_line(rpc_result(request.id, {{"protocolVersion", version_for(request.parameters)},
                                         {"capabilities", {{"tools", nlohmann::json::object()}}},
                                         {"serverInfo", {{"name", "tarn"}, {"version", version_}}},
                                         {"instructions", instructions}}));
    } else if (request.method == "ping") {
      write_line(rpc_result(request.id, nlohmann::json::object()));
    } else if (request.method == "tools/list") {
      nlohmann::json tools = nlohmann::json::array();
      for (const agent_tool& each : agent_tools()) tools.push_back(as_json(each));
      write_line(rpc_result(request.id, {{"tools", std::move(tools)}}));
    } else if (request.method == "tools/call") {
      ask(request);
    } else {
      write_line(rpc_error(request.id, rpc_code::unknown_method,
                           "unknown method; there are initialize, ping, tools/list and tools/call"));
    }
  }

  void ask(const rpc_request& request) {
    const auto name = request.parameters.find("name");
    const agent_tool* const tool =
        name != request.parameters.end() && name->is_string() ? find_tool(name->get<std::string>()) : nullptr;
    if (tool == nullptr) {
      write_line(rpc_error(request.id, rpc_code::invalid_parameters, "unknown tool; see tools/list"));
    } else if (waiting_.size() >= most_waiting) {
      write_line(rpc_error(request.id, rpc_code::busy,
                           fmt::format("{} calls wait already; tools run one at a time", most_waiting)));
    } else {
      try {
        const auto given = request.parameters.find("arguments");
        const bool is_given = given != request.parameters.end() && !given->is_null();
        waiting_.push_back({request.id, call_of(*tool, is_given ? *given : nlohmann::json::object())});
      } catch (const argument_error& error) {
        answer(request.id, {error.what(), true});
      }
    }
  }

  // A request that was cancelled gets no answer.
  void cancel(const nlohmann::json& parameters) {
    const auto id = parameters.find("requestId");
    if (id == parameters.end()) return;
    if (running_ && running_id_ == *id) {
      running_->end_within(running_verb::seconds_to_end);
      running_.reset();
    }
    std::erase_if(waiting_, [&id](const asked_call& each) { return each.id == *id; });
  }

  void start_next() {
    while (!running_ && !waiting_.empty()) {
      asked_call next = std::move(waiting_.front());
      waiting_.pop_front();
      try {
        running_.emplace(next.call, mask_);
        running_id_ = next.id;
      } catch (const cli_error& error) {
        answer(next.id, {error.what(), true});
      }
    }
  }

  void finish() {
    const tool_answer made = answer_of(running_->call(), running_->outcome());
    running_.reset();
    answer(running_id_, made);
  }

  static void answer(const nlohmann::json& id, const tool_answer& what) {
    const nlohmann::json text = {{"type", "text"}, {"text", what.text}};
    write_line(rpc_result(id, {{"content", nlohmann::json::array({text})}, {"isError", what.is_error}}));
  }

  std::string version_;
  sigset_t mask_ = {};  // of children
  std::string line_;    // what has come of it
  bool is_too_long_ = false;
  bool is_over_ = false;
  std::deque<asked_call> waiting_;
  std::optional<running_verb> running_;
  nlohmann::json running_id_;
};

}  // namespace

int serve_agent(const std::string& version) { return agent_server(version).run(); }

}  // namespace tarn::cli
