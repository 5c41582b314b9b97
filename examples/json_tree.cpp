// SPDX-License-Identifier: MIT
// A JSON parser whose tree lies in an arena, beside the same tree from new and delete.
//
//     json_tree                 a made-up document
//     json_tree FILE.json       your own
//
// It prints what is in the document, then for both ways the time to build the tree and to drop it, and the memory
// that it took. The tree is plain structures with links: for an arena, nothing else is needed.
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tarn/arena.hpp>

namespace {

// ---- the tree ----

enum class kind : unsigned char { null, boolean, number, string, array, object };

struct value {
  value* next = nullptr;   // the next element or member
  value* first = nullptr;  // the first of an array's or object's
  std::string_view name;   // a member's
  std::string_view text;   // a string's, without escapes
  double number = 0;       // a boolean's: 0 or 1
  kind type = kind::null;
};

// ---- where its memory comes from: the parser asks for values and for room for text ----

class arena_memory {
 public:
  value* make_value() { return arena_.create<value>(); }
  char* make_text(std::size_t bytes) { return arena_.allocate_array<char>(bytes); }
  // The root is not needed: what lies in the arena ends with it.
  void drop(value* /*root*/) { arena_.reset(); }
  [[nodiscard]] std::size_t bytes() const { return arena_.bytes_reserved(); }

 private:
  tarn::arena arena_;
};

class heap_memory {
 public:
  value* make_value() { return counted(new value); }
  char* make_text(std::size_t bytes) { return counted(new char[bytes]); }
  void drop(value* v) {
    while (v != nullptr) {
      value* const next = v->next;
      drop(v->first);
      delete[] v->name.data();
      delete[] v->text.data();
      delete v;
      v = next;
    }
    bytes_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  template <class T>
  T* counted(T* block) {
    bytes_ += malloc_usable_size(block) + sizeof(std::size_t);  // and the word before it
    return block;
  }
  std::size_t bytes_ = 0;
};

// ---- the parser ----

template <class Memory>
class parser {
 public:
  parser(std::string_view text, Memory& memory)
      : at_(text.data()), end_(at_ + text.size()), memory_(&memory) {}

  // Throws std::runtime_error if the text is no JSON; what was built by then stays in the memory.
  value* parse() {
    value* const root = parse_value(0);
    skip_space();
    if (at_ != end_) fail("something behind the document");
    return root;
  }

 private:
  static constexpr int deepest = 500;

  [[noreturn]] static void fail(const char* what) { throw std::runtime_error(what); }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  char peek() {
    skip_space();
    if (at_ == end_) fail("the document ends too early");
    return *at_;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (static_cast<std::size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word) {
      fail("an unknown word");
    }
    at_ += word.size();
  }

  value* parse_value(int depth) {
    if (depth > deepest) fail("nested too deeply");
    value* const v = memory_->make_value();
    switch (peek()) {
      case '{': parse_members(v, kind::object, '}', depth); break;
      case '[': parse_members(v, kind::array, ']', depth); break;
      case '"':
        v->type = kind::string;
        v->text = parse_string();
        break;
      case 't':
        expect("true");
        v->type = kind::boolean;
        v->number = 1;
        break;
      case 'f':
        expect("false");
        v->type = kind::boolean;
        break;
      case 'n': expect("null"); break;
      default: parse_number(v);
    }
    return v;
  }

  void parse_members(value* v, kind type, char close, int depth) {
    v->type = type;
    ++at_;
    if (take(close)) return;
    value** link = &v->first;
    do {
      std::string_view name;
      if (type == kind::object) {
        if (peek() != '"') fail("a member without a name");
        name = parse_string();
        if (!take(':')) fail("a name without a value");
      }
      *link = parse_value(depth + 1);
      (*link)->name = name;
      link = &(*link)->next;
    } while (take(','));
    if (!take(close)) fail("a comma or an end is missing");
  }

  void parse_number(value* v) {
    const auto [last, error] = std::from_chars(at_, end_, v->number);
    if (error != std::errc{} || last == at_) fail("not a value");
    v->type = kind::number;
    at_ = last;
  }

  std::string_view parse_string() {
    const char* const first = ++at_;
    while (at_ != end_ && *at_ != '"') at_ += *at_ == '\\' && at_ + 1 != end_ ? 2 : 1;
    if (at_ >= end_) fail("a string without an end");
    const char* const last = at_++;
    if (first == last) return {};
    char* const text = memory_->make_text(static_cast<std::size_t>(last - first));
    char* out = text;
    for (const char* c = first; c < last; ++c) {
      if (*c == '\\') {
        out = unescape(c, last, out);
      } else {
        *out++ = *c;
      }
    }
    return {text, static_cast<std::size_t>(out - text)};
  }

