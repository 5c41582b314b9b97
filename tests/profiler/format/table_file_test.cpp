// SPDX-License-Identifier: MIT
// Writing and reading of tables; files that are cut off, damaged, foreign, or on a full disk.
#include "profiler/format/table_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "../../refusal.hpp"
#include "profiler/format/chunk.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

table small_table(const std::string& name, std::uint64_t first, std::size_t rows, bool replaces = false) {
  integers numbers;
  texts words;
  for (std::size_t row = 0; row < rows; ++row) {
    numbers.push_back(first + row);
    words.push_back("row " + std::to_string(first + row));
  }
  return {.name = name,
          .rows = rows,
          .columns = {{"number", std::move(numbers)}, {"half", reals(rows, 0.5)}, {"word", std::move(words)}},
          .replaces = replaces};
}

std::vector<table> read_all(const std::string& path, read_outcome* outcome = nullptr) {
  std::vector<table> tables;
  const read_outcome got = read_tables(path, [&tables](table&& one) { tables.push_back(std::move(one)); });
  if (outcome != nullptr) *outcome = got;
  return tables;
}

std::string message_of(const std::string& path) {
  return testing_support::refusal_of<profile_error>([&] { read_all(path); });
}

TEST(table_file, what_was_written_is_read) {
  scratch_file file;
  {
    table_writer out(file.path());
    out.append(small_table("first", 10, 1000));
    out.append(small_table("second", 0, 0, true));
    out.append_json("meta", R"({"a":1})");
    EXPECT_EQ(out.bytes(), file.contents().size());
  }
  read_outcome outcome;
  const auto tables = read_all(file.path(), &outcome);
  ASSERT_EQ(tables.size(), 3U);
  EXPECT_EQ(outcome.chunks, 3U);
  EXPECT_EQ(outcome.good_bytes, outcome.file_bytes);
  EXPECT_EQ(outcome.damage, "");
  EXPECT_EQ(tables[0].name, "first");
  EXPECT_EQ(tables[0].rows, 1000U);
  EXPECT_FALSE(tables[0].replaces);
  EXPECT_EQ(tables[0].whole("number")[999], 1009U);
  EXPECT_EQ(tables[0].real("half")[3], 0.5);
  EXPECT_EQ(tables[0].text("word")[1], "row 11");
  EXPECT_EQ(tables[1].rows, 0U);
  EXPECT_TRUE(tables[1].replaces);
  EXPECT_EQ(tables[2].text("json").at(0), R"({"a":1})");
}

TEST(table_file, a_column_that_is_not_there_or_of_another_kind_is_named) {
  const table one = small_table("t", 0, 1);
  EXPECT_TRUE(one.has("word"));
  EXPECT_FALSE(one.has("wort"));
  EXPECT_THROW(one.whole("word"), profile_error);
  EXPECT_NE(testing_support::refusal_of<profile_error>([&] {
              one.real("missing");
            }).find("'t' has no column 'missing'"),
            std::string::npos);
}

TEST(table_file, unwanted_tables_are_not_read) {
  scratch_file file;
  {
    table_writer out(file.path());
    out.append(small_table("a", 0, 100));
    out.append(small_table("b", 0, 100));
  }
  // Damage in a table that is not wanted goes unnoticed.
  auto bytes = file.contents();
  bytes[file_header_bytes + chunk_header_bytes + 1 + 20] ^= 1;
  file.set(bytes);
  std::vector<std::string> names;
  const read_outcome outcome = read_tables(
      file.path(), [&names](table&& one) { names.push_back(one.name); },
      [](std::string_view name) { return name == "b"; });
  EXPECT_EQ(names, std::vector<std::string>{"b"});
  EXPECT_EQ(outcome.damage, "");
  EXPECT_EQ(outcome.chunks, 2U);
}

