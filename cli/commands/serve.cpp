// SPDX-License-Identifier: MIT
// tarn serve: a server beside running processes, which gives their memory figures to Prometheus, their heap profiles to
// pprof, and a page to a browser. It asks the processes at their control sockets, once per request, and keeps only names of their
// code. With --mcp it serves an agent instead.
#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/agent/mcp_server.hpp"
#include "cli/commands/commands.hpp"
#include "cli/control/control_client.hpp"
#include "cli/control/http_server.hpp"
#include "cli/control/named_profiles.hpp"
#include "cli/control/process_answers.hpp"
#include "cli/control/profile_push.hpp"
#include "cli/control/push_options.hpp"
#include "cli/control/pushed_labels.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/box_files.hpp"
#include "cli/recording/box_watch.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/collect/fault_watch.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/format/openmetrics.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning serve_exits[] = {
    {0, "ended by SIGINT or SIGTERM, or by the end of its input (--mcp)"}, usage_exit, refused_exit};

constexpr command_text serve_text = {
    .name = "serve",
    .summary = "Serve the memory figures of running processes over HTTP, or tarn to an agent.",
    .usage = "tarn serve [OPTIONS] [PID|NAME...]\ntarn serve --mcp",
    .examples =
        "  tarn serve 4711                          http://127.0.0.1:9464/\n"
        "  tarn serve server                        all processes of this name, also\n"
        "                                           later ones\n"
        "  tarn serve --listen 0.0.0.0:9464 server  for other machines as well\n"
        "  tarn serve --black-box /dev/shm/boxes    says what killed services held\n"
        "  tarn serve --push pyroscope=http://pyroscope:4040 server\n"
        "  tarn serve --mcp                         for a client that starts it: profile,\n"
        "                                           show, advise, prove, diff\n",
    .notes =
        "  /metrics              OpenMetrics text, with the labels pid and program\n"
        "  /debug/pprof/heap     live memory by place, for go tool pprof and others\n"
        "  /debug/pprof/allocs   the same for all allocations\n"
        "  /debug/pprof/faults   page faults by the code that touched the memory; watched\n"
        "                        for 10 s, or ?seconds=N (60 at most)\n"
        "  /healthz              'ok' while a process answers, else status 503\n"
        "  /                     a page with the figures of now\n"
        "\n"
        "With several processes, profiles need ?pid=PID. The processes need tarn's malloc\n"
        "and the option control (TARN_CONTROL=on), heap and allocs also their option\n"
        "profile; faults needs perf_event_open (kernel.perf_event_paranoid 2 or less).\n"
        "By name it is reached as localhost, by this machine's name, and by those of\n"
        "--host-name; others are refused, as a browser may be led here by any name.\n"
        "There is no encryption and no password: whoever reaches the address can read\n"
        "everything, but change nothing.\n"
        "\n"
        "--mcp: the Model Context Protocol on standard input and output, until the input\n"
        "ends. It runs what the client asks for, with your rights\n"
        "(docs/how-to/agents.md).\n",
    .exits = serve_exits,
    .page = "docs/how-to/metrics.md",
};

constexpr double default_fault_seconds = 10;
constexpr double seconds_between_looks = 0.1;  // at black boxes
constexpr unsigned most_fault_seconds = 60;

// The page at /, of cli/control/live_page.html.
constexpr const char* live_page =
#include "live_page.inc"
    ;
constexpr const char* symbol_path = "/debug/pprof/symbol";
constexpr const char* openmetrics_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

class sidecar {
 public:
  explicit sidecar(std::vector<std::string> words) : words_(std::move(words)) {
    for (const std::string& word : words_) {
      if (word.empty() || word.find('/') != std::string::npos)
        throw cli_error(exit_code::usage,
                        fmt::format("'{}' is neither a process id nor a process's name", word),
                        "Give what ps -o pid,comm shows.");
    }
  }

