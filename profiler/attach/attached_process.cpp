// SPDX-License-Identifier: MIT
#include "profiler/attach/attached_process.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "profiler/attach/attach_check.hpp"
#include "profiler/attach/interrupted_calls.hpp"
#include "profiler/attach/loader_lock.hpp"
#include "profiler/attach/remote_thread.hpp"
#include "profiler/attach/safe_point.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/record/attach_calls.hpp"

namespace tarn::profiler {

namespace {

constexpr double seconds_to_safe_point = 5;
constexpr double seconds_of_choice = 0.03;  // in which only threads are tried that a stop does not disturb
constexpr double seconds_to_stop = 0.02;
constexpr double seconds_to_release = 5;
constexpr std::size_t most_ordered = 64;  // threads whose system call is looked at
constexpr std::size_t code_bytes = 32;
// Seconds until further looks after a call of dlopen, last one first: the library may need some time to load.
constexpr double look_after[] = {0.25, 0.05, 0.01, 0.002};

const remote_module* find_libc(const std::vector<remote_module>& modules) {
  const auto at = std::find_if(modules.begin(), modules.end(), is_libc);
  return at != modules.end() ? &*at : nullptr;
}

std::string text_at(pid_t process, std::uint64_t address) {
  char text[512] = {};
  read_memory(process, address, text, sizeof text - 1);
  return text;
}

// Differs once the process executes another program, or the same one again: the kernel's 16 random bytes for it. A process
// that has changed its rights keeps that file from its own user: its addresses (stat) tell then, which are random too.
std::string image_of(pid_t process) {
  std::string text = proc_text(static_cast<std::uint32_t>(process), "auxv");
  if (text.empty()) return image_addresses(proc_text(static_cast<std::uint32_t>(process), "stat"));
  for (std::size_t at = 0; at + sizeof(Elf64_auxv_t) <= text.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t one = {};
    std::memcpy(&one, text.data() + at, sizeof one);
    if (one.a_type != AT_RANDOM) continue;
    char bytes[16] = {};
    text.append(bytes, read_memory(process, one.a_un.a_val, bytes, sizeof bytes));
    break;
  }
  return text;
}

[[noreturn]] void fail(pid_t process, attach_result result) {
  switch (result) {
    case attach_result::already:
    case attach_result::left_over:
      throw attach_error(fmt::format("process {} is already being recorded", process),
                         fmt::format("End that recording: tarn attach --stop {}", process));
    case attach_result::preloaded:
      throw attach_error(
          fmt::format("process {} was started with the recorder preloaded", process),
          fmt::format("It is recorded from its start. To write its data so far: tarn attach --dump {}",
                      process));
    case attach_result::no_session:
      throw attach_error(
          fmt::format("process {} cannot open the shared memory of this recording", process),
          "It must be able to see tarn's process in /proc: run tarn as its user, in its container.");
    case attach_result::no_file:
      throw attach_error(fmt::format("process {} cannot create the shared memory for its recording", process),
                         "Its limits on memory, address space or descriptors (ulimit) are too low.");
    case attach_result::no_slots:
      throw attach_error(fmt::format("the calls of malloc in process {} cannot be redirected", process),
                         "A security module may forbid mprotect. Start the program under tarn profile.");
    case attach_result::recording:
    case attach_result::no_memory:
    case attach_result::busy: break;
  }
  throw attach_error(fmt::format("process {} has no memory for the recorder", process),
                     "Its limit on address space (ulimit -v) is too low.");
}

}  // namespace

// A thread stopped at a safe point that can make calls.
struct attached_process::call_context {
  pid_t process;
  remote_thread& thread;
  const remote_module& libc;
  std::uint64_t lock;  // of the dynamic linker; 0: unknown

