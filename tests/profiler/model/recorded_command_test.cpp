// SPDX-License-Identifier: MIT
// The table "command" of a profile: how its program was started.
#include "profiler/model/recorded_command.hpp"

#include <gtest/gtest.h>

#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

recorded_command example() {
  return {.path = "/bin/pro gram",
          .identity = {"00ff", 10, 20},
          .words = {"pro gram", "a\nb", "", "\xff\x01", "x=y"},
          .directory = "/tmp/\xfe",
          .input = input_kind::file,
          .input_path = "/tmp/in",
          .input_identity = {"", 7, 8},
          .input_offset = 3,
          .variables = {{"MALLOC_ARENA_MAX", "1"}, {"LD_PRELOAD", ""}, {"TARN_DECAY_MS", "a=b"}},
          .digests = {{"SECRET", digest_of("swordfish")}}};
}

TEST(recorded_command, every_byte_comes_back) {
  const scratch_file file;
  {
    table_writer out(file.path());
    out.append_json("meta", "{}");
    out.append(command_table(example()));
  }
  const auto found = load_command(file.path());
  ASSERT_TRUE(found);
  const recorded_command wanted = example();
  EXPECT_EQ(found->path, wanted.path);
  EXPECT_EQ(found->identity, wanted.identity);
  EXPECT_EQ(found->words, wanted.words);
  EXPECT_EQ(found->directory, wanted.directory);
  EXPECT_EQ(found->input, input_kind::file);
  EXPECT_EQ(found->input_path, "/tmp/in");
  EXPECT_EQ(found->input_identity, wanted.input_identity);
  EXPECT_EQ(found->input_offset, 3U);
  EXPECT_FALSE(found->output_to_nothing);
  EXPECT_EQ(found->variables, wanted.variables);
  EXPECT_EQ(found->digests, wanted.digests);
}

TEST(recorded_command, a_file_without_one_has_none) {
  const scratch_file file;
  table_writer(file.path()).append_json("meta", "{}");
  EXPECT_FALSE(load_command(file.path()));
}

TEST(recorded_command, only_what_allocators_and_loaders_read_is_kept) {
  for (const char* name :
       {"LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "PYTHONMALLOC", "TARN_DECAY_MS"})
    EXPECT_TRUE(is_kept_variable(name)) << name;
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "PATH", "TARN_RECORD", "TARN_LIBRARY", "HOME"})
    EXPECT_FALSE(is_kept_variable(name)) << name;
  EXPECT_NE(digest_of("a"), digest_of("b"));
}

// The command of a file with these rows, as another version may write them.
std::optional<recorded_command> from_rows(texts keys, texts values) {
  const scratch_file file;
  table rows{"command", keys.size(), {}, true};
  rows.columns = {{"key", std::move(keys)}, {"value", std::move(values)}};
  table_writer(file.path()).append(rows);
  return load_command(file.path());
}

TEST(recorded_command, what_is_unknown_is_skipped) {
  const auto found =
      from_rows({"path", "word", "directory", "input", "niceness", "variable", "digest", "program_size"},
                {"/bin/p", "p", "/", "socket", "5", "NO_EQUALS", "NAME", "many"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->input, input_kind::device) << "an input that cannot be repeated";
  EXPECT_EQ(found->variables, (std::vector<std::pair<std::string, std::string>>{{"NO_EQUALS", ""}}));
  EXPECT_EQ(found->digests, (std::map<std::string, std::uint16_t>{{"NAME", 0}}));
  EXPECT_EQ(found->identity.size, 0U);
}

TEST(recorded_command, a_command_that_cannot_be_started_again_is_not_kept) {
  EXPECT_TRUE(from_rows({"path", "word", "directory"}, {"/bin/p", "p", "/"}));
  EXPECT_FALSE(from_rows({"word", "directory"}, {"p", "/"}));
  EXPECT_FALSE(from_rows({"path", "directory"}, {"/bin/p", "/"}));
  EXPECT_FALSE(from_rows({"path", "word"}, {"/bin/p", "p"}));
}

TEST(recorded_command, a_file_is_identified_by_its_build_id_else_by_size_and_time) {
  EXPECT_EQ((file_identity{"ab", 1, 2}), (file_identity{"ab", 3, 4}));
  EXPECT_NE((file_identity{"ab", 1, 2}), (file_identity{"", 1, 2}));
  EXPECT_EQ((file_identity{"", 1, 2}), (file_identity{"", 1, 2}));
  EXPECT_NE((file_identity{"", 1, 2}), (file_identity{"", 1, 3}));
  EXPECT_NE((file_identity{"", 1, 2}), (file_identity{"", 3, 2}));
}

}  // namespace
}  // namespace tarn::profiler
