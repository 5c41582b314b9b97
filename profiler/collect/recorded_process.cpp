// SPDX-License-Identifier: MIT
#include "profiler/collect/recorded_process.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <optional>
#include <utility>

#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/fault_watch.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t no_limit = ~std::uint64_t{0} >> 1;

std::uint64_t checkpoint_ns(const recording_settings& settings) {
  return static_cast<std::uint64_t>(settings.checkpoint_seconds * 1e9);
}

}  // namespace

recorded_process::recorded_process(const recording_context& around, const model_settings& models,
                                   process_identity who, const process_usage& usage,
                                   std::unique_ptr<process_memory> memory)
    : around_(around),
      who_(std::move(who)),
      model_(models),
      code_(who_, result_),
      rings_(std::move(memory), model_, around.clock, code_, who_.start_ns),
      usage_(usage),
      watch_(has_recorder() ? raw_clock_ns() : who_.start_ns, checkpoint_ns(around.settings)),
      output_(around.files) {}

bool recorded_process::is_main() const { return who_.pid == around_.main_process && !is_superseded_; }

bool recorded_process::is_worth_a_file() const {
  if (is_main() || output_.is_open()) return true;
  return around_.files.has_room_for(who_.pid) &&
         output_files::is_worth_one(model_.allocations(), model_.requested_bytes(), model_.seen_faults());
}

void recorded_process::inherit(const recorded_process& parent) {
  code_.inherit(parent.code_);
  if (who_.program.empty()) who_.program = parent.who_.program;  // the process sees no /proc
  who_.command = parent.who_.command;  // the process's own name may have been changed to a title
}

void recorded_process::start_with(const process_figures& figures) {
  who_.start_ticks = figures.start_ticks;
  usage_.start_with(figures);
}

void recorded_process::name(std::string program, std::vector<std::string> arguments) {
  who_.program = std::move(program);
  who_.arguments = std::move(arguments);
  who_.command = process_name(who_.arguments, who_.program);
}

// ---- events ----

bool recorded_process::drain(std::uint64_t until_ns) {
  rings_.find_rings();
  return rings_.drain(until_ns, [this] { flush_events(); });
}

void recorded_process::give(page_fault&& fault) {
  if (fault.time_ns >= who_.recorded_ns) return rings_.add(std::move(fault));
  const bool is_before = fault.time_ns < who_.start_ns && who_.parent_serial == 0;
  if (is_before || usage_.is_loading_left_out()) return;
  const process_page* const page = rings_.page();
  const bool is_recorders =
      page != nullptr && fault.address >= page->own_start && fault.address < page->own_end;
  usage_.add_early_fault(fault.weight, is_recorders);
}

// Samples of a process where malloc's code is not known are not counted: there the times of timed calls stand alone.
void recorded_process::give(const clock_sample& sample, malloc_code_reader& mallocs) {
  if (rings_.page() == nullptr || sample.time_ns < who_.start_ns) return;
  if (const auto in = code_.at(sample, *rings_.page(), mallocs))
    model_.clock_sample(static_cast<double>(sample.period_ns), *in);
}

void recorded_process::touch(const page_fault& fault) {
  add_touch(model_, code_.regions(), fault, who_.start_ns);
}

// ---- looks ----

void recorded_process::read_counters(bool at_end) {
  if (const auto status = read_process(who_.pid); status && !is_superseded_) {
    if (who_.start_ticks == 0) who_.start_ticks = status->start_ticks;
    if (status->start_ticks == who_.start_ticks) {
      usage_.read(*status);
      if (is_main() && !status->has_ended()) kills_.look(who_.pid);
    }
  }
  // acquire: partner of the process's release in process_ends: at_exit is filled
  if (at_end && has_recorder() && !is_superseded_ &&
      rings_.page()->ended.load(std::memory_order_acquire) != 0)
    usage_.end_by_exit(rings_.page()->at_exit);
  counter_row row;
  row.time_ns = raw_clock_ns() - who_.start_ns;
  row.live_bytes = model_.live_bytes();
  row.live = model_.live_blocks();
  row.allocations = model_.allocations();
  row.frees = model_.frees();
  row.seen_faults = model_.seen_faults();
  usage_.fill(row);
  model_.pass_time(row.time_ns);
  watch_.counters().add(result_.counters, row);
  raise_peak(row.resident_bytes);
}

