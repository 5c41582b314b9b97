// SPDX-License-Identifier: MIT
#include "profiler/collect/recording.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "profiler/collect/clock_price.hpp"
#include "profiler/format/quantity.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

constexpr std::uint64_t look_at_one_every_ns = second_ns / 100;
constexpr std::uint64_t take_every_ns = second_ns / 200;  // at least, during long work
constexpr std::uint64_t first_clock_lasts_ns = second_ns;
constexpr std::size_t many_faults = 500;  // in one drain
constexpr std::size_t most_looks = 32;    // processes looked at in one round
constexpr int most_arrivals = 1024;       // per drain; more than a socket's queue holds
constexpr std::size_t most_early_faults = std::size_t{1} << 16;
constexpr std::size_t most_early_samples = std::size_t{1} << 12;

// Tries to give the events kept so far, then the new ones. Those that it cannot give yet, as their images have not arrived, are kept, as
// long as there is room; those of images without a recorder are among them.
template <class Event, class Give>
void give_all(std::vector<Event>& kept, std::vector<Event>& added, std::size_t most, Give give) {
  std::erase_if(kept, give);
  for (Event& event : added) {
    if (!give(event) && kept.size() < most) kept.push_back(std::move(event));
  }
}

}  // namespace

recording::recording(const recording_settings& settings)
    : settings_(settings),
      clock_(best_tick_source()),
      files_(settings_),
      context_{settings_, clock_, faults_, files_},
      finished_(context_) {
  if (settings_.mode != profile_mode::faults) {
    const record_mode mode = settings_.mode == profile_mode::full ? record_mode::full : record_mode::sample;
    session_ = std::make_unique<session_host>(mode, settings_.sample_bytes, settings_.first_halvings, clock_);
  }
  open_faults();
  begin_ns_ = raw_clock_ns();
  const std::chrono::duration<double> since_1970 = std::chrono::system_clock::now().time_since_epoch();
  begin_seconds_ = since_1970.count();
}

void recording::open_faults() {
  fault_settings faults;
  faults.everything = settings_.mode != profile_mode::sample;
  faults.mappings = settings_.mode == profile_mode::faults;
  faults.process = settings_.program;
  // Only in mode sample: mode full slows the program so much that its malloc takes longer than it would otherwise,
  // and the clock samples would count that.
  if (settings_.mode == profile_mode::sample) {
    const clock_periods periods = clock_periods_for(clock_sample_price());
    faults.clock_ns = periods.later;
    faults.first_clock_ns = periods.first;
  }
  faults_.open(faults);
}

std::string recording::place() const { return session_ ? session_->place() : std::string(); }

std::vector<int> recording::placed_descriptors() const {
  return session_ ? session_->placed_descriptors() : std::vector<int>();
}

// From a single reading of the wall clock, so that setting the clock during the recording cannot shift processes
// against each other.
double recording::seconds_since_1970(std::uint64_t raw_ns) const {
  return begin_seconds_ + (static_cast<double>(raw_ns) - static_cast<double>(begin_ns_)) / 1e9;
}

model_settings recording::settings_of_models() const {
  model_settings models;
  models.full = settings_.mode != profile_mode::sample;
  models.sample_bytes = static_cast<double>(settings_.sample_bytes);
  models.first_halvings = settings_.first_halvings;
  models.malloc_pair_ns = settings_.prices.malloc_pair;
  models.timer_ns = settings_.prices.timed_call;
  models.fault_ns = settings_.prices.fault;
  models.unmap_page_ns = settings_.prices.unmap_page;
  models.page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  models.join_faults = faults_.is_open();
  // Sampled blocks' events would show no view or export more than the sites do.
  models.most_events = settings_.keep_events && settings_.mode == profile_mode::full ? most_events : 0;
  return models;
}

// ---- events of the kernel ----

void recording::take_kernel_events() {
  new_.clear();
  faults_.take(new_);
  if (settings_.mode == profile_mode::faults) {
    follow_processes();
    follow_mappings();
    return place_faults();
  }
  for (const process_event& event : new_.processes) {
    if (event.kind == process_event::what::executed) tree_.note_exec(event.process, event.time_ns);
  }
  give_all(early_clock_, new_.clock, most_early_samples,
           [this](const clock_sample& sample) { return give(sample); });
  give_all(early_faults_, new_.faults, most_early_faults, [this](page_fault& fault) { return give(fault); });
}

bool recording::give(page_fault& fault) {
  recorded_process* owner = tree_.by_id(fault.process);
  if (owner == nullptr || tree_.is_of_next_image(fault.process, fault.time_ns)) return false;
  owner->give(std::move(fault));
  return true;
}

bool recording::give(const clock_sample& sample) {
  recorded_process* owner = tree_.by_id(sample.process);
  if (owner == nullptr || tree_.is_of_next_image(sample.process, sample.time_ns)) return false;
  owner->give(sample, malloc_codes_);
  return true;
}

// ---- mode faults: processes and their mappings by the kernel's events ----

