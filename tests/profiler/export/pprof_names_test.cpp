// SPDX-License-Identifier: MIT
// pprof_names: addresses of this program get names, what is not a profile stays as it is.
#include "profiler/export/pprof_names.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <random>
#include <sstream>

#include "../../child_status.hpp"
#include "profiler/format/pprof_message.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {
namespace {

using pprof::message;
using pprof::message_field;
using pprof::message_reader;

[[gnu::noinline]] void function_of_this_test() { asm volatile(""); }

std::uint64_t address_of_function() { return reinterpret_cast<std::uintptr_t>(&function_of_this_test); }

struct own_code {
  std::string path;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
};

// The segment that has the function.
own_code find_own_code() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    own_code found;
    char dash = 0;
    std::string rights, device, inode;
    std::istringstream words(line);
    words >> std::hex >> found.start >> dash >> found.end >> rights >> found.offset >> device >> inode >>
        found.path;
    if (found.start <= address_of_function() && address_of_function() < found.end) return found;
  }
  return {};
}

struct profile_text {
  message out;
  unsigned strings = 0;

  unsigned text(std::string_view word) {
    out.text(pprof::string_table, word);
    return strings++;
  }
  void module(std::uint64_t id, std::uint64_t start, std::uint64_t end, std::uint64_t offset, unsigned path) {
    message m;
    m.number(1, id);
    m.number(2, start);
    m.number(3, end);
    m.number(4, offset);
    m.number(5, path);
    out.nested(pprof::mapping, m);
  }
  void place(std::uint64_t id, std::uint64_t module, std::uint64_t address) {
    message l;
    l.number(1, id);
    l.number(2, module);
    l.number(3, address);
    out.nested(pprof::location, l);
  }
};

// As a process writes it: one address in this program, one in a file that is not there, and one in no file.
profile_text written_profile() {
  const own_code code = find_own_code();
  profile_text p;
  p.text("");
  const unsigned own = p.text(code.path);
  const unsigned gone = p.text("/nowhere/libgone.so");
  p.module(1, code.start, code.end, code.offset, own);
  p.module(2, 0x10000, 0x20000, 0, gone);
  p.place(1, 1, address_of_function());
  p.place(2, 2, 0x10010);
  p.place(3, 0, 0x30000);
  message values;
  constexpr std::uint64_t path[] = {1, 2, 3};
  constexpr std::uint64_t value[] = {7};
  values.numbers(1, path, 3);
  values.numbers(2, value, 1);
  p.out.nested(pprof::sample, values);
  return p;
}

// They refer to `text`.
std::vector<message_field> fields_of(std::string_view text, unsigned number) {
  std::vector<message_field> out;
  message_reader reader(text);
  for (message_field field; reader.next(field);)
    if (field.number == number) out.push_back(field);
  EXPECT_FALSE(reader.is_broken());
  return out;
}

std::uint64_t number_in(std::string_view text, unsigned field) {
  const auto found = fields_of(text, field);
  return found.empty() ? 0 : found.front().value;
}