TEST(table_file, a_large_table_takes_several_chunks_and_comes_back) {
  scratch_file file;
  constexpr std::size_t rows = 3 * (most_chunk_bytes / sizeof(std::uint64_t)) / 2;
  table large;
  large.name = "large";
  large.rows = rows;
  integers numbers(rows);
  for (std::size_t row = 0; row < rows; ++row) numbers[row] = row % 100;
  large.columns.push_back({"n", std::move(numbers)});
  {
    table_writer out(file.path());
    out.append(large);
    large.replaces = true;
    out.append(large);
    out.append(small_table("after", 0, 1));
  }
  read_outcome outcome;
  const auto tables = read_all(file.path(), &outcome);
  constexpr std::size_t chunks = rows * sizeof(std::uint64_t) / usual_chunk_bytes;
  EXPECT_EQ(outcome.chunks, 2 * chunks + 1);
  // What continues comes in parts, what replaces as a whole.
  ASSERT_EQ(tables.size(), chunks + 2);
  std::size_t continued = 0;
  for (std::size_t part = 0; part < chunks; ++part) continued += tables[part].rows;
  EXPECT_EQ(continued, rows);
  EXPECT_EQ(tables[chunks].rows, rows);
  EXPECT_TRUE(tables[chunks].whole("n") == large.whole("n"));
  // Without the last chunk of the replacing one, there is nothing of it.
  auto bytes = file.contents();
  bytes.resize(bytes.size() - 500);
  file.set(bytes);
  EXPECT_EQ(read_all(file.path(), &outcome).size(), chunks);
  EXPECT_NE(outcome.damage, "");
}

// Rows of the table "t" that were taken in parts and count.
struct parts_of_t {
  integers coming;
  integers counting;
  std::size_t most_rows = 0;  // of a part
  std::size_t announced = 0;

  read_outcome read(const std::string& path) {
    return read_tables(path, [](table&&) {}, {}, {"t", [this](table_part&& part) {
                                                    most_rows = std::max(most_rows, part.rows.rows);
                                                    if (part.begins) coming.clear();
                                                    if (part.begins) announced = part.all_rows;
                                                    const integers& more = part.rows.whole("number");
                                                    coming.insert(coming.end(), more.begin(), more.end());
                                                    if (part.ends) counting = coming;
                                                  }});
  }
};

TEST(table_file, a_replacing_table_can_be_taken_in_parts) {
  scratch_file file;
  constexpr std::size_t rows = 500'000;
  {
    table_writer out(file.path());
    out.append(small_table("t", 7, 3, true));
    out.append(small_table("t", 0, rows, true));
  }
  parts_of_t taken;
  read_outcome outcome = taken.read(file.path());
  EXPECT_EQ(outcome.damage, "");
  EXPECT_EQ(taken.announced, rows);
  EXPECT_LT(taken.most_rows, rows / 2);
  EXPECT_TRUE(taken.counting == small_table("t", 0, rows).whole("number"));
  // Without its end the second table does not count.
  auto bytes = file.contents();
  bytes.resize(bytes.size() - 500);
  file.set(bytes);
  parts_of_t cut;
  outcome = cut.read(file.path());
  EXPECT_NE(outcome.damage, "");
  EXPECT_GT(cut.coming.size(), 3U);
  EXPECT_EQ(cut.counting, (integers{7, 8, 9}));
}

TEST(table_file, tables_that_cannot_be_written_are_refused) {
  scratch_file file;
  table_writer out(file.path());
  table bad = small_table("t", 0, 3);
  bad.rows = 4;
  EXPECT_THROW(out.append(bad), profile_error);
  EXPECT_THROW(out.append(small_table(std::string(300, 'n'), 0, 1)), profile_error);
  table text;
  text.name = "text";
  text.rows = 1;
  text.columns.push_back({"t", texts{std::string(most_chunk_bytes, 'x')}});
  EXPECT_THROW(out.append(text), profile_error);
  out.append(small_table("good", 0, 1));
  EXPECT_EQ(read_all(file.path()).size(), 1U);
}

TEST(table_file, other_files_are_refused_with_advice) {
  scratch_file file;
  EXPECT_NE(message_of(file.path()).find("is empty"), std::string::npos);
  const std::string foreign = "heaptrack is another tool altogether\n";
  file.set(std::span(reinterpret_cast<const std::uint8_t*>(foreign.data()), foreign.size()));
  EXPECT_NE(message_of(file.path()).find("is not a profile of tarn; tarn profile -- PROGRAM makes one"),
            std::string::npos);
  for (const auto& [text, advice] :
       {std::pair{"heap profile: 1: 2 [3: 4] @ heap/1048576\n", "go tool pprof -proto PROGRAM FILE"},
        std::pair{"heap_v2/524288\n  t*: 28: 1 [0: 0]\n", "its jeprof reads"}}) {
    file.set({reinterpret_cast<const std::uint8_t*>(text), std::strlen(text)});
    EXPECT_NE(message_of(file.path()).find(advice), std::string::npos) << message_of(file.path());
  }
  file.set(std::span(file_magic).first(7));
  EXPECT_NE(message_of(file.path()).find("is not a profile of tarn"), std::string::npos);
  EXPECT_NE(message_of("/nowhere/at/all.tarn").find("/nowhere/at/all.tarn cannot be opened"),
            std::string::npos);
  EXPECT_NE(message_of("/").find("not a regular file"), std::string::npos);
  EXPECT_NE(message_of("/dev/zero").find("not a regular file"), std::string::npos);
}