recorded_process& recording::add_seen_process(std::uint32_t pid, recorded_process* parent,
                                              std::uint64_t time_ns) {
  process_identity who;
  who.serial = ++last_serial_;
  who.pid = pid;
  who.start_ns = time_ns;
  who.start_seconds = seconds_since_1970(time_ns);
  if (parent != nullptr) {
    who.parent_serial = parent->identity().serial;
    who.parent_pid = parent->identity().pid;
    who.arguments = parent->identity().arguments;
  }
  auto added = std::make_unique<recorded_process>(context_, settings_of_models(), std::move(who),
                                                  process_usage(), nullptr);
  if (parent != nullptr) added->inherit(*parent);
  if (const auto status = read_process(pid)) added->start_with(*status);
  return tree_.add(std::move(added));
}

void recording::follow_exec(const process_event& event) {
  if (recorded_process* earlier = tree_.by_id(event.process)) {
    earlier->supersede(nullptr);
    end_process(*earlier);
  }
  recorded_process& process = add_seen_process(event.process, nullptr, event.time_ns);
  std::error_code error;
  const std::string file = fs::read_symlink(fmt::format("/proc/{}/exe", event.process), error).string();
  process.name(error ? event.name : file, command_line_of(event.process));
}

void recording::follow_processes() {
  new_.sort();
  for (const process_event& event : new_.processes) {
    recorded_process* known = tree_.by_id(event.process);
    if (event.kind == process_event::what::forked && event.process != event.parent && known == nullptr)
      add_seen_process(event.process, tree_.by_id(event.parent), event.time_ns);
    if (event.kind == process_event::what::named && known != nullptr)
      known->name_thread(event.thread, event.name);
    if (event.kind == process_event::what::executed) follow_exec(event);
  }
}

void recording::follow_mappings() {
  for (const mapping_event& mapping : new_.mappings) {
    if (recorded_process* owner = tree_.by_id(mapping.process)) owner->map(mapping);
  }
}

// A fault's site is the call path that touched the memory, and the name of its mapping.
void recording::place_faults() {
  for (const page_fault& fault : new_.faults) {
    if (recorded_process* owner = tree_.by_id(fault.process)) owner->touch(fault);
  }
}

// ---- what processes send ----

void recording::take_arrivals() {
  for (int count = 0; count < most_arrivals; ++count) {
    std::optional<arrival> next = session_->receive();
    if (!next) return;
    add_process(std::move(*next));
  }
}

image_begin recording::find_begin(const process_identity& who, const process_page& page,
                                  const recorded_process* earlier) {
  image_facts facts;
  facts.recorded_ns = who.recorded_ns;
  facts.at_start = page.at_start;
  facts.is_forked = who.parent_serial != 0;
  facts.is_attached = settings_.is_attached();
  facts.executed_ns = tree_.take_exec(who.pid, who.recorded_ns);
  facts.started_ns = who.pid == context_.main_process ? main_started_ns_ : 0;
  facts.has_earlier = earlier != nullptr;
  if (earlier != nullptr)
    facts.earlier_ns = earlier->last_figures().user_ns + earlier->last_figures().system_ns;
  for (const page_fault& fault : early_faults_) {
    const bool is_loading = fault.time_ns >= facts.executed_ns && fault.time_ns < who.recorded_ns;
    if (fault.process == who.pid && is_loading) facts.loading_faults += fault.weight;
  }
  facts.sees_kernel = faults_.sees_kernel();
  return begin_of(facts);
}

void recording::add_process(arrival&& from) {
  take_kernel_events();  // among them the image's exec
  const process_page& page = from.memory->page();
  using arguments = std::vector<std::string>;
  const auto status = read_process(from.process);
  recorded_process* earlier = tree_.by_id(from.process);
  // What knows its parent has come from fork: no memory outlasts exec.
  const bool is_first_image = earlier == nullptr || page.parent_serial != 0 ||
                              (status && earlier->identity().is_another(status->start_ticks));
  if (earlier != nullptr && is_first_image) end_process(*earlier);
  process_identity who{
      .pid = from.process, .user = from.user, .parent_pid = static_cast<std::uint32_t>(page.parent_pid)};
  // Only the first image was made by fork; after exec there is no parent to add to.
  who.parent_serial = is_first_image ? page.parent_serial : 0;
  who.recorded_ns = std::min(clock_.to_ns(page.start_ticks), raw_clock_ns());
  const image_begin begin = find_begin(who, page, is_first_image ? nullptr : earlier);
  who.start_ns = begin.start_ns;
  who.start_seconds = seconds_since_1970(begin.start_ns);
  if (!is_first_image) {
    earlier->supersede(&begin.before);
    end_process(*earlier);
  }
  // A serial that another process has already is forged: it would divert the figures of that process's children.
  who.serial = tree_.by_serial(page.serial) == nullptr ? page.serial : 0;
  const bool is_started = who.pid == context_.main_process && is_first_image;
  take_names(who, page, is_started ? settings_.meta.value("arguments", arguments()) : arguments());
  model_settings models = settings_of_models();
  models.allocator_start = page.allocator_start;
  models.allocator_end = page.allocator_end;
  const process_usage usage(begin.before, page.at_start);
  const recorded_process* parent = tree_.by_serial(who.parent_serial);
  auto added =
      std::make_unique<recorded_process>(context_, models, std::move(who), usage, std::move(from.memory));
  if (status) added->start_with(*status);
  if (parent != nullptr) added->inherit(*parent);
  tree_.add(std::move(added));
}