void recorded_process::raise_peak(double resident_bytes) {
  usage_.raise_peak(resident_bytes);
  const std::vector<counter_row>& rows = result_.counters;
  // A row that is in the file stays as it is: the next one is raised.
  if (!rows.empty() && output_.has_counters_of(rows.back().time_ns)) return;
  watch_.counters().raise(result_.counters, usage_.peak_resident());
}

double recorded_process::read_peaks() {
  return usage_.read_peaks(who_.pid, around_.settings.is_attached(),
                           around_.settings.meta.contains("address_limit_bytes"));
}

// Reads what changes seldom or is expensive to read. True: the process has ended.
bool recorded_process::look_closely(std::uint64_t now) {
  if (kill(static_cast<pid_t>(who_.pid), 0) != 0 && errno != EPERM) return true;
  const auto status = read_process(who_.pid);
  if (!status) return false;
  if (who_.is_another(status->start_ticks) || status->has_ended()) return true;
  raise_peak(read_peaks());
  if (!watch_.are_names_due(now, who_.start_ns)) return false;
  code_.look_at_generated();
  for (const auto& [id, name] : thread_names(who_.pid)) model_.name_thread_by_id(id, name);
  return false;
}

bool recorded_process::look(std::uint64_t now, std::size_t processes,
                            const std::function<void()>& meanwhile) {
  if (watch_.are_counters_due(now)) {
    read_counters(false);
    // No split for a process without a file, and none after the last one, which look_at_end makes.
    if (!watch_.has_seen_end() && is_worth_a_file()) {
      watch_.split_memory_when_due(who_.pid, model_, usage_.last().resident_bytes, now - who_.start_ns,
                                   meanwhile);
    }
    watch_.plan_counters(now, processes);
  }
  ask_to_wait();
  return watch_.is_look_due(now) && look_closely(now);
}

void recorded_process::save_when_due(std::uint64_t now) {
  if (!watch_.is_checkpoint_due(now) || !is_worth_a_file()) return;
  const std::uint64_t begin = thread_clock_ns();
  write(false);
  watch_.plan_checkpoint(now, thread_clock_ns() - begin, checkpoint_ns(around_.settings));
}

// Asks the process to wait at its end, if it is to be examined there.
void recorded_process::ask_to_wait() {
  if (!has_recorder()) return;
  // Whether superseded or not: an image that an exec has replaced is still the program's process.
  const bool is_first = who_.pid == around_.main_process;
  if (!is_first && (around_.settings.mode != profile_mode::full || !is_worth_a_file())) return;
  // relaxed: a process that ends before it sees this does not wait
  if (watch_.ask()) rings_.memory()->asked_to_wait().store(1, std::memory_order_relaxed);
}

// Why leaks cannot be determined: the collector does not know all blocks. Empty: they can.
std::string recorded_process::no_leaks_because() const {
  if (around_.settings.mode == profile_mode::sample) return "mode sample records only some of the blocks";
  if (who_.parent_serial != 0) return "a forked process has its parent's blocks, too";
  if (around_.settings.is_attached()) return "blocks from before tarn attach are not known";
  if (rings_.is_overwritten()) return "the program has overwritten some of what its recorder told";
  if (rings_.memory()->lost_events() > 0) return "events were lost";
  // relaxed, both: nothing else depends on them
  if (rings_.page()->lost_threads.load(std::memory_order_relaxed) > 0) return "not all threads were recorded";
  if (rings_.page()->silent_because.load(std::memory_order_relaxed) != silence::none)
    return "the recording ended before the program";
  return "";
}

