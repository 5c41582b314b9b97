# SPDX-License-Identifier: MIT
"""Small programs, each with one planted problem of memory, and what mends it (-DMENDED): for the tests of what an agent gets.

A line of the problem ends in "// planted". Besides it each program has the same six harmless places that allocate, so that the
first three of a list are not simply all places. What an agent looks at follows from what a person would complain about (`view`);
`kinds`: advice that fits the problem, none where tarn has no rule for it; `claim`: what must be better afterwards, and by which tool.
"""
import collections

Planted = collections.namedtuple("Planted", "name view kinds claim code")

BEGINNING = r"""
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#define APART __attribute__((noinline))
template <class T> void use(T* what) { asm volatile("" : : "r"(what) : "memory"); }
APART long work(long rounds) { long sum = 1; for (long at = 0; at < rounds; ++at) { sum = sum * 31 + at; use(&sum); } return sum; }
APART void other_1() { for (int at = 0; at < 3000; ++at) { std::string text(40 + at % 60, 'a'); use(text.data()); } }
APART void other_2() { std::vector<long> values(3000, 1); use(values.data()); }
APART void other_3() { static auto* const names = new std::map<int, int>; for (int at = 0; at < 1000; ++at) (*names)[at] = at; }
APART void other_4() { for (int at = 1; at < 2000; ++at) { void* block = malloc(at); use(block); free(block); } }
APART void other_5() { static auto* const table = new std::vector<char>(200000, 'a'); use(table->data()); }
APART void other_6() { std::list<int> all; for (int at = 0; at < 2000; ++at) all.push_back(at); use(&all); }
"""
END = "\n#ifdef MENDED\nvolatile int changed = 1;  // so that no two builds are the same\n#endif\nint main() { other_1(); other_2(); other_3(); other_4(); other_5(); other_6(); run(); return 0; }\n"

REUSE = {"reuse", "typed pool", "object pool", "recycler"}