// ---- looks ----

// No process arrives or ends in it, and it is no round: those that wait for more than room in a ring would count too many. It may
// take half of the time.
void recording::take_meanwhile() {
  const std::uint64_t now = raw_clock_ns();
  if (!session_ || now < next_taking_ns_) return;
  take_kernel_events();
  for (const auto& process : tree_.all()) process->drain(now);
  const std::uint64_t end = raw_clock_ns();
  next_taking_ns_ = end + std::max(take_every_ns, end - now);
}

void recording::look_at_processes() {
  const std::uint64_t now = raw_clock_ns();
  std::vector<recorded_process*> ended;
  const std::size_t looks = std::min(tree_.all().size(), most_looks);
  for (std::size_t look = 0; look < looks; ++look) {
    // Empties the kernel's buffers of fault events, which may overflow during this.
    if (look % 8 == 7) take_kernel_events();
    recorded_process& process = tree_.next();
    const bool is_over = process.look(now, tree_.all().size(), [this] { take_meanwhile(); });
    // The end of the main program is reported by program_ended(), as this process is its parent.
    if (is_over && process.identity().pid != context_.main_process) {
      ended.push_back(&process);
    } else {
      process.save_when_due(now);
    }
  }
  for (recorded_process* process : ended) end_process(*process);
}

bool recording::drain() {
  clock_.learn();
  const std::uint64_t now = raw_clock_ns();
  if (session_) {
    // relaxed: only that it changes matters
    session_->header().rounds.fetch_add(1, std::memory_order_relaxed);
    take_arrivals();
  }
  take_kernel_events();
  const process_tree::entries& processes = tree_.all();
  if (!processes.empty() && now > processes.front()->identity().start_ns + first_clock_lasts_ns)
    faults_.slow_clock_down();
  bool much = new_.faults.size() > many_faults;
  for (std::size_t index = 0; index < processes.size(); ++index) {
    much = processes[index]->drain(now) || much;
    processes[index]->look_at_end([this] { take_meanwhile(); });
  }
  if (now - last_look_ns_ >= look_at_one_every_ns) {
    last_look_ns_ = now;
    look_at_processes();
  }
  return much;
}

void recording::program_started(std::uint32_t process) {
  context_.main_process = process;
  main_started_ns_ = raw_clock_ns();
}

void recording::program_ended(int wait_status) {
  context_.main_status = wait_status;
  drain();
  if (recorded_process* process = tree_.by_id(context_.main_process)) process->read_counters(true);
}

std::string recording::store_now(std::uint32_t process, std::string& problem) {
  drain();
  recorded_process* found = tree_.by_id(process);
  if (found == nullptr) {
    problem = "it has told nothing yet";
    return {};
  }
  found->write(false);
  problem = found->problem();
  return found->path();
}

std::vector<std::uint32_t> recording::running() const {
  std::vector<std::uint32_t> found;
  for (const auto& process : tree_.all()) {
    if (process->has_recorder() && !process->is_superseded()) found.push_back(process->identity().pid);
  }
  return found;
}

// A small forked child is merged into its parent; others are summed up by name.
void recording::end_process(recorded_process& process) {
  process.end();
  if (process.is_worth_a_file()) {
    process.write(true);
    finished_.add(process);
  } else if (recorded_process* parent = tree_.parent_of(process)) {
    parent->absorb(process);
  } else {
    process.fill(true);
    finished_.add_small(process.result());
  }
  finished_.keep(tree_.remove(process));
}

void recording::finish() {
  drain();
  if (session_) session_->header().recording.store(0, std::memory_order_relaxed);
  // Children first, so that what they did can be added to their parents.
  while (!tree_.all().empty()) {
    recorded_process* next = tree_.all().back().get();
    for (const auto& process : tree_.all()) {
      if (process->identity().pid != context_.main_process) next = process.get();
    }
    end_process(*next);
  }
  finished_.finish();
}

std::string recording::status_line() const {
  double allocations = 0;
  double live = 0;
  double faults = 0;
  const process_tree::entries& processes = tree_.all();
  for (const auto& process : processes) {
    allocations += process->model().allocations();
    live += process->model().live_bytes();
    faults += process->model().seen_faults();
  }
  return fmt::format("profiling: {:.1f} s, {} process{}, {} allocations, {} live, {} page faults",
                     static_cast<double>(raw_clock_ns() - begin_ns_) / 1e9, processes.size(),
                     processes.size() == 1 ? "" : "es", say_count(std::round(allocations)), say_bytes(live),
                     say_count(std::round(faults)));
}

}  // namespace tarn::profiler
