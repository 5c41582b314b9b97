// SPDX-License-Identifier: MIT
// heavy_headers: a translation unit that keeps a C++ compiler busy for a few seconds, as ordinary large units
// of a project do: many standard headers, and containers, algorithms, ranges, regular expressions and
// formatted streams instantiated over several types. ./dev run compiles it; nothing links it.
#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <ranges>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace {

template <class key, class value>
struct index {
  std::map<key, std::vector<value>> ordered;
  std::unordered_map<std::string, std::list<value>> named;
  std::multimap<value, key> reversed;
  std::priority_queue<std::pair<value, int>> queue;

  void add(const key& k, const value& v, const std::string& name) {
    ordered[k].push_back(v);
    named[name].push_front(v);
    reversed.emplace(v, k);
    queue.emplace(v, static_cast<int>(ordered.size()));
  }

  [[nodiscard]] std::vector<value> selected(std::size_t least) const {
    std::vector<value> out;
    auto long_enough = ordered | std::views::values |
                       std::views::filter([least](const auto& list) { return list.size() >= least; });
    for (const auto& list : long_enough) {
      std::ranges::copy(list, std::back_inserter(out));
    }
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    for (const auto& [v, k] : reversed) {
      out << std::setw(8) << v << '=' << k << '\n';
    }
    return std::move(out).str();
  }
};

template <int depth>
struct nested {
  using type = std::tuple<typename nested<depth - 1>::type, std::variant<std::array<int, depth>, std::string>,
                          std::optional<std::array<char, depth>>>;
};
template <>
struct nested<0> {
  using type = std::tuple<int>;
};

template <int... sizes>
std::size_t total_size(std::integer_sequence<int, sizes...>) {
  return (sizeof(typename nested<sizes>::type) + ...);
}

template <class value>
std::size_t exercise(const std::string& text, value first) {
  index<std::string, value> words;
  const std::regex word(R"(([A-Za-z_][A-Za-z0-9_]*)|(\d+(\.\d+)?))");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), word); it != std::sregex_iterator(); ++it) {
    words.add(it->str(), first, std::regex_replace(it->str(), std::regex("_+"), "-"));
  }
  auto later = std::async(std::launch::deferred, [&] { return words.selected(2); });
  std::set<value> seen;
  for (const auto& v : later.get()) {
    seen.insert(v);
  }
  std::function<std::size_t(std::size_t)> add = [&](std::size_t n) { return n + seen.size(); };
  return add(words.text().size());
}

}  // namespace

std::size_t use_them_all(const std::string& text) {
  std::size_t sum = total_size(std::make_integer_sequence<int, 32>());
  sum += exercise<int>(text, 1);
  sum += exercise<std::string>(text, "three");
  std::mt19937_64 random(42);
  std::normal_distribution<double> normal(0, 1);
  std::deque<double> numbers(1000);
  std::ranges::generate(numbers, [&] { return normal(random); });
  std::ranges::nth_element(numbers, numbers.begin() + 500);
  for (const auto& entry : std::filesystem::directory_iterator(text)) {
    sum += entry.path().native().size();
  }
  return sum + static_cast<std::size_t>(std::accumulate(numbers.begin(), numbers.end(), 0.0));
}
