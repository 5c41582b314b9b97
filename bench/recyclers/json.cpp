// SPDX-License-Identifier: MIT
// json: parses an order of about 1,000 bytes, counts its items and adds up their prices; with a new parser each time,
// with one that the caller keeps, and with one from a recycler.
// Models: a service that reads requests. simdjson's parser suits a recycler: it keeps the memory to which it has grown,
// and its documentation asks users to reuse it.
// Output: one JSON object: ns, allocations and allocated bytes per document.
#include <simdjson.h>

#include "counted_malloc.hpp"

namespace {

constexpr std::size_t per_call = 20;
constexpr std::size_t items_of_order = 8;

using variants = bench::contender_list<bench::fresh, bench::by_hand, bench::recycled>;
using parser = simdjson::dom::parser;

// For each byte of the longest document a parser keeps a word of its tape, a position and up to two bytes of text.
constexpr std::size_t bytes_per_character = 14;

struct parser_hooks {
  static void reset(parser& /*object*/) noexcept {}  // the next document overwrites the last
  static std::size_t retained_bytes(const parser& object) {
    return sizeof(parser) + object.capacity() * bytes_per_character;
  }
};

void read_order(parser& each, const simdjson::padded_string& text) {
  simdjson::dom::array items;
  if (each.parse(text)["items"].get(items) != simdjson::SUCCESS) bench::fail("the order has no items");
  std::size_t count = 0;
  double prices = 0;
  for (const simdjson::dom::element item : items) {
    double price = 0;
    if (item["price"].get(price) != simdjson::SUCCESS) bench::fail("an item has no price");
    prices += price;
    ++count;
  }
  if (count != items_of_order || prices <= 0) bench::fail("the order was read wrongly");
}

void run(bench::fresh /*variant*/, const simdjson::padded_string& text,
         const bench::scene_arguments& arguments) {
  bench::report_counted(arguments, per_call, [&] {
    parser each;
    read_order(each, text);
  });
}

void run(bench::by_hand /*variant*/, const simdjson::padded_string& text,
         const bench::scene_arguments& arguments) {
  parser each;
  bench::report_counted(arguments, per_call, [&] { read_order(each, text); });
}

void run(bench::recycled /*variant*/, const simdjson::padded_string& text,
         const bench::scene_arguments& arguments) {
  tarn::recycler<parser, parser_hooks> pool;
  bench::report_counted(arguments, per_call, [&] {
    const auto each = pool.get();
    read_order(*each, text);
  });
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      variants(), count, words, "ORDER_FILE", []<class Variant>(const bench::scene_arguments& arguments) {
        simdjson::padded_string text;
        if (simdjson::padded_string::load(arguments.rest[0]).get(text) != simdjson::SUCCESS) {
          std::fprintf(stderr, "cannot read %s; it should be bench/recyclers/order.json\n",
                       arguments.rest[0]);
          std::exit(2);
        }
        run(Variant(), text, arguments);
      });
}