PLANTED = [Planted(*row) for row in (
    ("lost block", "leaks", (), "diff live_bytes", r"""
APART long handle(int at) {
  char* copy = static_cast<char*>(malloc(200));  // planted
  memset(copy, at, 200);
  const long result = copy[at % 200];
#ifdef MENDED
  free(copy);
#endif
  return result;
}
void run() { for (int at = 0; at < 20000; ++at) { long sum = handle(at) + work(1000); use(&sum); } }
"""),
    ("cycle of shared_ptr", "leaks", (), "diff live_bytes", r"""
struct node {
#ifdef MENDED
  std::weak_ptr<node> other;
#else
  std::shared_ptr<node> other;
#endif
  char data[100] = {};
};
APART void handle() {
  auto first = std::make_shared<node>();  // planted
  auto second = std::make_shared<node>();  // planted
  first->other = second;
  second->other = first;
}
void run() { for (int at = 0; at < 20000; ++at) { handle(); long sum = work(1000); use(&sum); } }
"""),
    ("growing history", "live_bytes", (), "diff live_bytes", r"""
static auto* const history = new std::deque<std::string>;
APART void handle(int at) {
  history->emplace_back(300, static_cast<char>(at));  // planted
#ifdef MENDED
  if (history->size() > 100) history->pop_front();
#endif
}
void run() { for (int at = 0; at < 50000; ++at) { handle(at); long sum = work(1000); use(&sum); } }
"""),
    ("cache that is never hit", "live_bytes", (), "diff live_bytes", r"""
static auto* const cache = new std::unordered_map<std::string, std::string>;
APART const std::string& answer(int question, int time) {
#ifdef MENDED
  std::string key = "question " + std::to_string(question);
  (void)time;
#else
  std::string key = "question " + std::to_string(question) + " at " + std::to_string(time);
#endif
  std::string& entry = (*cache)[key];  // planted
  if (entry.empty()) entry.assign(400, 'x');  // planted
  return entry;
}
void run() { for (int at = 0; at < 40000; ++at) { const auto& text = answer(at % 50, at); use(text.data()); long sum = work(500); use(&sum); } }
"""),
    ("kept capacity", "live_bytes", (), "diff live_bytes", r"""
struct worker { std::vector<char> input; };
static auto* const workers = new std::vector<worker>(100);
APART void handle(worker& who, int bytes) {
  who.input.resize(bytes);  // planted
  use(who.input.data());
  who.input.clear();
#ifdef MENDED
  who.input.shrink_to_fit();
#endif
}
void run() { for (int at = 0; at < 5000; ++at) { handle((*workers)[at % 100], at < 100 ? 300000 : 100); long sum = work(10000); use(&sum); } }
"""),
    ("temporary buffer", "cost", REUSE, "prove cpu", r"""
APART long handle(int at) {
#ifdef MENDED
  static std::vector<char> scratch;
  scratch.clear();
#else
  std::vector<char> scratch;
#endif
  scratch.resize(256);  // planted
  scratch[0] = static_cast<char>(at);
  use(scratch.data());
  return scratch[0];
}
void run() { for (int at = 0; at < 5000000; ++at) { long sum = handle(at) + work(10); use(&sum); } }
"""),
    ("vector without reserve", "cost", {"reserve"}, "prove cpu", r"""
APART void handle(int count) {
  std::vector<int> values;
#ifdef MENDED
  values.reserve(count);
#endif
  for (int at = 0; at < count; ++at) values.push_back(at);  // planted
  use(values.data());
}
void run() { for (int at = 0; at < 60000; ++at) handle(500 + at % 500); }
"""),
    ("realloc in small steps", "cost", {"reserve"}, "prove cpu", r"""
APART void handle(int count) {
  char* text = nullptr;
  int room = 0;
  for (int size = 0; size < count; size += 16) {
    if (size + 16 > room) {
#ifdef MENDED
      room = 2 * room + 16;
#else
      room += 16;
#endif
      text = static_cast<char*>(realloc(text, room));  // planted
    }
    memset(text + size, 'a', 16);
  }
  use(text);
  free(text);
}
void run() { for (int at = 0; at < 20000; ++at) handle(4000); }
"""),
    ("nodes of a map", "cost", {"typed pool", "arena"}, "prove cpu", r"""
#ifdef MENDED
#include <tarn/pooled.hpp>
#endif
APART void handle(int first) {
#ifdef MENDED
  std::map<int, long, std::less<>, tarn::pooled_allocator<std::pair<const int, long>>> values;
#else
  std::map<int, long> values;
#endif
  for (int at = 0; at < 100; ++at) values[first + at * 7919 % 100] = at;  // planted
  use(&values);
}
void run() { for (int at = 0; at < 30000; ++at) handle(at); }
"""),
    ("large buffers mapped again", "cost", {"tunable", "buffer pool"}, "prove cpu", r"""
constexpr size_t size = 48 << 20;
APART void handle(int at) {
#ifdef MENDED
  static char* const picture = static_cast<char*>(malloc(size));
#else
  char* const picture = static_cast<char*>(malloc(size));  // planted
#endif
  memset(picture, at, size);
  use(picture);
#ifndef MENDED
  free(picture);
#endif
}
void run() { for (int at = 0; at < 20; ++at) handle(at); }
"""),
    ("request for more than is touched", "peak", {"ask for less"}, "diff peak", r"""
#ifdef MENDED
constexpr size_t room = 2 << 20;
#else
constexpr size_t room = 256 << 20;
#endif
void run() {
  char* table = static_cast<char*>(malloc(room));  // planted
  memset(table, 1, 1 << 20);
  long sum = work(100000000);
  use(&sum);
  use(table);
  free(table);
}
"""),
    ("buffer for the largest case", "peak", (), "prove rss", r"""
#ifdef MENDED
constexpr size_t room = 1 << 20;
#else
constexpr size_t room = 96 << 20;
#endif
void run() {
  std::vector<char> message(room);  // planted
  for (int at = 0; at < 100; ++at) { memset(message.data(), at, 100000); long sum = work(1000000); use(&sum); }
}
"""),
    ("copies of a string", "cost", REUSE, "prove cpu", r"""
#ifdef MENDED
APART bool fits(const std::string& text, char letter) { return text[7] == letter; }
#else
APART bool fits(std::string text, char letter) { return text[7] == letter; }
#endif
void run() {
  const std::string text(200, 'a');
  long found = 0;
  for (int at = 0; at < 5000000; ++at)
    found += fits(text, static_cast<char>(at));  // planted
  use(&found);
}
"""),
    ("objects built again", "cost", {"recycler"}, "prove cpu", r"""
struct parser {
  std::vector<int> stack;
  std::string text;
  parser() {
    stack.reserve(64);  // planted
    text.reserve(300);  // planted
  }
  APART void parse(int at) { stack.clear(); text.clear(); stack.push_back(at); text.push_back('a'); use(this); }
};
void run() {
#ifdef MENDED
  parser one;
#endif
  for (int at = 0; at < 3000000; ++at) {
#ifndef MENDED
    parser one;
#endif
    one.parse(at);
  }
}
"""),
    ("few blocks pin much", "pinned", (), "prove rss", r"""
struct entry { char data[200]; };
void run() {
  std::vector<entry*> kept, passing;
#ifdef MENDED
  auto* const room = static_cast<entry*>(malloc(10000 * sizeof(entry)));
#endif
  for (int at = 0; at < 300000; ++at) {
    passing.push_back(new entry());
    if (at % 30 != 0) continue;
#ifdef MENDED
    kept.push_back(room + at / 30);
#else
    kept.push_back(new entry());  // planted
#endif
  }
  for (entry* each : passing) delete each;
  passing = {};
  std::vector<char*> blocks;
  for (int at = 0; at < 500; ++at) { blocks.push_back(static_cast<char*>(malloc(100000))); memset(blocks.back(), 1, 100000); }
  static auto* const all = new std::vector<entry*>(kept);
  use(all);
  for (char* each : blocks) free(each);
  long sum = work(30000000);
  use(&sum);
}
"""),
    ("many tiny blocks", "cost", {"arena", "typed pool"}, "prove cpu", r"""
APART void handle() {
#ifdef MENDED
  std::vector<int> values;
  values.reserve(200000);
  for (int at = 0; at < 200000; ++at) values.push_back(at);
#else
  std::vector<std::unique_ptr<int>> values;
  values.reserve(200000);
  for (int at = 0; at < 200000; ++at) values.push_back(std::make_unique<int>(at));  // planted
#endif
  use(values.data());
}
void run() { for (int at = 0; at < 25; ++at) handle(); }
"""),
    ("messages freed by another thread", "cost", {"object pool"}, "prove cpu", r"""
struct message { long number; char text[120]; };
constexpr long slots = 1024, count = 1000000;
#ifdef MENDED
static message ring[slots];
#else
static message* ring[slots];
#endif
static std::atomic<long> written{0}, taken{0};
void run() {
  std::thread consumer([] {
    long sum = 0;
    for (long at = 0; at < count; ++at) {
      while (written.load(std::memory_order_acquire) <= at) std::this_thread::yield();
#ifdef MENDED
      sum += ring[at % slots].number;
#else
      sum += ring[at % slots]->number;
      delete ring[at % slots];
#endif
      taken.store(at + 1, std::memory_order_release);
    }
    use(&sum);
  });
  for (long at = 0; at < count; ++at) {
    while (at - taken.load(std::memory_order_acquire) >= slots) std::this_thread::yield();
#ifdef MENDED
    message* one = &ring[at % slots];
#else
    message* one = new message;  // planted
    ring[at % slots] = one;
#endif
    one->number = at;
    written.store(at + 1, std::memory_order_release);
  }
  consumer.join();
}
"""),
    ("tree of a request", "cost", {"arena"}, "prove cpu", r"""
struct node { node* left; node* right; long value[4]; };
#ifdef MENDED
struct memory { std::pmr::monotonic_buffer_resource all{200000}; node* get() { return static_cast<node*>(all.allocate(sizeof(node))); } void put(node*) {} };
#else
struct memory { node* get() { return new node; } void put(node* one) { delete one; } };  // planted
#endif
APART node* build(memory& from, int depth) {
  node* one = from.get();  // planted
  one->value[0] = depth;
  one->left = depth > 0 ? build(from, depth - 1) : nullptr;
  one->right = depth > 0 ? build(from, depth - 1) : nullptr;
  return one;
}
APART void drop(memory& from, node* one) {
  if (one == nullptr) return;
  drop(from, one->left);
  drop(from, one->right);
  from.put(one);
}
void run() {
  for (int at = 0; at < 2000; ++at) {
    memory from;
    node* top = build(from, 10);
    use(top);
#ifndef MENDED
    drop(from, top);
#endif
  }
}
"""),
    ("callbacks with a heap block", "cost", REUSE, "prove cpu", r"""
#ifdef MENDED
template <class F> APART long call(const F& what) { return what(); }
#else
APART long call(const std::function<long()>& what) { return what(); }
#endif
void run() {
  long sum = 0;
  for (long at = 0; at < 5000000; ++at) {
    sum += call([at, &sum, third = at + 1, fourth = at + 2] { return at + sum + third + fourth; });  // planted
  }
  use(&sum);
}
"""),
    ("text built by a = a + b", "cost", {"reuse", "reserve"}, "prove cpu", r"""
APART void handle(int count) {
  std::string text;
  for (int at = 0; at < count; ++at) {
#ifdef MENDED
    text += "some more";
#else
    text = text + "some more";  // planted
#endif
  }
  use(text.data());
}
void run() { for (int at = 0; at < 1500; ++at) handle(500); }
"""),
)]

# Nothing is wrong in these: what is claimed about them is too much.
CONTROLS = [Planted(name, "cost", (), "prove cpu", code) for name, code in (
    ("computes", r"""
void run() { long sum = work(150000000); use(&sum); }
"""),
    ("allocates once", r"""
struct record { record* next; long value[6]; };
void run() {
  record* first = nullptr;
  for (int at = 0; at < 5000; ++at) first = new record{first, {at}};
  for (int round = 0; round < 10000; ++round) for (record* each = first; each != nullptr; each = each->next) { each->value[0] += round; use(each); }
  while (first != nullptr) { record* next = first->next; delete first; first = next; }
}
"""),
    ("uses its buffer again", r"""
void run() {
  std::vector<long> values;
  values.reserve(1000);
  for (int round = 0; round < 100000; ++round) { values.clear(); for (long at = 0; at < 1000; ++at) values.push_back(at); use(values.data()); }
}
"""),
)]


def source_of(program):
    return BEGINNING + program.code + END


def planted_lines(program):
    return {number for number, line in enumerate(source_of(program).splitlines(), 1) if line.endswith("// planted")}
