// SPDX-License-Identifier: MIT
// A stopped thread in malloc or in the dynamic linker is not made to call anything.
#include "profiler/attach/safe_point.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tarn::profiler {
namespace {

remote_module named(const std::string& path) {
  remote_module module;
  module.path = path;
  return module;
}

[[gnu::noinline]] void wait_for_end() {
  for (;;) pause();
}

// A child that waits in the function above, stopped by this process.
class stopped_child {
 public:
  stopped_child() : id_(fork()) {
    if (id_ == 0) {
      alarm(60);
      wait_for_end();
    }
    while (!waits()) usleep(1000);
    stopped_ = ptrace(PTRACE_SEIZE, id_, nullptr, nullptr) == 0 &&
               ptrace(PTRACE_INTERRUPT, id_, nullptr, nullptr) == 0 && waitpid(id_, nullptr, 0) == id_;
  }
  ~stopped_child() {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  stopped_child(const stopped_child&) = delete;
  stopped_child& operator=(const stopped_child&) = delete;

  bool is_stopped() const { return stopped_; }
  bool is_at_safe_point(const std::vector<remote_module>& modules) const {
    return safe_point(id_, modules).is_at_one(id_);
  }
  pid_t id() const { return id_; }

 private:
  // Whether it is in pause().
  bool waits() const {
    char state = 0;
    const std::string path = "/proc/" + std::to_string(id_) + "/stat";
    if (FILE* const file = fopen(path.c_str(), "r")) {
      if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
      fclose(file);
    }
    return state == 'S';
  }

  pid_t id_;
  bool stopped_ = false;
};

TEST(safe_point, outside_of_malloc_and_the_dynamic_linker) {
  const stopped_child child;
  if (!child.is_stopped()) GTEST_SKIP() << "ptrace is refused";
  std::vector<remote_module> modules = modules_of_process(child.id());
  EXPECT_TRUE(child.is_at_safe_point(modules));
  // A library whose function named malloc the child is in.
  const auto place = reinterpret_cast<std::uint64_t>(&wait_for_end);
  remote_module allocator = named("/opt/liballoc.so");
  allocator.start = place - 16;
  allocator.end = place + 4096;
  modules.push_back(allocator);
  EXPECT_TRUE(child.is_at_safe_point(modules)) << "it exports no malloc";
  modules.back().functions = {{"malloc", place + 2048, 16}};
  EXPECT_FALSE(child.is_at_safe_point(modules));
  modules.back() = allocator;
  modules.back().path = "/lib64/ld-linux-x86-64.so.2";
  EXPECT_FALSE(child.is_at_safe_point(modules));
}

// fork holds the locks of malloc, though its path leads through none of malloc's functions.
TEST(safe_point, functions_of_libc_that_hold_locks_are_excluded) {
  const stopped_child child;
  if (!child.is_stopped()) GTEST_SKIP() << "ptrace is refused";
  std::vector<remote_module> modules = modules_of_process(child.id());
  const auto place = reinterpret_cast<std::uint64_t>(&wait_for_end);
  for (remote_module& one : modules) {
    if (!is_libc(one)) continue;
    for (const char* name : {"fork", "pthread_create", "setlocale", "dl_iterate_phdr", "setuid"}) {
      std::vector<remote_symbol> before = one.functions;
      EXPECT_NE(one.address_of(name), 0U) << name;
      one.functions.push_back({name, place, 4096});
      EXPECT_FALSE(child.is_at_safe_point(modules)) << name;
      one.functions = std::move(before);
    }
  }
  EXPECT_TRUE(child.is_at_safe_point(modules));
}

TEST(safe_point, a_path_that_stays_in_libc_may_be_mallocs) {
  const stopped_child child;
  if (!child.is_stopped()) GTEST_SKIP() << "ptrace is refused";
  remote_module all = named("/lib/libc.so.6");
  all.end = ~std::uint64_t{0};
  EXPECT_FALSE(child.is_at_safe_point({all}));
}

TEST(safe_point, a_thread_that_is_gone_is_at_none) {
  EXPECT_FALSE(safe_point(0x7ffffffe, {}).is_at_one(0x7ffffffe));
}

TEST(safe_point, libc_and_the_dynamic_linker_are_known_by_their_names) {
  for (const char* path :
       {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc-2.31.so", "/lib/libc.so.6 (deleted)"})
    EXPECT_TRUE(is_libc(named(path))) << path;
  for (const char* path : {"/lib/libcrypto.so.3", "/lib/libc-client.a", "/libc.so.6/other.so", ""})
    EXPECT_FALSE(is_libc(named(path))) << path;
  for (const char* path :
       {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-2.31.so", "/lib/ld-linux-aarch64.so.1", "/opt/x/ld.so"})
    EXPECT_TRUE(is_dynamic_linker(named(path))) << path;
  for (const char* path : {"/bin/ld", "/lib/libld-linux.so", "/lib/ld-musl-x86_64.so.1"})
    EXPECT_FALSE(is_dynamic_linker(named(path))) << path;
}

}  // namespace
}  // namespace tarn::profiler
