// SPDX-License-Identifier: MIT
// find_program() on scripts, interpreters and broken files in a temporary folder, with the exit code of each refusal.
#include "cli/launch/program_target.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {
namespace {

class program_target_test : public testing_support::folder_test {
 protected:
  program_target_test() { variables_.set("PATH", folder_ + ":/usr/bin:/bin"); }

  std::string add(const std::string& name, const std::string& content, mode_t mode = 0755) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string refusal_for(const std::vector<std::string>& words) {
    return testing_support::refusal_of<cli_error>([&] { find_program(words, variables_); });
  }
  int code_for(const std::string& name) { return std::atoi(refusal_for({name}).c_str()); }

  environment variables_;
};

TEST_F(program_target_test, finds_programs_along_the_path) {
  const program_target target = find_program({"sh"}, variables_);
  EXPECT_TRUE(target.path.ends_with("/sh"));
  ASSERT_EQ(target.programs.size(), 1U);
  EXPECT_FALSE(target.programs.front().interpreter.empty());
}

TEST_F(program_target_test, follows_scripts_nested_and_through_env) {
  const std::string inner = add("inner", "#!/bin/sh\n");
  const program_target nested = find_program({add("outer", "#!" + inner + " -x\n")}, variables_);
  ASSERT_EQ(nested.programs.size(), 1U);
  EXPECT_EQ(nested.programs.front().path, "/bin/sh");
  const program_target through_env =
      find_program({add("enved", "#!/usr/bin/env -S A=1 sh -e\n")}, variables_);
  ASSERT_EQ(through_env.programs.size(), 2U);
  EXPECT_EQ(through_env.programs[0].path, "/usr/bin/env");
  EXPECT_TRUE(through_env.programs[1].path.ends_with("/sh"));
}

TEST_F(program_target_test, a_program_behind_the_dynamic_loader) {
  const std::string loader = find_program({"sh"}, variables_).programs.front().interpreter;
  const std::string shell = locate_program("sh", variables_);
  const program_target target =
      find_program({loader, "--inhibit-cache", "--library-path", folder_, shell, "-c", ":"}, variables_);
  EXPECT_EQ(target.path, loader);
  ASSERT_EQ(target.programs.size(), 1U);
  EXPECT_EQ(target.programs[0].path, shell);
  EXPECT_EQ(target.programs[0].interpreter, loader);
  EXPECT_FALSE(target.programs[0].by_kernel);
  EXPECT_EQ(target.programs[0].loader_words,
            (std::vector<std::string>{"--inhibit-cache", "--library-path", folder_}));
  const std::vector<std::vector<std::string>> refused = {
      {loader}, {loader, "--argv0", "x"}, {loader, "sh"}, {loader, add("script", "#!/bin/sh\n")}};
  for (const std::vector<std::string>& words : refused) {
    const std::string refusal = refusal_for(words);
    EXPECT_TRUE(refusal.starts_with("125 ")) << words.back();
    EXPECT_EQ(refusal.find("static"), std::string::npos) << refusal;
  }
}

TEST_F(program_target_test, exit_codes_of_refusals) {
  EXPECT_EQ(code_for("no-such-program-anywhere"), exit_code::not_found);
  EXPECT_EQ(code_for("/no/such/path"), exit_code::not_found);
  EXPECT_EQ(code_for(""), exit_code::not_found);
  EXPECT_EQ(code_for(folder_), exit_code::not_executable);
  EXPECT_EQ(code_for(add("plain", "text", 0644)), exit_code::not_executable);
  EXPECT_EQ(code_for(add("text", "text")), exit_code::not_executable);
  EXPECT_EQ(code_for(add("empty", "")), exit_code::not_executable);
  EXPECT_EQ(code_for(add("nameless", "#!\n")), exit_code::not_executable);
  EXPECT_EQ(code_for(add("lost", "#!/no/such/interpreter\n")), exit_code::not_executable);
  EXPECT_EQ(code_for(add("cleared", "#!/usr/bin/env -i\n")), exit_code::refused);
  EXPECT_EQ(code_for(add("cut", "\177ELF")), exit_code::not_executable);
  const std::string self = folder_ + "/loop";
  EXPECT_EQ(code_for(add("loop", "#!" + self + "\n")), exit_code::refused);
}

TEST_F(program_target_test, a_slip_is_answered_with_the_nearest_name) {
  add("unusual-program-name", "#!/bin/sh\n");
  EXPECT_NE(refusal_for({"unusual-progam-name"}).find("unusual-program-name"), std::string::npos);
}

TEST_F(program_target_test, set_id_bits_matter_only_when_they_change_the_id) {
  const std::string path = add("script", "x");
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(secure_mode_reason(path), "");
  if (getuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_NE(secure_mode_reason(path).find("setuid"), std::string::npos);
  ASSERT_EQ(chmod(path.c_str(), 02755), 0);
  EXPECT_NE(secure_mode_reason(path).find("setgid"), std::string::npos);
}

}  // namespace
}  // namespace tarn::cli
