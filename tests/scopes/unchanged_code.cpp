// SPDX-License-Identifier: MIT
// Code that knows nothing of scopes in a scope of 4 MiB, with more to do than fits: SQLite, a JSON parser and
// std::regex. Each ends in its own clean error; after that the scope has no survivors but those that the code itself
// keeps, the process goes on, and what fits still works.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <regex>
#include <string>

#include <sqlite3.h>
#include <nlohmann/json.hpp>

#include "tarn/scope.hpp"

namespace {

constexpr std::size_t budget = std::size_t{4} << 20;

int failures = 0;
void check(bool holds, const char* program, const char* what) {
  std::printf("%s: %s: %s\n", program, what, holds ? "yes" : "NO");
  failures += holds ? 0 : 1;
}

// The destructor of nlohmann::json allocates, and ends the process if it cannot. So the scope has a reserve, which is
// freed when the budget is full: the allocation fails all the same, and cleaning up has memory.
int free_reserve(void* reserve, tarn::scope_handle /*scope*/, std::size_t /*bytes*/) {
  std::free(*static_cast<void**>(reserve));
  *static_cast<void**>(reserve) = nullptr;
  return 0;
}

// Runs work(scope) in a scope: its result is whether it ended in a clean error.
template <class Work>
void in_scope(const char* program, std::uint64_t most_survivors, Work work) {
  void* reserve = nullptr;
  tarn::scope s(program, {.limit = budget, .on_full = free_reserve, .context = &reserve});
  bool is_clean = false;
  {
    const tarn::scope_entry in = s.enter();
    reserve = std::malloc(budget / 4);
    is_clean = work();
    std::free(reserve);
  }
  const bool was_full = s.stats().failures != 0;
  const std::uint64_t peak = s.stats().peak;
  const tarn::scope_report left = s.end();
  check(is_clean, program, "ended in a clean error");
  check(was_full, program, "the budget was full");
  check(peak <= budget, program, "it was never exceeded");
  if (left.blocks > most_survivors) {
    for (std::uint32_t i = 0; i < left.count; ++i)
      std::printf("  %llu of %llu bytes\n", static_cast<unsigned long long>(left.classes[i].blocks),
                  static_cast<unsigned long long>(left.classes[i].size));
  }
  check(left.blocks <= most_survivors, program, "nothing is left");
}

bool sqlite_fills_a_table(int rows) {
  sqlite3* database = nullptr;
  if (sqlite3_open(":memory:", &database) != SQLITE_OK) {
    sqlite3_close(database);
    return true;
  }
  int result =
      sqlite3_exec(database, "create table t(a integer primary key, b text)", nullptr, nullptr, nullptr);
  for (int i = 0; result == SQLITE_OK && i < rows; ++i) {
    result =
        sqlite3_exec(database, "insert into t(b) values (printf('%.1000c', 'x'))", nullptr, nullptr, nullptr);
  }
  sqlite3_close(database);
  return result == SQLITE_NOMEM;
}

std::string long_json() {
  std::string text = "[";
  for (int i = 0; i < 50000; ++i)
    text += "{\"number\": " + std::to_string(i) + ", \"name\": \"a name that is long\"},";
  text += "1]";
  return text;
}

bool json_parses(const std::string& text) {
  try {
    const auto parsed = nlohmann::json::parse(text);
    return parsed.empty();
  } catch (const std::bad_alloc&) {
    return true;
  }
}

// std::regex matches recursively in libstdc++, and copies its state; the automaton of this one is long.
bool regex_compiles(int length) {
  std::string pattern;
  for (int i = 0; i < length; ++i) pattern += "(a|b|[c-f]){1,3}x";
  try {
    const std::regex compiled(pattern);
    return compiled.mark_count() == 0;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::regex_error& e) {
    return e.code() == std::regex_constants::error_space;
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  const std::string json = long_json();
  // What these keep for the process, they make here.
  sqlite_fills_a_table(10);
  sqlite3_initialize();
  (void)json_parses("[1, \"a\"]");
  (void)regex_compiles(2);
  for (int round = 0; round < 3; ++round) {
    in_scope("sqlite", 0, [] { return sqlite_fills_a_table(100000); });
    in_scope("json", 0, [&json] { return json_parses(json); });
    in_scope("regex", 0, [] { return regex_compiles(5000); });
  }
  // The process lives, and what fits works, in and out of a scope.
  check(!sqlite_fills_a_table(1000) && !json_parses("[1]"), "process", "goes on");
  tarn::scope s("after", {.limit = budget});
  {
    const tarn::scope_entry in = s.enter();
    check(!sqlite_fills_a_table(1000) && !json_parses("[1]") && !regex_compiles(5), "process",
          "goes on in a scope");
  }
  check(s.end().blocks == 0, "process", "nothing is left");
  return failures == 0 ? 0 : 1;
}