  http_answer answer(const http_request& request) const {
    if (request.path == "/metrics") return metrics(request);
    if (request.path == "/debug/pprof/heap") return profile(request, "heap");
    if (request.path == "/debug/pprof/allocs") return profile(request, "allocs");
    if (request.path == "/debug/pprof/faults") return faults(request);
    // What go tool pprof asks for addresses that have no name yet: there are none here either.
    if (request.path == symbol_path) return {200, "text/plain; charset=utf-8", "num_symbols: 0\n"};
    if (request.path == "/healthz") return health();
    if (request.path == "/") return {200, "text/html; charset=utf-8", live_page};
    return {404, "text/plain; charset=utf-8",
            "/metrics /debug/pprof/heap /debug/pprof/allocs /debug/pprof/faults /healthz /\n"};
  }

  // Answers that are still being made end soon.
  void end() { is_over_.store(true, std::memory_order_relaxed); }

  // At the moment: names stand for the processes that have them now.
  std::vector<pid_t> processes() const {
    std::set<pid_t> all;
    for (const std::string& word : words_) {
      if (const auto process = process_id(word)) {
        all.insert(*process);
      } else {
        const std::vector<pid_t> named = controlled_processes(word);
        all.insert(named.begin(), named.end());
      }
    }
    return {all.begin(), all.end()};
  }

  std::string named_profile(pid_t process, const char* view) const {
    profiles_.keep(processes());
    return profiles_.ask(process, view);
  }

  // Its figures are served, too.
  void note(const profile_push& push) { push_ = &push; }

 private:
  http_answer metrics(const http_request& request) const {
    std::vector<profiler::labelled_metrics> parts;
    profiler::metric_family up{"tarn_up", false, "1 if the process answers.", {}};
    const std::vector<pid_t> all = processes();
    auto answers = metrics_of(all);
    for (std::size_t at = 0; at < all.size(); ++at) {
      const std::string pid = std::to_string(all[at]);
      up.samples.push_back({profiler::written_labels({{"pid", pid}}), answers[at] ? "1" : "0"});
      if (!answers[at]) continue;
      parts.push_back({profiler::written_labels({{"pid", pid}, {"program", name_of_process(all[at])}}),
                       std::move(*answers[at])});
    }
    parts.push_back({"", {{std::move(up)}}});
    if (push_ != nullptr) parts.push_back({"", push_->metrics()});
    if (request.accepts_openmetrics)
      return {200, openmetrics_type, profiler::write_metrics(parts, profiler::metrics_format::openmetrics)};
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            profiler::write_metrics(parts, profiler::metrics_format::prometheus)};
  }

  // The process whose profile is asked for. None: `instead` is the answer.
  std::optional<pid_t> chosen(const http_request& request, http_answer& instead) const {
    const std::vector<pid_t> all = processes();
    pid_t process = all.size() == 1 ? all.front() : 0;
    if (const auto asked = request.parameters.find("pid"); asked != request.parameters.end()) {
      const auto number = process_id(asked->second);
      process = number && std::find(all.begin(), all.end(), *number) != all.end() ? *number : 0;
    }
    if (process != 0) return process;
    std::string which;
    for (const pid_t each : all) which += fmt::format(" {}", each);
    instead = {404, "text/plain; charset=utf-8",
               fmt::format("say which process: ?pid=PID; there are:{}\n", which)};
    return std::nullopt;
  }

  http_answer profile(const http_request& request, const char* view) const {
    http_answer answer;
    const auto process = chosen(request, answer);
    if (!process) return answer;
    return {200, "application/octet-stream", profiler::gzipped(named_profile(*process, view))};
  }

  // One at a time: the memory that an ordinary user may lock for events is enough for one.
  http_answer faults(const http_request& request) const {
    http_answer answer;
    double seconds = default_fault_seconds;
    if (const auto asked = request.parameters.find("seconds"); asked != request.parameters.end()) {
      char* end = nullptr;
      seconds = std::strtod(asked->second.c_str(), &end);
      if (*end != '\0' || !(seconds > 0 && seconds <= most_fault_seconds))
        return {400, "text/plain; charset=utf-8",
                fmt::format("seconds takes a number above 0, {} at most\n", most_fault_seconds)};
    }
    const auto process = chosen(request, answer);
    if (!process) return answer;
    const std::unique_lock turn(watching_, std::try_to_lock);
    if (!turn.owns_lock())
      return {503, "text/plain; charset=utf-8", "page faults are being watched already; ask again later\n"};
    const profiler::profile seen =
        profiler::watch_faults(static_cast<std::uint32_t>(*process), seconds,
                               [this] { return is_over_.load(std::memory_order_relaxed); });
    return {200, "application/octet-stream",
            profiler::export_pprof(seen, {profiler::find_metric("faults"), 1})};
  }

  http_answer health() const {
    if (is_any_answering(processes())) return {200, "text/plain; charset=utf-8", "ok\n"};
    return {503, "text/plain; charset=utf-8", "no process answers\n"};
  }

  std::vector<std::string> words_;
  const profile_push* push_ = nullptr;
  std::atomic<bool> is_over_{false};
  mutable std::mutex watching_;
  mutable named_profiles profiles_;
};

}  // namespace

