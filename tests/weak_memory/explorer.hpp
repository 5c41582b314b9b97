// SPDX-License-Identifier: MIT
// explorer: runs a model, which is a few threads of a few operations each, in every execution that machine.hpp allows.
//
// A thread of a model is a function that takes a `thread`. For every step the explorer calls the function again from
// the start. The operations that the thread has already done return the logged results; the first new one leaves the
// function by longjmp, and the explorer carries it out in every possible way. Hence the function must depend on nothing
// except the results of its operations, and its variables must have trivial destructors.
// A state that was visited before is not explored again. Used by one thread.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "machine.hpp"

namespace weak {

enum class kind : std::uint8_t {
  load,
  await,
  store,
  exchange,
  compare_exchange,
  add,
  fence,
  full_fence,
  fence_of,
  read,
  write,
  sleep,
  wake,
  choose,
  done
};

struct operation {
  kind what = kind::done;
  unsigned place = 0;
  order success = order::relaxed;
  order failure = order::relaxed;
  int value = 0;
  int expected = 0;
};

// What a model's thread can do. The names are those of std::atomic.
class thread {
 public:
  int load(unsigned place, order o) { return next({kind::load, place, o, o, 0, 0}); }
  // Loads until the value is `wanted`. Models wait by this function: a loop of loads would have endless executions.
  int await(unsigned place, int wanted, order o) { return next({kind::await, place, o, o, 0, wanted}); }
  void store(unsigned place, int value, order o) { next({kind::store, place, o, o, value, 0}); }
  int exchange(unsigned place, int value, order o) { return next({kind::exchange, place, o, o, value, 0}); }
  int fetch_add(unsigned place, int value, order o) { return next({kind::add, place, o, o, value, 0}); }
  // If the value read differs from `expected`, `expected` becomes the value read.
  bool compare_exchange(unsigned place, int& expected, int value, order success, order failure) {
    const int read = next({kind::compare_exchange, place, success, failure, value, expected});
    const bool same = read == expected;
    expected = read;
    return same;
  }
  void fence(order o) { next({kind::fence, 0, o, o, 0, 0}); }
  void full_fence() { next({kind::full_fence, 0, order::acq_rel, order::acq_rel, 0, 0}); }
  // membarrier(): a full fence here, then one in each thread, at different moments, then one here.
  void process_fence(unsigned threads) {
    full_fence();
    for (unsigned i = 0; i < threads; ++i) next({kind::fence_of, i, order::acq_rel, order::acq_rel, 0, 0});
    full_fence();
  }
  // Plain variables: an access that races with another is a failure.
  int read(unsigned variable) { return next({kind::read, variable, order::relaxed, order::relaxed, 0, 0}); }
  void write(unsigned variable, int value) {
    next({kind::write, variable, order::relaxed, order::relaxed, value, 0});
  }
  // futex(FUTEX_WAIT) without a timeout, and futex(FUTEX_WAKE) of one sleeper or of all. In the kernel there is a full
  // fence, and comparing the value and queuing the thread are one step.
  void futex_wait(unsigned place, int value) {
    next({kind::sleep, place, order::relaxed, order::relaxed, 0, value});
  }
  void futex_wake(unsigned place, bool all = false) {
    next({kind::wake, place, order::relaxed, order::relaxed, all ? 1 : 0, 0});
  }

  // Any number below `count`; the explorer tries each. For what the program decides, such as its next operation.
  int choose(int count) { return next({kind::choose, 0, order::relaxed, order::relaxed, count, 0}); }

  void check(bool holds, const char* what) {
    if (!holds && broken_ == nullptr) broken_ = what;
  }
  void lock(unsigned place) {
    for (int expected = 0; !compare_exchange(place, expected, 1, order::acquire, order::relaxed);
         expected = 0) {
      await(place, 0, order::relaxed);
    }
  }
  void unlock(unsigned place) { store(place, 0, order::release); }

 private:
  friend class explorer;

  int next(const operation& o) {
    if (at_ < log_->size()) return (*log_)[at_++];
    pending_ = o;
    std::longjmp(leave_, 1);  // NOLINT(cert-err52-cpp): no destructors between, see above
  }

