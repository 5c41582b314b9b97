// SPDX-License-Identifier: MIT
// gateway: answers requests, and remembers the answer to each, by an address with the time in it: for ever.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

std::map<std::string, std::string> remembered;

std::string compute(int number) { return std::string(2'000 + number % 1'000, 'a'); }

const std::string& answer(const std::string& address, int number) {
  const auto found = remembered.find(address);
  if (found != remembered.end()) return found->second;
  return remembered[address] = compute(number);
}

int main() {
  for (int number = 0;; ++number) {
    answer("/price?item=" + std::to_string(number % 50) + "&time=" + std::to_string(number), number);
    if (number % 100 == 0) usleep(1'000);
  }
}