int cmd_serve(const std::vector<std::string>& words) {
  command app(serve_text);
  std::vector<std::string> processes, host_names;
  std::string listen = "127.0.0.1:9464", boxes;
  push_arguments push;
  bool json = false, for_agent = false;
  std::vector<limited_option> options = {
      {app.option("process PID|NAME...", processes, "Process ids, or names of processes"), {""}},
      {app.option("--listen ADDRESS:PORT", listen,
                  "Where to listen (127.0.0.1:9464); port 0: the system chooses"),
       {""}},
      {app.option("--host-name NAME", host_names,
                  "Answer browsers and others that reach the server by this name; may be repeated")
           ->allow_extra_args(false),
       {""}},
      {app.option("--black-box DIR", boxes,
                  "Say what each process held that is killed, of those started with TARN_BLACK_BOX=DIR"),
       {""}}};
  for (const CLI::Option* const each : add_push_options(app, push)) options.push_back({each, {""}});
  options.push_back({app.add_flag("--json", json, "Print the address as one JSON object"), {""}});
  app.add_flag(
      "--mcp", for_agent,
      "Serve an agent on standard input and output (Model Context Protocol): tools that profile, show, "
      "advise and prove");
  if (!parse_options(app, words)) return exit_code::success;
  require_fitting(options, for_agent ? "--mcp" : "", "serve");
  if (for_agent) return serve_agent(TARN_CLI_VERSION);
  if (processes.empty() && boxes.empty())
    throw cli_error(exit_code::usage, "there is nothing to serve",
                    "Name processes, or the folder of black boxes (--black-box DIR).");
  const auto pushed = push_settings_of(app, push);
  if (pushed && processes.empty())
    throw cli_error(exit_code::usage, "--push needs processes",
                    "Name them: by their ids, or by their names.");
  const auto where = parse_listen_address(listen);
  sidecar answers(processes);
  // A wrong number is reported now, not at the first request.
  for (const std::string& word : processes) {
    if (const auto process = process_id(word)) require_answer(*process);
  }
  const held_signals signals{SIGINT, SIGTERM, SIGHUP};
  std::optional<profile_push> pushing;
  if (pushed) {
    answers.note(pushing.emplace(
        *pushed, push_source{[&answers] { return answers.processes(); },
                             [&answers](pid_t process) { return answers.named_profile(process, "heap"); },
                             [&pushed](pid_t process) { return labels_of(process, pushed->labels); }}));
  }
  if (!boxes.empty()) boxes = box_folder(boxes);  // makes it, so all words have been checked before
  if (pushing) pushing->begin();
  http_server server(where, host_names, {symbol_path},
                     [&answers](const http_request& request) { return answers.answer(request); });
  if (!server.where().is_loopback())
    print_note("other machines can read these figures; whoever reaches the address sees names of the code");
  const std::string address = fmt::format("http://{}/", server.where().text());
  fmt::print("{}\n", json ? json_text({{"address", address}}) : address);
  std::fflush(stdout);
  for (const std::string& word : processes) {
    if (!process_id(word) && controlled_processes(word).empty())
      print_note(fmt::format("no process named '{}' answers yet; it is served as soon as one does", word));
  }
  std::optional<box_watch> watch;
  if (!boxes.empty()) watch.emplace(boxes).take_old();
  while (signals.take(watch ? seconds_between_looks : 1) == 0) {
    server.end_late();
    if (watch) watch->look(0);
  }
  if (watch) watch->tell_dropped();
  answers.end();
  return exit_code::success;
}

}  // namespace tarn::cli