  const std::vector<int>* log_ = nullptr;
  std::size_t at_ = 0;
  operation pending_;
  const char* broken_ = nullptr;
  std::jmp_buf leave_{};
};

struct model {
  unsigned places = 0;
  unsigned plains = 0;
  std::vector<std::function<void(thread&)>> threads;
  // Called at the end of an execution. Returns what is wrong, or null. May be empty.
  std::function<const char*(const machine&)> at_end;
  // Sets initial values other than zero.
  std::function<void(machine&)> at_start;
};

struct verdict {
  const char* broken = nullptr;  // what failed, or null
  std::size_t states = 0;
  std::vector<std::string> trace;  // the steps that lead to the failure
};

class explorer {
 public:
  explicit explorer(const model& m) : model_(m) {}

  verdict run() {
    state first{machine(static_cast<unsigned>(model_.threads.size()), model_.places, model_.plains),
                std::vector<std::vector<int>>(model_.threads.size()),
                std::vector<int>(model_.threads.size(), awake)};
    if (model_.at_start) model_.at_start(first.memory);
    visit(first);
    result_.states = known_.size();
    return result_;
  }

 private:
  static constexpr int awake = -1;

  struct state {
    machine memory;
    std::vector<std::vector<int>> logs;
    std::vector<int> asleep;  // for each thread: the place that it sleeps on, or `awake`
  };

  bool fail(const char* what) {
    result_.broken = what;
    result_.trace = path_;
    return false;
  }

  // False: a failure was found, and the exploration ends.
  bool visit(const state& s) {
    std::string key;
    s.memory.describe(key);
    for (std::size_t i = 0; i < s.logs.size(); ++i) {
      key.push_back(static_cast<char>(s.logs[i].size()));
      key.append(reinterpret_cast<const char*>(s.logs[i].data()), s.logs[i].size() * sizeof(int));
      key.push_back(static_cast<char>(s.asleep[i]));
    }
    if (!known_.insert(std::move(key)).second) return true;
    bool all_done = true;
    bool moved = false;
    for (unsigned t = 0; t < s.logs.size(); ++t) {
      if (s.asleep[t] != awake) {
        all_done = false;
        continue;
      }
      thread runner;
      const operation o = pending(t, s.logs[t], runner);
      if (runner.broken_ != nullptr) return fail(runner.broken_);
      if (o.what == kind::done) continue;
      all_done = false;
      if (!step(s, t, o, moved)) return false;
    }
    if (all_done) {
      const char* const broken = model_.at_end ? model_.at_end(s.memory) : nullptr;
      return broken == nullptr || fail(broken);
    }
    return moved || fail("threads wait for each other for ever");
  }

  operation pending(unsigned t, const std::vector<int>& log, thread& runner) {
    runner.log_ = &log;
    if (setjmp(runner.leave_) == 0) {  // NOLINT(cert-err52-cpp)
      model_.threads[t](runner);
      runner.pending_ = {};
    }
    return runner.pending_;
  }

  // Explores from the state in which the thread's operation has returned `value`.
  bool follow(state&& s, unsigned t, const operation& o, int value, bool& moved) {
    static constexpr const char* names[] = {"load",  "await", "store",      "exchange", "compare_exchange",
                                            "add",   "fence", "full_fence", "fence_of", "read",
                                            "write", "sleep", "wake",       "choose",   "done"};
    moved = true;
    s.logs[t].push_back(value);
    path_.push_back("thread " + std::to_string(t) + ": " + names[static_cast<int>(o.what)] + " of " +
                    std::to_string(o.place) + ", value " + std::to_string(o.value) + ", returned " +
                    std::to_string(value));
    const bool goes_on = visit(s);
    path_.pop_back();
    return goes_on;
  }

  bool step(const state& s, unsigned t, const operation& o, bool& moved) {
    switch (o.what) {
      case kind::load:
      case kind::await: return each_read(s, t, o, moved);
      case kind::store: return each_place(s, t, o, moved);
      case kind::exchange:
      case kind::compare_exchange:
      case kind::add: return each_modification(s, t, o, moved);
      case kind::sleep: return each_sleep(s, t, o, moved);
      case kind::wake: return each_wake(s, t, o, moved);
      case kind::choose: return each_choice(s, t, o, moved);
      default: return single(s, t, o, moved);
    }
  }

