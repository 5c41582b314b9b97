// SPDX-License-Identifier: MIT
// A program that fills containers of many kinds, and prints where operator new was called and for which type: for each
// call path a line "CALL count kind TYPE" and a line "PATH address..." (innermost first), after lines "MAP ..." with
// the program's mappings. symbols_test.cpp compares the types that the analysis finds for these paths with TYPE.
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

constexpr int most_frames = 6;
using call_path = std::array<void*, most_frames>;

struct call {
  call_path from;
  const char* what;
  const char* kind;
  std::uint64_t count;
};
std::array<call, 4096> calls;
std::size_t call_count = 0;
bool noting = false;
const char* expected = "";
const char* kind = "";

void note(void* caller) {
  if (*expected == 0 || noting) return;
  noting = true;
  std::array<void*, most_frames + 6> frames{};
  backtrace(frames.data(), static_cast<int>(frames.size()));
  noting = false;
  // Skips the frames of this function and of operator new.
  const auto* begin = std::find(frames.begin(), frames.end(), caller);
  call_path from{};
  std::copy_n(begin, std::min<std::ptrdiff_t>(frames.end() - begin, most_frames), from.begin());
  for (std::size_t index = 0; index < call_count; ++index) {
    if (calls[index].from == from && calls[index].what == expected) {
      ++calls[index].count;
      return;
    }
  }
  if (call_count < calls.size()) calls[call_count++] = {from, expected, kind, 1};
}

}  // namespace