  // `c` is at the backslash, and at the escape's last character afterwards.
  static char* unescape(const char*& c, const char* last, char* out) {
    static constexpr std::string_view letters = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    ++c;
    if (const std::size_t which = letters.find(*c); which != std::string_view::npos) {
      *out++ = meanings[which];
      return out;
    }
    unsigned code = 0;
    if (*c != 'u' || last - c < 5 || std::from_chars(c + 1, c + 5, code, 16).ptr != c + 5)
      fail("a bad escape");
    c += 4;
    // UTF-8 of one code unit; pairs of surrogates are left apart.
    if (code < 0x80) {
      *out++ = static_cast<char>(code);
    } else if (code < 0x800) {
      *out++ = static_cast<char>(0xC0 | (code >> 6));
      *out++ = static_cast<char>(0x80 | (code & 0x3F));
    } else {
      *out++ = static_cast<char>(0xE0 | (code >> 12));
      *out++ = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      *out++ = static_cast<char>(0x80 | (code & 0x3F));
    }
    return out;
  }

  const char* at_;
  const char* end_;
  Memory* memory_;
};

// ---- what is in it ----

struct summary {
  std::size_t of_kind[6] = {};
  std::size_t text_bytes = 0;
  double sum = 0;
  int depth = 0;

  void count(const value* v, int level = 1) {
    depth = std::max(depth, level);
    for (; v != nullptr; v = v->next) {
      ++of_kind[static_cast<unsigned>(v->type)];
      text_bytes += v->name.size() + v->text.size();
      if (v->type == kind::number) sum += v->number;
      if (v->first != nullptr) count(v->first, level + 1);
    }
  }
  bool operator==(const summary&) const = default;
  void print() const {
    std::printf("objects %zu, arrays %zu, strings %zu, numbers %zu, booleans %zu, nulls %zu\n", of_kind[5],
                of_kind[4], of_kind[3], of_kind[2], of_kind[1], of_kind[0]);
    std::printf("bytes of text %zu, sum of numbers %.0f, depth %d\n", text_bytes, sum, depth);
  }
};

std::string made_up_document() {
  std::mt19937 random(7);
  const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::ostringstream out;
  out << "{\"people\": [";
  for (unsigned i = 0; i < 20'000; ++i) {
    out << (i == 0 ? "" : ",") << "\n  {\"id\": " << i << ", \"name\": \"Person \\u00e9 " << below(100'000)
        << "\", \"active\": " << (below(2) == 0 ? "false" : "true") << ", \"score\": " << below(1000)
        << ", \"manager\": null, \"tags\": [";
    for (unsigned tag = 0, tags = below(8); tag < tags; ++tag) {
      out << (tag == 0 ? "" : ", ") << "\"tag " << below(1000) << '"';
    }
    out << "], \"address\": {\"street\": \"" << std::string(5 + below(30), 's')
        << "\", \"number\": " << below(300) << "}}";
  }
  out << "\n]}\n";
  return out.str();
}

struct figures {
  std::vector<double> build_ms;
  std::vector<double> drop_ms;
  std::size_t bytes = 0;
  summary content;
};

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <class Memory>
void one_round(std::string_view document, Memory& memory, figures& out) {
  using clock = std::chrono::steady_clock;
  const auto ms = [](clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  const clock::time_point start = clock::now();
  value* const root = parser<Memory>(document, memory).parse();
  const clock::time_point built = clock::now();
  out.content = {};
  out.content.count(root);
  out.bytes = memory.bytes();
  const clock::time_point before_drop = clock::now();
  memory.drop(root);
  out.build_ms.push_back(ms(built - start));
  out.drop_ms.push_back(ms(clock::now() - before_drop));
}

void print_row(const char* name, figures& f) {
  std::printf("%-12s build %7.2f ms   drop %7.3f ms   memory %6.2f MiB\n", name, median(f.build_ms),
              median(f.drop_ms), static_cast<double>(f.bytes) / (1024 * 1024));
}

int run(const std::string& document) {
  arena_memory in_arena;
  heap_memory on_heap;
  figures arena_figures;
  figures heap_figures;
  // In turns, so that a disturbance meets both.
  for (int round = 0; round < 15; ++round) {
    one_round(document, in_arena, arena_figures);
    one_round(document, on_heap, heap_figures);
  }
  std::printf("document: %zu bytes\n", document.size());
  arena_figures.content.print();
  const bool same = arena_figures.content == heap_figures.content;
  std::printf("both trees are %s\n", same ? "the same" : "DIFFERENT");
  print_row("arena", arena_figures);
  print_row("new, delete", heap_figures);
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return run(made_up_document());
  std::ifstream file(argv[1], std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + argv[1]);
  std::ostringstream content;
  content << file.rdbuf();
  return run(content.str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "json_tree: %s\n", error.what());
  return 1;
}
