// SPDX-License-Identifier: MIT
// protobuf: a server that makes an arena for each request. After some requests each arena takes one block, of the right size.
// Link: protobuf, tarn::tarn-api.
#include <google/protobuf/struct.pb.h>

#include <cstdio>

#include "protobuf.hpp"

namespace {

// What a request parses: a list of `items` numbers.
double handle(tarn::protobuf_arena& arena, int items) {
  auto* const list = google::protobuf::Arena::CreateMessage<google::protobuf::ListValue>(arena.get());
  for (int i = 0; i < items; ++i) list->add_values()->set_number_value(i);
  return list->values(items - 1).number_value();
}

}  // namespace

int main() {
  double sum = 0;
  for (int request = 0; request < 1000; ++request) {
    tarn::protobuf_arena arena;
    sum += handle(arena, 200 + request % 7);
  }
  std::printf("1000 requests, sum %.0f\n", sum);
  tarn::protobuf_arena arena;
  handle(arena, 200);
  std::printf("the last arena has %llu block\n",
              static_cast<unsigned long long>(tarn::protobuf_blocks::stats().live_blocks));
}