  [[nodiscard]] std::uint64_t function(const char* name) const {
    const std::uint64_t address = libc.address_of(name);
    if (address != 0) return address;
    throw attach_error(fmt::format("the C library of process {} has no {}", process, name),
                       "tarn needs glibc 2.34 or newer; start the program under tarn profile.");
  }
  std::uint64_t call(std::uint64_t address, std::initializer_list<std::uint64_t> arguments) {
    return thread.call(address, arguments);
  }
  // Stores a string for the next call in one of two halves of the room, and returns its address.
  std::uint64_t put(const std::string& text, unsigned half) {
    constexpr std::uint64_t most_bytes = remote_thread::room_bytes / 2;
    const std::uint64_t address = thread.room() + half * most_bytes;
    if (text.size() >= most_bytes || !write_memory(process, address, text.c_str(), text.size() + 1)) {
      throw attach_error(fmt::format("the memory of process {} cannot be written", process),
                         "tarn doctor says what this system allows.");
    }
    return address;
  }
};

attached_process::attached_process(pid_t process, const std::string& library, const std::string& session,
                                   std::function<bool()> meanwhile)
    : process_(process), meanwhile_(std::move(meanwhile)) {
  const auto begin_here = [&](call_context& there) { return begin(there, library, session); };
  attach_result result = attach_result::recording;
  at_safe_point(process, [&](call_context& there) { result = begin_here(there); });
  if (result == attach_result::left_over) {
    release(process);
    at_safe_point(process, [&](call_context& there) { result = begin_here(there); });
  }
  if (result == attach_result::no_slots) release(process);
  if (result != attach_result::recording) fail(process, result);
  code_.resize(code_bytes);
  code_.resize(read_memory(process_, look_, code_.data(), code_.size()));
  read_memory(process_, loads_word_, &last_loads_, sizeof last_loads_);
}

attached_process::~attached_process() = default;

struct attached_process::target {
  pid_t process;
  const remote_module& libc;
  libc_code code;
  loader_lock lock;
  std::string image;
};

attach_result attached_process::begin(call_context& there, const std::string& library,
                                      const std::string& session) {
  const std::uint64_t handle =
      there.call(there.function("dlopen"), {there.put(library, 0), RTLD_NOW | RTLD_LOCAL});
  if (handle == 0) {
    const std::string why = text_at(process_, there.call(there.function("dlerror"), {}));
    throw attach_error(
        fmt::format("process {} cannot load the recorder: {}", process_, why),
        "The library must be readable for the process's user, at the same path in its container.");
  }
  const auto find = [&](const char* name) {
    const std::uint64_t address = there.call(there.function("dlsym"), {handle, there.put(name, 1)});
    if (address != 0) return address;
    throw attach_error(fmt::format("process {} has loaded a recorder of another version", process_),
                       "Install the command and its libraries together, and restart the program.");
  };
  const std::uint64_t attach = find(attach_function);
  const std::uint64_t loads = find(loads_function);
  look_ = find(look_function);
  detach_ = find(detach_function);
  release_ = find(release_function);
  const std::uint64_t result = there.call(attach, {there.put(session, 0), there.lock});
  if (static_cast<attach_result>(static_cast<std::uint32_t>(result)) == attach_result::busy)
    throw call_taken_back();
  loads_word_ = there.call(loads, {});
  refused_slots_ = static_cast<std::uint32_t>(result >> refused_shift);
  return static_cast<attach_result>(static_cast<std::uint32_t>(result));
}

void attached_process::look_for_libraries() {
  let_late_go();
  std::uint32_t loads = 0;
  if (read_memory(process_, loads_word_, &loads, sizeof loads) != sizeof loads) return;
  if (loads != last_loads_) {
    last_loads_ = loads;
    looks_left_ = std::size(look_after);
    next_look_ = now_seconds() + look_after[looks_left_ - 1];
  }
  if (looks_left_ == 0 || now_seconds() < next_look_) return;
  at_safe_point(process_, [this](call_context& there) {
    if (static_cast<std::int64_t>(there.call(look_, {there.lock})) < 0) throw call_taken_back();
  });
  if (--looks_left_ != 0) next_look_ = now_seconds() + look_after[looks_left_ - 1];
}

bool attached_process::has_recorder(pid_t process) const {
  std::vector<unsigned char> found(code_.size());
  return read_memory(process, look_, found.data(), found.size()) == found.size() && found == code_;
}

bool attached_process::is_there() const { return has_recorder(process_); }

void attached_process::detach(pid_t process) {
  at_safe_point(process, [this](call_context& there) { there.call(detach_, {}); });
  release(process);
}

// Releases the recorder's memory; repeats until all threads have left the recorder.
void attached_process::release(pid_t process) {
  const double until = now_seconds() + seconds_to_release;
  for (bool done = false; !done && now_seconds() < until;) {
    go_on_or_end(process);
    pause_for(seconds_before_release);
    at_safe_point(process, [&](call_context& there) { done = there.call(release_, {}) != 0; });
  }
}

void attached_process::let_late_go() {
  late_.erase(std::remove_if(late_.begin(), late_.end(), [](const auto& one) { return one->let_go(); }),
              late_.end());
}

void attached_process::go_on_or_end(pid_t process) {
  if (meanwhile_()) return;
  throw attach_error(fmt::format("tarn was told to end while it waited for process {}", process),
                     "The process continues.");
}

// The threads that a stop disturbs least come first. At first, those whose system call would have to be repeated are
// left out.
std::vector<pid_t> attached_process::candidates(pid_t process, bool first) {
  std::vector<std::pair<disturbance, pid_t>> all;
  for (const std::uint32_t thread : threads_of(static_cast<std::uint32_t>(process))) {
    const auto id = static_cast<pid_t>(thread);
    const bool waits =
        std::any_of(late_.begin(), late_.end(), [&](const auto& one) { return one->thread() == id; });
    if (waits) continue;
    const disturbance how = all.size() < most_ordered ? disturbance_of(process, id) : disturbance::repeat;
    if (!first || how != disturbance::repeat) all.emplace_back(how, id);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<pid_t> threads;
  for (const auto& one : all) threads.push_back(one.second);
  return threads;
}

void attached_process::at_safe_point(pid_t process, const std::function<void(call_context&)>& work) {
  const std::string image = image_of(process);
  const std::vector<remote_module> modules = modules_of_process(process);
  const remote_module* libc = find_libc(modules);
  if (libc == nullptr) throw process_gone(process);
  const target there = {process, *libc, find_libc_code(process, *libc), loader_lock(process, modules), image};
  safe_point point(process, modules);
  const double begin = now_seconds();
  double pause = 0.0005;
  bool was_free = false;
  while (now_seconds() < begin + seconds_to_safe_point) {
    if (threads_of(static_cast<std::uint32_t>(process)).empty()) throw process_gone(process);
    for (const pid_t thread : candidates(process, now_seconds() < begin + seconds_of_choice)) {
      go_on_or_end(process);
      if (!there.lock.is_free()) break;
      was_free = true;
      if (try_thread(there, thread, point, work)) return;
    }
    let_late_go();
    go_on_or_end(process);
    pause_for(pause);
    pause = std::min(0.01, 1.5 * pause);
  }
  if (!was_free) {
    throw attach_error(
        fmt::format("process {} has been loading libraries for {:.0f} s", process, seconds_to_safe_point),
        "A constructor may be waiting. Nothing was changed in the process; try again later.");
  }
  throw attach_error(
      fmt::format(
          "no thread of process {} was found outside of malloc and the dynamic linker within {:.0f} s",
          process, seconds_to_safe_point),
      "All of its threads may be sleeping in the kernel or waiting for one another. Nothing was changed in the "
      "process; try again later, or start it under tarn profile.");
}

// False: the thread is at no safe point, or has ended, or its call was taken back.
bool attached_process::try_thread(const target& there, pid_t id, safe_point& point,
                                  const std::function<void(call_context&)>& work) {
  std::unique_ptr<remote_thread> thread;
  try {
    thread = std::make_unique<remote_thread>(there.process, id);
    if (!thread->stop(seconds_to_stop)) {
      late_.push_back(std::move(thread));
      return false;
    }
  } catch (const process_gone&) {
    if (id == there.process) throw;
    return false;
  }
  if (!code_.empty() && !has_recorder(there.process)) throw process_gone(there.process);
  // What was read of it is another program's; the process's id stays.
  if (image_of(there.process) != there.image) throw process_gone(there.process);
  // Each thread has a filter of its own, and may have got it after the first look.
  require_no_sandbox(
      there.process,
      proc_text(static_cast<std::uint32_t>(there.process), fmt::format("task/{}/status", id).c_str()),
      proc_text(static_cast<std::uint32_t>(getpid()), "status"));
  bool done = false;
  if (there.lock.is_free() && !thread->in_restartable_sequence() && point.is_at_one(id)) {
    call_limits limits{.lock = there.lock.address(), .go_on = meanwhile_};
    try {
      thread->begin_calls(there.code, std::move(limits));
      call_context context{there.process, *thread, there.libc, there.lock.address()};
      thread->keep_errno(context.call(context.function("__errno_location"), {}));
      work(context);
      done = true;
    } catch (const call_taken_back&) {
    }
  }
  thread->let_go();
  longest_stop_ = std::max(longest_stop_, thread->stopped_seconds());
  return done;
}

}  // namespace tarn::profiler