void recorded_process::look_at_end(const std::function<void()>& meanwhile) {
  if (!has_recorder() || watch_.has_seen_end() || !rings_.memory()->waits_at_end()) return;
  // Another process may have got the same id since.
  const auto status = read_process(who_.pid);
  if (!status || status->start_ticks != who_.start_ticks) return;
  watch_.see_end();
  code_.look_at_generated();
  const std::uint64_t begin = raw_clock_ns();
  leak_answer leaks;
  leaks.problem = no_leaks_because();
  std::optional<stopped_process> stopped;
  if (leaks.problem.empty()) stopped.emplace(static_cast<pid_t>(who_.pid));
  if (stopped && stopped->problem().empty()) drain(no_limit);
  const double peak = read_peaks();
  usage_.set_peak_exact(peak > 0);
  raise_peak(peak);
  read_counters(true);
  watch_.split_memory(who_.pid, model_, raw_clock_ns() - who_.start_ns, meanwhile);
  if (stopped) {
    leaks = look_for_leaks({who_.pid, rings_.page()->allocator_start, meanwhile}, model_, *stopped);
    for (const lost_blocks& one : leaks.lost) model_.set_lost(one);
  }
  stopped.reset();
  watch_.set_leaks(std::move(leaks), raw_clock_ns() - begin);
  // release: partner of the process's acquire in process_ends: the examination is complete before the process goes on
  rings_.memory()->released().store(1, std::memory_order_release);
}

// Why leaks are not known if the process does not come to be examined.
std::string recorded_process::why_not_seen_at_end() const {
  if (around_.settings.mode == profile_mode::faults) return "mode faults knows no blocks";
  std::string reason = no_leaks_because();
  if (reason.empty() && is_superseded_) reason = "the process has called exec";
  if (reason.empty()) reason = "the process did not end by exit, or ended before tarn could look";
  return reason;
}

// ---- the end ----

void recorded_process::supersede(const usage_figures* at_exec) {
  is_superseded_ = true;
  if (at_exec != nullptr) usage_.end_by_exec(*at_exec);
}

void recorded_process::end() {
  drain(no_limit);
  model_.finish_events();
  read_counters(true);
  if (!is_superseded_) code_.look_at_generated();
}

void recorded_process::absorb(recorded_process& child) {
  // relaxed: an independent counter
  const double own_faults =
      child.has_recorder()
          ? static_cast<double>(child.rings_.page()->own_faults.load(std::memory_order_relaxed))
          : 0;
  usage_.add_child(child.usage_, child.model_.allocations(), own_faults, child.result_.counters.back());
  model_.absorb(child.model_);
  result_.symbols.merge(child.result_.symbols);
}

void recorded_process::close() {
  if (has_recorder()) result_.lost_events = rings_.memory()->lost_events();
  rings_.close();
  model_ = process_model(model_settings{});  // frees the memory of its blocks
}

// ---- the profile ----

void recorded_process::fill(bool last) {
  model_.fill(result_);
  fill_meta(last);
  result_.memory = watch_.memory();
  result_.mode = around_.settings.mode;
  result_.prices = around_.settings.prices;
  fill_recorder_figures();
  fit_costs(result_);
}

// Adds the figures that the recorder counted in the process.
void recorded_process::fill_recorder_figures() {
  if (has_recorder()) {
    const process_page& page = *rings_.page();
    // relaxed: independent counters
    const auto checked = static_cast<double>(page.unwind_checked.load(std::memory_order_relaxed));
    const auto wrong = static_cast<double>(page.unwind_wrong.load(std::memory_order_relaxed));
    // The recorder times only its slow paths, system calls included. Clock samples also cover the fast path of each
    // call, but nothing in the kernel. The larger figure is taken.
    const clock_counts& clock = model_.clock();
    result_.recorder_ns = std::max(around_.clock.duration_ns(page.own_ticks.load(std::memory_order_relaxed)),
                                   clock.in_recorder * clock.ns_each);
    result_.lost_events = rings_.memory()->lost_events();
    result_.unwind_checked = checked;
    result_.unwind_error_rate = checked > 0 ? wrong / checked : 0;
  }
  usage_.fill_faults(result_, rings_.page(), model_.seen_faults());
}

// Why the time in malloc comes from timed calls alone; empty: it does not, or nothing is timed.
std::string recorded_process::why_without_clock() const {
  if (around_.settings.mode != profile_mode::sample) return {};
  const std::string why =
      around_.faults.clock_ns() == 0 ? "samples of the clock (the kernel refuses them)" : code_.why_unknown();
  if (why.empty()) return {};
  return why + ": time in malloc is that of timed calls alone, which can be wrong by a third";
}

