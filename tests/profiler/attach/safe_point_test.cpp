// SPDX-License-Identifier: MIT
// A stopped thread in malloc or in the dynamic linker is not made to call anything.
#include "profiler/attach/safe_point.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

// wait_without_tables(int) calls pause() for ever, has no unwind table and no frame pointer.
#if defined(__x86_64__)
asm(R"(
  .text
wait_without_tables:
  sub $8, %rsp
1:call pause@PLT
  jmp 1b
)");
#elif defined(__aarch64__)
asm(R"(
  .text
wait_without_tables:
  stp x29, x30, [sp, #-16]!
1:bl pause
  b 1b
)");
#endif
extern "C" void wait_without_tables(int);

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

// A function that a signal interrupts, whose handler waits.
template <int flags>
[[gnu::noinline]] void wait_in_handler() {
  struct sigaction action = {};
  action.sa_handler = wait_without_tables;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
  for (;;) pause();
}

// A child that waits in the function, stopped by this process.
class stopped_child {
 public:
  explicit stopped_child(void (*function)() = wait_for_end) : id_(fork()) {
    if (id_ == 0) {
      alarm(60);
      function();
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

// Its malloc may be a jump into another library, which has the lock then.
TEST(safe_point, what_an_allocator_needs_is_part_of_it) {
  const stopped_child child;
  if (!child.is_stopped()) GTEST_SKIP() << "ptrace is refused";
  std::vector<remote_module> modules = modules_of_process(child.id());
  remote_module proxy = named("/opt/libproxy.so");
  proxy.functions = {{"malloc", 2048, 16}};
  proxy.needed = {"libmiddle.so.2", "libc.so.6"};
  remote_module middle = named("/opt/libmiddle.so.2.1");
  middle.name = "libmiddle.so.2";
  middle.needed = {"libproxy.so", "liballoc.so"};
  remote_module allocator = named("/opt/liballoc.so");
  allocator.start = reinterpret_cast<std::uint64_t>(&wait_for_end) - 16;
  allocator.end = allocator.start + 4096;
  modules.insert(modules.end(), {proxy, middle, allocator});
  EXPECT_TRUE(child.is_at_safe_point(modules)) << "it is not needed";
  modules.back().name = "liballoc.so";
  EXPECT_FALSE(child.is_at_safe_point(modules));
  modules.back().name = "libstdc++.so.6";
  modules[modules.size() - 2].needed = {"libstdc++.so.6"};
  EXPECT_TRUE(child.is_at_safe_point(modules)) << "it is no allocator's own";
}

// A signal may have interrupted malloc; the path does not show it if it cannot be followed through the handler.
TEST(safe_point, below_a_handler_without_unwind_tables_there_may_be_malloc) {
  for (const auto function : {wait_in_handler<0>, wait_in_handler<SA_NODEFER>}) {
    const stopped_child child(function);
    if (!child.is_stopped()) GTEST_SKIP() << "ptrace is refused";
    EXPECT_FALSE(child.is_at_safe_point(modules_of_process(child.id())));
  }
  const stopped_child child([] { wait_without_tables(0); });
  EXPECT_TRUE(child.is_at_safe_point(modules_of_process(child.id()))) << "no signal has come";
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
