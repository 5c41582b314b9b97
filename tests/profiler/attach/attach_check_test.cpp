// SPDX-License-Identifier: MIT
// Messages for processes that cannot be attached to, including refusals of other systems than this one.
#include "profiler/attach/attach_check.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "../../refusal.hpp"

using namespace tarn::profiler;

namespace {

std::string said_by(const auto& work) { return tarn::testing_support::refusal_of<attach_error>(work); }

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(attach_check, yama_is_named_with_what_to_do) {
  const auto said = [](int scope, bool as_root = false) {
    return said_by([&] { throw refused_by_system(4711, scope, as_root); });
  };
  EXPECT_TRUE(has(said(1), "kernel.yama.ptrace_scope is 1") && has(said(1), "tarn profile --paused"));
  EXPECT_TRUE(has(said(2), "kernel.yama.ptrace_scope is 2") && has(said(2), " attach 4711"));
  EXPECT_TRUE(has(said(3), "until the next boot") && !has(said(3), "sysctl"));
  EXPECT_TRUE(has(said(0), "--cap-add SYS_PTRACE") && !has(said(0), "yama"));
  EXPECT_TRUE(has(said(-1), "--cap-add SYS_PTRACE"));
  for (const int scope : {-1, 0, 1, 2}) {
    const std::string to_root = said(scope, true);
    EXPECT_TRUE(has(to_root, "even with root's rights") && has(to_root, "--cap-add SYS_PTRACE")) << to_root;
    EXPECT_FALSE(has(to_root, "as root") || has(to_root, "As root")) << to_root;
  }
  EXPECT_EQ(said(3, true), said(3));
}

TEST(attach_check, an_advice_for_root_names_a_command_that_sudo_finds) {
  EXPECT_EQ(command_for_root("/usr/bin/tarn"), "tarn");
  EXPECT_EQ(command_for_root("/usr/local/bin/tarn"), "tarn");
  EXPECT_EQ(command_for_root("/home/me/.local/bin/tarn"), "/home/me/.local/bin/tarn");
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string another = "Name:\ta\nUid:\t1000\t1000\t1000\t1000\n";
  for (const std::string& said : {said_by([&] { require_same_user(1, another, 65534); }),
                                  said_by([&] { throw refused_by_system(1, 1, false); }),
                                  said_by([&] { throw refused_by_system(1, 2, false); })})
    EXPECT_TRUE(has(said, (" " + own + " attach 1").c_str())) << said;
}

TEST(attach_check, each_of_the_users_of_a_process_counts) {
  const std::string_view own = "Name:\ta\nUid:\t1000\t1000\t1000\t1000\n";
  const std::string_view setuid = "Name:\ta\nUid:\t1000\t0\t0\t0\n";
  EXPECT_EQ(said_by([&] { require_same_user(1, own, 1000); }), "no error");
  EXPECT_TRUE(has(said_by([&] { require_same_user(1, own, 65534); }), "sudo -u "));
  // None of them may, so that the advice must not be to become one.
  for (const uid_t one : {0U, 1000U, 65534U}) {
    const std::string said = said_by([&] { require_same_user(1, setuid, one); });
    EXPECT_TRUE(has(said, "several users") && has(said, "root") && has(said, "tarn profile")) << said;
    EXPECT_FALSE(has(said, "sudo")) << said;
  }
}

TEST(attach_check, a_process_whose_first_thread_has_ended_goes_on) {
  const std::string_view ended = "Name:\ta\nState:\tZ (zombie)\nThreads:\t1\n";
  const std::string_view goes_on = "Name:\ta\nState:\tZ (zombie)\nThreads:\t3\n";
  EXPECT_TRUE(has(said_by([&] { require_living(1, ended); }), "has ended, or does not exist"));
  const std::string said = said_by([&] { require_living(1, goes_on); });
  EXPECT_TRUE(has(said, "first thread of process 1 (a) has ended") && has(said, "tarn profile")) << said;
}

TEST(attach_check, a_filter_of_the_container_is_no_sandbox) {
  const std::string_view free = "Seccomp:\t0\n";
  const std::string_view one = "Name:\ta\nSeccomp:\t2\nSeccomp_filters:\t1\n";
  const std::string_view two = "Name:\ta\nSeccomp:\t2\nSeccomp_filters:\t2\n";
  const std::string_view strict = "Name:\ta\nSeccomp:\t1\nSeccomp_filters:\t0\n";
  EXPECT_EQ(said_by([&] { require_no_sandbox(1, free, free); }), "no error");
  EXPECT_EQ(said_by([&] { require_no_sandbox(1, one, one); }), "no error");
  EXPECT_EQ(said_by([&] { require_no_sandbox(1, one, two); }), "no error");
  EXPECT_TRUE(has(said_by([&] { require_no_sandbox(1, one, free); }), "sandbox"));
  EXPECT_TRUE(has(said_by([&] { require_no_sandbox(1, two, one); }), "sandbox"));
  EXPECT_TRUE(has(said_by([&] { require_no_sandbox(1, strict, one); }), "sandbox"));
}

TEST(attach_check, the_tracer_is_named) {
  EXPECT_EQ(said_by([] { require_untraced(1, "TracerPid:\t0\n"); }), "no error");
  const std::string own = std::to_string(getpid());
  EXPECT_TRUE(
      has(said_by([&] { require_untraced(1, "TracerPid:\t" + own + "\n"); }), ("process " + own).c_str()));
}

TEST(attach_check, a_stopped_process_is_told_from_one_that_does_not_answer) {
  EXPECT_EQ(said_by([] { require_not_stopped(1, "State:\tS (sleeping)\n"); }), "no error");
  EXPECT_TRUE(
      has(said_by([] { require_not_stopped(1, "Name:\ta\nState:\tT (stopped)\n"); }), "kill -CONT 1"));
}

TEST(attach_check, modules_tell_what_cannot_be_recorded) {
  const auto module = [](const char* path, std::vector<remote_symbol> functions) {
    return remote_module{path, 4096, 8192, std::move(functions), false};
  };
  const remote_module program = module("/usr/bin/program", {});
  const remote_module libc = module("/lib/libc.so.6", {{"malloc", 4100, 10}});
  EXPECT_EQ(said_by([&] { require_recordable_modules(1, {program, libc}); }), "no error");
  EXPECT_TRUE(has(said_by([&] { require_recordable_modules(1, {program}); }), "statically linked"));
  EXPECT_TRUE(has(said_by([&] {
                    require_recordable_modules(1, {program, module("/lib/ld-musl-x86_64.so.1", {})});
                  }),
                  "musl"));
  EXPECT_TRUE(has(said_by([&] {
                    require_recordable_modules(1, {module("/usr/bin/own", {{"malloc", 4100, 10}}), libc});
                  }),
                  "contains its own malloc"));
  EXPECT_TRUE(
      has(said_by([&] {
            require_recordable_modules(
                1, {program, module("/lib/libasan.so", {{"__sanitizer_get_allocated_size", 4100, 1}}), libc});
          }),
          "sanitizer"));
  // The dynamic loader was started with the program as its argument: both then lie above the libraries.
  remote_module own = module("/usr/bin/own", {{"malloc", 4100, 10}});
  const remote_module loader = module("/opt/ld-linux-x86-64.so.2", {{"malloc", 4100, 10}});
  EXPECT_EQ(said_by([&] { require_recordable_modules(1, {libc, program, loader}); }), "no error");
  EXPECT_EQ(said_by([&] { require_recordable_modules(1, {loader, libc, program}); }), "no error");
  own.is_program = true;
  EXPECT_TRUE(has(said_by([&] {
                    require_recordable_modules(1, {libc, own, loader});
                  }),
                  "contains its own malloc"));
}

}  // namespace