// What the profile does not have, as sentences for the user.
nlohmann::json recorded_process::refusals() const {
  const nlohmann::json& meta = around_.settings.meta;
  nlohmann::json refused = meta.contains("refused") ? meta["refused"] : nlohmann::json::array();
  const auto add = [&refused](std::string why) {
    if (!why.empty()) refused.push_back(std::move(why));
  };
  const fault_events& faults = around_.faults;
  if (!faults.is_open()) refused.push_back(faults.refusal());
  if (faults.is_open() && !faults.sees_kernel()) {
    add("page faults that the kernel takes itself, as in read() into fresh memory, are counted, not seen (as root, or at "
        "kernel.perf_event_paranoid 1 they are)");
  }
  add(why_without_clock());
  if (faults.lost() > 0) add(fmt::format("{:.0f} page faults were lost: they came too fast", faults.lost()));
  if (model_.without_callers() > 0) {
    add(fmt::format(
        "there are more call paths than a profile holds: of {} allocations only the function that called malloc is "
        "known, without its callers",
        say_count(std::round(model_.without_callers()))));
  }
  if (model_.events_cut()) add(fmt::format("the events table ends after {} events", most_events));
  for (std::string& why : rings_.refusals()) add(std::move(why));
  add(output_.without_events());
  add(output_.problem());
  return refused;
}

void recorded_process::fill_meta(bool last) {
  nlohmann::json meta = around_.settings.meta;
  meta["program"] = who_.program;
  meta["arguments"] = who_.arguments;
  meta["pid"] = who_.pid;
  meta["parent"] = who_.parent_pid;
  meta["command"] = who_.command;
  meta["start"] = who_.start_seconds;
  const std::uint64_t lasted_ns = raw_clock_ns() - who_.start_ns;
  meta["duration_ns"] = lasted_ns;
  if (!last) meta["unfinished"] = true;
  // Readings of the last untouched_ns are all there; of those before, some were taken out.
  const std::uint64_t untouched_ns = watch_.counters().untouched_ns();
  if (untouched_ns > 0 || model_.joined_threads() > 0) {
    meta["thinned"] = {
        {"readings_before_ns", untouched_ns > 0 ? lasted_ns - std::min(lasted_ns, untouched_ns) : 0},
        {"threads", model_.joined_threads()}};
  }
  meta["sample_bytes"] = around_.settings.mode == profile_mode::sample ? around_.settings.sample_bytes : 0;
  meta["fault_period"] = around_.faults.is_open() ? std::round(around_.faults.period()) : 0;
  meta["page_bytes"] = sysconf(_SC_PAGESIZE);
  meta["allocator"] = who_.allocator;
  meta["refused"] = refusals();
  usage_.fill(meta);
  meta["growth_from_ns"] = model_.mark_ns();
  watch_.fill_leaks(meta, why_not_seen_at_end());
  meta["odd_events"] = model_.odd_events();
  if (const int status = around_.main_status; is_main() && status >= 0) {
    meta["exit"] = WIFEXITED(status) ? nlohmann::json({{"status", WEXITSTATUS(status)}})
                                     : nlohmann::json({{"signal", WTERMSIG(status)}});
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) meta["out_of_memory"] = name_of(kills_.since());
  }
  result_.meta = std::move(meta);
}

// ---- the file ----

void recorded_process::open_file() {
  std::optional<table> command;
  if (around_.settings.command && who_.pid == around_.main_process)
    command = command_table(*around_.settings.command);
  output_.open(who_, is_main(), std::move(command));
}

void recorded_process::store(bool last) {
  if (output_.is_open()) output_.clear_problem();
  fill(last);
  if (!output_.store(result_)) give_up_events(last);
}

void recorded_process::give_up_events(bool last) {
  model_.drop_events();
  output_.give_up_events(result_, [this, last] { fill(last); });
}

void recorded_process::flush_events() {
  if (model_.waiting_events() == 0) return;
  if (!output_.is_open()) {
    open_file();
    if (output_.is_open()) store(false);  // what events refer to comes before them
  }
  if (!output_.append_events(model_.take_events())) give_up_events(false);
}

void recorded_process::write(bool last) {
  flush_events();
  open_file();
  store(last);
  output_.report_problem();
}

profile recorded_process::finish_file() {
  code_.name_generated();
  add_symbols(result_, around_.settings.symbols);
  jit_code::note_missing(result_);
  output_.finish(result_);
  return std::move(result_);
}

}  // namespace tarn::profiler
