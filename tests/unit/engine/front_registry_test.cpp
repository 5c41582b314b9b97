// SPDX-License-Identifier: MIT
// front_registry: numbers, bins, pins, ends of threads and fork, with a front made for this test; validate() finds each
// kind of damage.
#include "engine/front_registry.hpp"

#include <gtest/gtest.h>

#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "../broken_invariant.hpp"

namespace tarn::engine {
namespace {

struct request {
  const char* name;
  std::size_t name_length;
};

struct program_bin {};  // the part that a front's programs see
struct program_bins {
  program_bin** bins;
  std::size_t count;
};
constinit thread_local program_bins local_bins{nullptr, 0};

struct bin;

struct core : front_instance<core, bin> {
  core(const request& /*of*/, const char* name) : name_(name) {}
  [[nodiscard]] const char* name() const { return name_; }
  int joined = 0;
  int given_back = 0;

 private:
  const char* name_;
};

struct bin : program_bin, front_bin<core, bin> {
  static constexpr bool outlives_thread = true;
  static program_bins& table() { return local_bins; }
  static program_bin* no_bin() { return nullptr; }
  void join() const { ++core->joined; }
  void leave() const { --core->joined; }
};

using registry_type = front_registry<core, bin>;

int take(bin& /*of*/) { return 1; }
void put_back(core& of, int objects) { of.given_back += objects; }

// The thread-local parts of a registry are one for the process; so each test uses a thread, and a registry, of its own.
void in_new_thread(const std::function<void(registry_type&)>& test) {
  std::thread([&test] {
    registry_type registry{os::lock_rank::pools};
    test(registry);
    registry.validate();
  }).join();
}

core* make(registry_type& registry, const char* name = "name") {
  os::lock_guard guard(registry.lock());
  return registry.make_locked(request{name, std::strlen(name)});
}

std::vector<core*> all(registry_type& registry) {
  std::vector<core*> found;
  registry.for_each([&found](core& c) { found.push_back(&c); });
  return found;
}

TEST(front_registry, numbers_and_structures_of_freed_instances_are_reused) {
  in_new_thread([](registry_type& registry) {
    core* const first = make(registry, "first");
    core* const second = make(registry, "second");
    EXPECT_STREQ(first->name(), "first");
    EXPECT_EQ(first->number, 0U);
    EXPECT_EQ(second->number, 1U);
    EXPECT_EQ(all(registry), (std::vector<core*>{second, first}));
    bool freed = false;
    registry.free(first, [&freed] { freed = true; });
    EXPECT_TRUE(freed);
    registry.validate();
    EXPECT_EQ(all(registry), std::vector<core*>{second});
    core* const third = make(registry, "third");
    EXPECT_EQ(third, first);
    EXPECT_EQ(third->number, 0U);
    EXPECT_EQ(make(registry)->number, 2U);
    registry.free(second, [] {});
    registry.free(first, [] {});
    EXPECT_EQ(make(registry)->number, 0U) << "the lowest number comes first";
  });
}

TEST(front_registry, a_thread_has_one_bin_of_each_instance) {
  in_new_thread([](registry_type& registry) {
    core* const numbered = make(registry);
    core* const named = make(registry);
    bin* const a = registry.bin_of(numbered, true);
    bin* const b = registry.bin_of(named, false);
    EXPECT_NE(a, b);
    EXPECT_EQ(registry.bin_of(numbered, true), a);
    EXPECT_EQ(registry.bin_of(named, false), b);
    EXPECT_EQ(local_bins.bins[numbered->number], a);
    std::thread([&] {
      EXPECT_NE(registry.bin_of(numbered, true), a);
      registry.validate();
      EXPECT_EQ(numbered->joined, 2);
      registry.thread_ends(take, put_back);
    }).join();
    EXPECT_EQ(numbered->joined, 1);
    EXPECT_EQ(numbered->given_back, 1);
  });
}

TEST(front_registry, a_detached_bin_serves_the_next_instance) {
  in_new_thread([](registry_type& registry) {
    for (const bool is_numbered : {true, false}) {
      core* const first = make(registry);
      bin* const old = registry.bin_of(first, is_numbered);
      registry.begin_ending(first);
      {
        os::lock_guard guard(registry.lock());
        registry.detach_locked(old);
      }
      registry.free(first, [] {});
      EXPECT_EQ(registry.bin_of(make(registry), is_numbered), old);
      registry.validate();
    }
  });
}

// In this thread, or another one.
void end(registry_type& registry, core* of) {
  registry.begin_ending(of);
  {
    os::lock_guard guard(registry.lock());
    while (of->bins != nullptr) registry.detach_locked(of->bins);
  }
  registry.free(of, [] {});
}

TEST(front_registry, a_bin_of_an_ended_instance_serves_another_thread) {
  in_new_thread([](registry_type& registry) {
    core* const ended = make(registry);
    core* const other = make(registry);
    bin* const old = registry.bin_of(ended, true);
    end(registry, ended);
    EXPECT_EQ(local_bins.bins[0], nullptr);
    std::thread([&] {
      EXPECT_EQ(registry.bin_of(other, true), old);
      registry.thread_ends(take, put_back);
    }).join();
  });
}

TEST(front_registry, instances_that_have_ended_leave_no_memory_whatever_the_threads) {
  if (TARN_TSAN) GTEST_SKIP() << "bins of ended threads are not reused there";
  in_new_thread([](registry_type& registry) {
    constexpr std::size_t count = 5000;
    const auto use = [&registry] {
      std::vector<core*> cores(count);
      for (core*& c : cores) c = make(registry, "");
      std::thread other([&] {
        for (core* const c : cores) EXPECT_NE(registry.bin_of(c, true), nullptr);
        std::thread([&] {
          for (core* const c : cores) end(registry, c);
        }).join();
        EXPECT_TRUE(registry.has_work());
        for (int period = 0; period < 2; ++period) registry.age();
        EXPECT_FALSE(registry.has_work());
        EXPECT_EQ(std::count_if(local_bins.bins, local_bins.bins + local_bins.count,
                                [](const program_bin* b) { return b != nullptr; }),
                  0);
        registry.thread_ends(take, put_back);
      });
      other.join();
      registry.validate();
    };
    use();
    const std::size_t before = metadata.used();
    use();
    use();
    EXPECT_LE(metadata.used(), before + 16 * kib) << "the threads' caches";
  });
}

TEST(front_registry, an_ending_instance_is_not_visited_and_awaits_its_visitors) {
  in_new_thread([](registry_type& registry) {
    core* const ending = make(registry);
    core* const other = make(registry);
    std::thread ender;
    registry.for_each([&](core& visited) {
      if (&visited != ending) return;
      ender = std::thread([&] {
        registry.begin_ending(ending);
        ending->given_back = 1;
      });
      while (all(registry) != std::vector<core*>{other}) std::this_thread::yield();
      EXPECT_EQ(ending->given_back, 0) << "the end did not wait for the visitor";
    });
    ender.join();
    EXPECT_EQ(ending->given_back, 1);
  });
}

TEST(front_registry, an_ended_thread_makes_no_bin_and_leaves_its_bins_for_reuse) {
  in_new_thread([](registry_type& registry) {
    core* const c = make(registry);
    bin* left = nullptr;
    std::atomic<long> thread{0};
    std::thread([&] {
      thread = os::system_call(SYS_gettid);
      left = registry.bin_of(c, true);
      registry.thread_ends(take, put_back);
      EXPECT_EQ(registry.bin_of(c, true), nullptr);
      EXPECT_EQ(local_bins.count, 0U);
    }).join();
    // join() returns a moment before the kernel has forgotten the thread.
    os::await_end_of_thread(thread);
    if (!TARN_TSAN) {
      EXPECT_EQ(registry.new_bin(), left);
    }
  });
}

TEST(front_registry, a_thread_adopts_the_bins_of_its_cache) {
  in_new_thread([](registry_type& registry) {
    core* const c = make(registry);
    // Ends without thread_ends(); the cache stands for one that this thread has adopted.
    std::thread([&] { registry.bin_of(c, true)->thread->cache = nullptr; }).join();
    attach_thread();
    c->bins->thread->cache = local_cache;
    registry.thread_adopts();
    registry.thread_ends(take, put_back);
    EXPECT_EQ(c->given_back, 1);
    EXPECT_EQ(c->bins, nullptr);
  });
}

TEST(front_registry, a_forked_child_keeps_its_own_bins) {
  in_new_thread([](registry_type& registry) {
    core* const c = make(registry);
    core* const kept = make(registry);
    bin* const mine = registry.bin_of(c, true);
    bin* const keeper = registry.new_bin();
    registry.link(keeper, kept);
    std::thread([&] { registry.bin_of(c, true); }).join();
    EXPECT_NE(c->bins, mine);
    registry.after_fork_in_child([=](core& of) { return &of == kept ? keeper : nullptr; });
    registry.validate();
    EXPECT_EQ(c->bins, mine);
    EXPECT_EQ(mine->next, nullptr);
    EXPECT_EQ(kept->bins, keeper);
  });
}

// ---- validate() ----

struct structure {
  registry_type& registry;
  core* instances[2];
  bin* bins[2];  // this thread's, of both
  bin* other;    // another thread's, of the first
  bin* retired;  // an ended thread's
};

void expect_found(const char* damage, const char* equation, void (*inflict)(structure&)) {
  in_new_thread([=](registry_type& registry) {
    core* const first = make(registry);
    core* const second = make(registry);
    structure s{registry,
                {first, second},
                {registry.bin_of(first, true), registry.bin_of(second, true)},
                nullptr,
                nullptr};
    // Threads begin before the death test forks: ThreadSanitizer allows none in its child.
    std::thread([&] { s.other = registry.bin_of(first, true); }).join();
    std::thread([&] {
      s.retired = registry.bin_of(first, true);
      registry.thread_ends(take, put_back);
    }).join();
    core* const unused = make(registry);
    registry.free(unused, [] {});
    registry.validate();
    SCOPED_TRACE(damage);
    EXPECT_DEATH(
        {
          inflict(s);
          registry.validate();
        },
        testing_support::literally(std::string("broken invariant of front_registry: ") + equation));
  });
}

TEST(front_registry_death, finds_a_broken_invariant) {
  expect_found("a number twice", "cores_.is_taken(number) && cores_.at(number) == core",
               [](structure& s) { s.instances[0]->number = s.instances[1]->number; });
  expect_found("a lost instance", "instances == cores_.taken()",
               [](structure& s) { s.instances[1]->next = nullptr; });
  expect_found("a circle of instances", "chain::is_linked<Core>(instances_, core)",
               [](structure& s) { s.instances[0]->next = s.instances[1]; });
  expect_found("a wrong link", "chain::is_linked<Core>(instances_, core)",
               [](structure& s) { s.instances[0]->previous = nullptr; });
  expect_found("a lost bin", "linked == linked_", [](structure& s) { s.instances[0]->bins = s.bins[0]; });
  expect_found("a circle of bins", "chain::is_linked<Bin>(core->bins, bin)",
               [](structure& s) { s.bins[0]->next = s.other; });
  expect_found("a bin of another instance", "bin->core == core",
               [](structure& s) { s.bins[1]->core = s.instances[0]; });
  expect_found("a bin without instance", "bin->core == core", [](structure& s) { s.other->core = nullptr; });
  expect_found("a bin in no list", "bin->core == core", [](structure& s) { s.instances[1]->bins = s.other; });
  expect_found("a retired bin with an instance", "bin->core == nullptr",
               [](structure& s) { s.retired->core = s.instances[0]; });
  expect_found("a bin in a wrong place of its thread's list",
               "*bin->link_of_thread == bin && bin->thread == mine::of_caller",
               [](structure& s) { s.bins[0]->link_of_thread = &s.bins[0]->next_of_thread; });
}

}  // namespace
}  // namespace tarn::engine
