// SPDX-License-Identifier: MIT
// queries: answers queries. One of them needs far more memory than the others, and another one keeps some.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include <tarn/scope.hpp>

std::vector<std::string> history;  // lives as long as the program

// Code that knows nothing of scopes.
std::size_t answer(const std::string& text, int rows) {
  std::vector<std::string> result;
  for (int i = 0; i < rows; ++i) result.push_back("row " + std::to_string(i) + " of the query " + text);
  if (text == "remembered") history.push_back(result.back());
  return result.size();
}

void run(const std::string& text, int rows) {
  tarn::scope query("query", {.limit = 8 << 20});
  std::size_t found = 0;
  try {
    const auto in = query.enter();
    found = answer(text, rows);
  } catch (const std::bad_alloc&) {
    std::printf("%s: needs more than 8 MiB\n", text.c_str());
  }
  if (found != 0) std::printf("%s: %zu rows\n", text.c_str(), found);
  const tarn::scope_report left = query.end();
  if (left.blocks != 0) std::printf("%s: left %d blocks\n", text.c_str(), static_cast<int>(left.blocks));
}

int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // so that no line is lost when the program crashes
  history.reserve(10);
  run("small", 1000);
  run("runaway", 100'000'000);
  run("remembered", 1000);
  run("small again", 1000);
  std::printf("remembered: %s\n", history[0].c_str());
  tarn::for_each_scope([](const tarn::scope_stats& s) {
    std::printf("scopes named %s: %d ended, %d failures, %d survivors\n", s.name, static_cast<int>(s.ended),
                static_cast<int>(s.failures), static_cast<int>(s.survivors));
  });
}