  bool single(const state& s, unsigned t, const operation& o, bool& moved) {
    state next = s;
    int value = 0;
    bool ordered = true;
    if (o.what == kind::fence) next.memory.fence(t, o.success);
    if (o.what == kind::full_fence) next.memory.full_fence(t);
    if (o.what == kind::fence_of) next.memory.fence_between(t, o.place);
    if (o.what == kind::read) ordered = next.memory.read_plain(t, o.place, value);
    if (o.what == kind::write) ordered = next.memory.write_plain(t, o.place, o.value);
    if (!ordered) return fail("a data race on a plain variable");
    return follow(std::move(next), t, o, value, moved);
  }

  bool each_choice(const state& s, unsigned t, const operation& o, bool& moved) {
    for (int choice = 0; choice < o.value; ++choice) {
      if (!follow(state(s), t, o, choice, moved)) return false;
    }
    return true;
  }

  bool each_read(const state& s, unsigned t, const operation& o, bool& moved) {
    for (unsigned i = s.memory.first_readable(t, o.place); i < s.memory.writes(o.place); ++i) {
      if (o.what == kind::await && s.memory.value(o.place, i) != o.expected) continue;
      state next = s;
      const int value = next.memory.load(t, o.place, i, o.success);
      if (!follow(std::move(next), t, o, value, moved)) return false;
    }
    return true;
  }

  bool each_place(const state& s, unsigned t, const operation& o, bool& moved) {
    for (unsigned i = s.memory.first_readable(t, o.place) + 1; i <= s.memory.writes(o.place); ++i) {
      if (!s.memory.may_insert(o.place, i)) continue;
      state next = s;
      next.memory.store(t, o.place, i, o.value, o.success);
      if (!follow(std::move(next), t, o, 0, moved)) return false;
    }
    return true;
  }

  bool each_modification(const state& s, unsigned t, const operation& o, bool& moved) {
    for (unsigned i = s.memory.first_readable(t, o.place); i < s.memory.writes(o.place); ++i) {
      const int read = s.memory.value(o.place, i);
      state next = s;
      if (o.what == kind::compare_exchange && read != o.expected) {
        next.memory.load(t, o.place, i, o.failure);
      } else if (s.memory.may_insert(o.place, i + 1)) {
        next.memory.modify(t, o.place, i, o.what == kind::add ? read + o.value : o.value, o.success);
      } else {
        continue;
      }
      if (!follow(std::move(next), t, o, read, moved)) return false;
    }
    return true;
  }

  bool each_sleep(const state& s, unsigned t, const operation& o, bool& moved) {
    state fenced = s;
    fenced.memory.full_fence(t);
    for (unsigned i = fenced.memory.first_readable(t, o.place); i < fenced.memory.writes(o.place); ++i) {
      state next = fenced;
      if (next.memory.load(t, o.place, i, order::relaxed) != o.expected) {
        if (!follow(std::move(next), t, o, 0, moved)) return false;
        continue;
      }
      moved = true;
      next.asleep[t] = static_cast<int>(o.place);
      path_.push_back("thread " + std::to_string(t) + ": sleeps on " + std::to_string(o.place));
      const bool goes_on = visit(next);
      path_.pop_back();
      if (!goes_on) return false;
    }
    return true;
  }

  bool each_wake(const state& s, unsigned t, const operation& o, bool& moved) {
    state fenced = s;
    fenced.memory.full_fence(t);
    const bool all = o.value != 0;
    bool woke = false;
    state everyone = fenced;
    for (unsigned i = 0; i < s.asleep.size(); ++i) {
      if (s.asleep[i] != static_cast<int>(o.place)) continue;
      woke = true;
      everyone.asleep[i] = awake;
      everyone.logs[i].push_back(0);
      if (all) continue;
      state next = fenced;
      next.asleep[i] = awake;
      next.logs[i].push_back(0);
      if (!follow(std::move(next), t, o, 1, moved)) return false;
    }
    return (woke && !all) || follow(std::move(everyone), t, o, 0, moved);
  }

  const model& model_;
  verdict result_;
  std::unordered_set<std::string> known_;
  std::vector<std::string> path_;
};

}  // namespace weak