TEST(table_file, another_major_version_is_refused_a_minor_one_is_not) {
  scratch_file file;
  { table_writer out(file.path()); }
  auto bytes = file.contents();
  bytes[10] = 9;
  file.set(bytes);
  EXPECT_EQ(message_of(file.path()), "no error");
  bytes[8] = 2;
  file.set(bytes);
  EXPECT_NE(message_of(file.path()).find("is of format 2.9, and this tarn reads 1.x"), std::string::npos);
}

TEST(table_file, a_file_cut_off_anywhere_keeps_its_whole_chunks) {
  scratch_file file;
  std::vector<std::uint64_t> ends = {file_header_bytes};
  {
    table_writer out(file.path());
    for (std::uint64_t index = 0; index < 5; ++index) {
      out.append(small_table("t", index, 4));
      ends.push_back(out.bytes());
    }
  }
  const auto whole = file.contents();
  for (std::size_t size = file_header_bytes; size <= whole.size(); ++size) {
    file.set(std::span(whole).first(size));
    std::size_t expected = 0;
    while (expected + 1 < ends.size() && ends[expected + 1] <= size) ++expected;
    read_outcome outcome;
    EXPECT_EQ(read_all(file.path(), &outcome).size(), expected) << size;
    EXPECT_EQ(outcome.good_bytes, ends[expected]) << size;
    EXPECT_EQ(outcome.damage.empty(), size == ends[expected]) << size;
  }
}

TEST(table_file, a_changed_bit_anywhere_is_found) {
  scratch_file file;
  {
    table_writer out(file.path());
    out.append(small_table("one", 0, 20));
    out.append(small_table("two", 5, 20));
  }
  const auto whole = file.contents();
  const auto good = read_all(file.path());
  for (std::size_t at = file_header_bytes; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
    file.set(bytes);
    read_outcome outcome;
    const auto tables = read_all(file.path(), &outcome);
    EXPECT_NE(outcome.damage, "") << at;
    EXPECT_LT(tables.size(), 2U) << at;
    for (const table& one : tables) EXPECT_EQ(one.whole("number"), good[0].whole("number")) << at;
  }
}

TEST(table_file, lengths_beyond_the_file_are_damage) {
  scratch_file file;
  { table_writer out(file.path()); }
  auto bytes = file.contents();
  chunk_header header{.rows = 0xffffffff, .name_bytes = 1};
  for (const auto& [stored, unpacked] :
       {std::pair{0xffffffffU, 0xffffffffU}, {0xffffffffU, 1U}, {9U, 0x7ffffffU}}) {
    header.stored = stored;
    header.unpacked = unpacked;
    auto with = bytes;
    const auto packed = pack_header(header, "t");
    with.insert(with.end(), packed.begin(), packed.end());
    with.push_back('t');
    with.resize(with.size() + 9);
    file.set(with);
    read_outcome outcome;
    EXPECT_TRUE(read_all(file.path(), &outcome).empty());
    EXPECT_NE(outcome.damage, "");
  }
}

TEST(table_file, a_missing_folder_is_an_error) {
  EXPECT_THROW(table_writer("/nowhere/at/all.tarn"), profile_error);
  EXPECT_THROW(table_writer("/"), profile_error);
}

// A limit of the file size stands for a full disk.
TEST(table_file, when_the_disk_is_full_the_file_stays_readable) {
  char path[] = "/tmp/tarn-full-XXXXXX";
  const int made = mkstemp(path);
  ASSERT_GE(made, 0);
  close(made);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  std::size_t appended = 0;
  {
    table_writer out(path);
    struct rlimit small = old;
    small.rlim_cur = 20000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THROW(for (; appended < 1000; ++appended) out.append(small_table("t", appended, 100)),
                 profile_error);
    // As soon as there is room, appending works again.
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    out.append(small_table("later", 0, 100));
  }
  std::signal(SIGXFSZ, before);
  read_outcome outcome;
  EXPECT_EQ(read_all(path, &outcome).size(), appended + 1);
  EXPECT_EQ(outcome.damage, "");
  unlink(path);
}

}  // namespace
}  // namespace tarn::profiler