pprof_names names_of_self() { return pprof_names(static_cast<std::uint32_t>(getpid()), {{}, false, {}}); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitizers_are_on = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitizers_are_on = true;
#else
constexpr bool sanitizers_are_on = false;
#endif
#else
constexpr bool sanitizers_are_on = false;
#endif

// The address space of this process.
rlim_t used_memory() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

TEST(pprof_names, an_address_gets_its_function) {
  const std::string before = written_profile().out.whole();
  pprof_names names = names_of_self();
  const std::string after = names.add(before);
  const auto places = fields_of(after, pprof::location);
  ASSERT_EQ(places.size(), 3U);
  const auto lines = fields_of(places[0].bytes, 4);
  ASSERT_FALSE(lines.empty());
  const auto functions = fields_of(after, pprof::function);
  const auto strings = fields_of(after, pprof::string_table);
  const std::uint64_t id = number_in(lines.back().bytes, 1);
  ASSERT_LE(id, functions.size());
  ASSERT_GE(id, 1U);
  EXPECT_EQ(number_in(functions[id - 1].bytes, 1), id);
  const std::uint64_t name = number_in(functions[id - 1].bytes, 2);
  ASSERT_LT(name, strings.size());
  EXPECT_NE(strings[name].bytes.find("function_of_this_test"), std::string_view::npos) << strings[name].bytes;
  // All else is as before.
  EXPECT_EQ(number_in(places[0].bytes, 3), address_of_function());
  EXPECT_TRUE(fields_of(places[1].bytes, 4).empty());
  EXPECT_TRUE(fields_of(places[2].bytes, 4).empty());
  EXPECT_EQ(fields_of(after, pprof::sample)[0].bytes, fields_of(before, pprof::sample)[0].bytes);
  EXPECT_EQ(strings[0].bytes, "");
  EXPECT_EQ(strings[2].bytes, "/nowhere/libgone.so");
}

TEST(pprof_names, pprof_looks_no_further_where_all_have_names) {
  pprof_names names = names_of_self();
  const std::string named = names.add(written_profile().out.whole());
  const auto modules = fields_of(named, pprof::mapping);
  ASSERT_EQ(modules.size(), 2U);
  for (const unsigned field : pprof::mapping_has) {
    EXPECT_EQ(number_in(modules[0].bytes, field), 1U);
    EXPECT_EQ(number_in(modules[1].bytes, field), 0U) << "its address has no name";
  }
}

TEST(pprof_names, a_later_profile_is_named_from_what_is_known) {
  pprof_names names = names_of_self();
  const std::string first = names.add(written_profile().out.whole());
  EXPECT_EQ(names.add(written_profile().out.whole()), first);
  // Other modules at these addresses: nothing of the first profile is true any more.
  profile_text other;
  other.text("");
  other.module(1, address_of_function() - 16, address_of_function() + 16, 0, other.text("/nowhere/else"));
  other.place(1, 1, address_of_function());
  EXPECT_EQ(names.add(other.out.whole()), other.out.whole());
}

TEST(pprof_names, a_profile_with_names_stays_as_it_is) {
  pprof_names names = names_of_self();
  const std::string named = names.add(written_profile().out.whole());
  EXPECT_EQ(names.add(named), named);
}

TEST(pprof_names, a_file_that_is_no_profile_is_refused) {
  pprof_names names = names_of_self();
  const auto is_readable = [](std::string_view all) {
    message_reader reader(all);
    for (message_field field; reader.next(field);) continue;
    return !reader.is_broken();
  };
  // Whatever comes, the answer is a message or an error.
  const auto is_taken = [&](std::string_view text) {
    try {
      EXPECT_TRUE(is_readable(names.add(text)));
      return true;
    } catch (const profile_error&) {
      return false;
    }
  };
  const std::string whole = written_profile().out.whole();
  for (std::size_t length = 0; length < whole.size(); ++length) (void)is_taken(whole.substr(0, length));
  for (const std::string_view text :
       {"\n", "error: no profile", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x22\x7f"})
    EXPECT_FALSE(is_taken(text)) << text;
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole;
    for (int change = 0; change < 4; ++change) text[random() % text.size()] = static_cast<char>(random());
    const bool was_taken = is_taken(text);
    EXPECT_TRUE(is_readable(text) || !was_taken);
  }
}

TEST(pprof_names, texts_are_printable_and_unknown_fields_are_left_out) {
  profile_text p;
  p.text("");
  p.text("\x1b]0;owned\x07\xff");
  p.out.text(99, "\x1b[2J");
  p.out.number(7, 1);
  message named;
  named.number(1, 1);
  p.out.nested(pprof::function, named);
  const std::string after = names_of_self().add(p.out.whole());
  EXPECT_EQ(after.find('\x1b'), std::string::npos);
  EXPECT_EQ(fields_of(after, pprof::string_table)[1].bytes, "\\x1b]0;owned\\x07\\xff");
  EXPECT_EQ(fields_of(after, 7).size(), 1U);
}

// A process may send two bytes for a field: what is kept of each must not be a multiple of that.
TEST(pprof_names, many_small_fields_take_little_memory) {
  if (sanitizers_are_on) GTEST_SKIP() << "memory of this process is the sanitizer's";
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (const unsigned field : {pprof::string_table, pprof::mapping, pprof::location, pprof::sample}) {
    const std::string one{static_cast<char>(field << 3 | 2), '\0'};
    std::string text;
    for (std::size_t i = 0; i < 8 * mib; ++i) text += one;
    const auto adds_names = [&text] {
      const rlimit least{used_memory() + 100 * mib, RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &least);
      try {
        return names_of_self().add(text).size() < 2 * text.size() ? 0 : 1;
      } catch (const std::bad_alloc&) {
        return 2;
      }
    };
    EXPECT_EQ(testing_support::child_status(adds_names), 0) << field;
  }
}

}  // namespace
}  // namespace tarn::profiler