__attribute__((noinline)) void* operator new(std::size_t size) {
  note(__builtin_return_address(0));
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void* operator new[](std::size_t size) {
  note(__builtin_return_address(0));
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace market {

struct order {
  long id = 0;
  double price = 0;
  long quantity = 0;
  bool operator<(const order& other) const { return id < other.id; }
  bool operator==(const order& other) const { return id == other.id; }
};

struct account {
  long number;
  std::vector<order> orders;
  explicit account(int its_number) : number(its_number) {}
  virtual ~account() = default;
  virtual double value() const { return static_cast<double>(orders.size()); }
};

class trade {
 public:
  explicit trade(long value) noexcept;
  long get() const { return value_; }

 private:
  long value_;
  long other_[9] = {};
};
__attribute__((noinline)) trade::trade(long value) noexcept : value_(value) { other_[3] = value; }

template <class T>
struct ring {
  std::vector<T> slots;
  std::deque<std::pair<T, int>> waiting;
  void fill(int count) {
    for (int index = 0; index < count; ++index) {
      slots.push_back(T{});
      waiting.emplace_back(T{}, index);
    }
  }
};

}  // namespace market

namespace {

struct hidden {  // in an unnamed namespace: its functions have no linkage name
  long values[6] = {};
};

volatile long sink = 0;

template <class Body>
void scene(const char* what, const char* how, Body body) {
  kind = how;
  expected = what;
  body();
  expected = "";
}

using market::order;

__attribute__((noinline)) void sequences(int n) {
  scene("market::order", "container", [n] {
    std::vector<order> all;
    for (int i = 0; i < n; ++i) all.push_back({i, 1.0, 2});
    std::vector<order> copy(all);
    copy.resize(static_cast<std::size_t>(2 * n));
    sink = sink + static_cast<long>(copy.size());
  });
  scene("market::order", "container", [n] {
    std::list<order> all;
    for (int i = 0; i < n; ++i) all.push_front({i, 1.0, 2});
    all.sort();
    sink = sink + static_cast<long>(all.size());
  });
  scene("market::order", "container", [n] {
    std::deque<order> all;
    for (int i = 0; i < n; ++i) all.push_back({i, 1.0, 2});
    sink = sink + static_cast<long>(all.size());
  });
  scene("market::order", "container", [n] {
    std::forward_list<order> all;
    for (int i = 0; i < n; ++i) all.push_front({i, 1.0, 2});
    sink = sink + all.front().id;
  });
  scene("hidden", "container", [n] {
    std::vector<hidden> all(static_cast<std::size_t>(n));
    std::list<hidden> more;
    for (int i = 0; i < n; ++i) more.emplace_back();
    sink = sink + static_cast<long>(all.size() + more.size());
  });
  scene("double", "container", [n] {
    std::priority_queue<double> queue;
    for (int i = 0; i < n; ++i) queue.push(i * 7 % 13);
    std::stack<double, std::vector<double>> stack;
    for (int i = 0; i < n; ++i) stack.push(i);
    sink = sink + static_cast<long>(queue.size() + stack.size());
  });
  scene("unsigned long", "container", [n] {
    std::vector<bool> flags;
    for (int i = 0; i < n; ++i) flags.push_back(i % 2 != 0);
    sink = sink + static_cast<long>(flags.size());
  });
  scene("std::unique_ptr", "container", [n] {
    std::vector<std::unique_ptr<int>> all;
    for (int i = 0; i < n; ++i) all.emplace_back();
    sink = sink + static_cast<long>(all.size());
  });
  scene("int", "container", [n] {
    std::vector<std::vector<int>> rows(static_cast<std::size_t>(n), std::vector<int>(10, 3));
    sink = sink + static_cast<long>(rows.size());
  });
  scene("float", "container", [n] {
    market::ring<float> ring;
    ring.fill(n);
    sink = sink + static_cast<long>(ring.slots.size());
  });
}

__attribute__((noinline)) void associative(int n) {
  scene("market::order", "container", [n] {
    std::map<int, order> all;
    for (int i = 0; i < n; ++i) all[i * 37 % 1009] = {i, 1.0, 2};
    sink = sink + static_cast<long>(all.size());
  });
  scene("market::order", "container", [n] {
    std::set<order> all;
    for (int i = 0; i < n; ++i) all.insert({i, 1.0, 2});
    std::multiset<order> more(all.begin(), all.end());
    sink = sink + static_cast<long>(all.size() + more.size());
  });
  scene("market::order", "container", [n] {
    std::map<std::string, std::shared_ptr<order>> all;
    for (int i = 0; i < n; ++i) all.try_emplace(std::to_string(i));
    sink = sink + static_cast<long>(all.size());
  });
  scene("h", "container", [n] {  // nodes and buckets
    std::unordered_map<int, order> all;
    for (int i = 0; i < n; ++i) all.emplace(i, order{i, 1.0, 2});
    sink = sink + static_cast<long>(all.size());
  });
  scene("h", "container", [n] {
    std::unordered_set<long> all;
    for (int i = 0; i < n; ++i) all.insert(i * 5);
    std::unordered_multimap<int, int> more;
    for (int i = 0; i < n; ++i) more.emplace(i % 7, i);
    sink = sink + static_cast<long>(all.size() + more.size());
  });
}

__attribute__((noinline)) void texts(int n) {
  scene("char", "container", [n] {
    std::string text;
    for (int i = 0; i < n; ++i) text += "some more characters";
    std::string copy = text + text;
    copy.reserve(copy.size() * 2);
    std::string again(copy, 3);
    again.insert(5, "in between");
    again.replace(0, 3, std::string(60, 'x'));
    sink = sink + static_cast<long>(again.size());
  });
  scene("wchar_t", "container", [n] {
    std::wstring text;
    for (int i = 0; i < n; ++i) text += L'w';
    sink = sink + static_cast<long>(text.size());
  });
  scene("std::", "container", [n] {
    std::vector<std::string> words;
    for (int i = 0; i < n; ++i) words.emplace_back("short");
    sink = sink + static_cast<long>(words.size());
  });
}

__attribute__((noinline)) void pointers(int n) {
  scene("market::order", "container", [n] {
    std::vector<std::shared_ptr<order>> all;
    all.reserve(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) all.push_back(std::make_shared<order>());
    sink = sink + static_cast<long>(all.size());
  });
  scene("market::order", "unique", [n] {
    for (int i = 0; i < n; ++i) {
      auto one = std::make_unique<order>();
      sink = sink + one->id + static_cast<long>(reinterpret_cast<std::uintptr_t>(one.get()) & 1);
      asm volatile("" ::"r"(one.get()) : "memory");
    }
  });
  scene("market::account", "constructor", [n] {
    for (int i = 0; i < n; ++i) {
      auto* one = new market::account(i);
      asm volatile("" ::"r"(one) : "memory");
      sink = sink + static_cast<long>(one->value());
      delete one;
    }
  });
  scene("market::trade", "constructor", [n] {
    for (int i = 0; i < n; ++i) {
      auto* one = new market::trade(i);
      asm volatile("" ::"r"(one) : "memory");
      sink = sink + one->get();
      delete one;
    }
  });
}

void print_results() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) std::printf("MAP %s\n", line.c_str());
  for (std::size_t index = 0; index < call_count; ++index) {
    const call& one = calls[index];
    std::printf("CALL %llu %s %s\nPATH", static_cast<unsigned long long>(one.count), one.kind, one.what);
    for (void* address : one.from) {
      if (address == nullptr) break;
      std::printf(" %llx", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  sequences(1000);
  associative(1000);
  texts(1000);
  pointers(1000);
  print_results();
}
