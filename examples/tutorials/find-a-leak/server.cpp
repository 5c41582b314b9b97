// SPDX-License-Identifier: MIT
// server: answers requests. Requests that are malformed leak memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

auto& settings = *new std::map<std::string, std::string>;  // lives as long as the program: not a leak

struct request {
  char* body;
  std::size_t length;
};

request* read_request(int number) {
  auto* const one = new request;
  one->length = 1000;
  one->body = static_cast<char*>(std::malloc(one->length));
  std::memset(one->body, number % 10 == 0 ? '?' : 'x', one->length);
  return one;
}

void finish(request* one) {
  std::free(one->body);
  delete one;
}

bool answer(request* one) {
  if (one->body[0] == '?') return false;  // malformed: nobody calls finish()
  finish(one);
  return true;
}

int main() {
  settings["greeting"] = "a text that is longer than a string's own space";
  int answered = 0;
  for (int number = 0; number < 1000; ++number) answered += answer(read_request(number)) ? 1 : 0;
  std::printf("%d of 1000 requests answered\n", answered);
}
