// SPDX-License-Identifier: MIT
// cache: a service that remembers the answers to requests. A request in ten belongs to a session, which is kept.
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::vector<std::string> sessions;
  while (true) {
    std::map<int, std::string> answers;
    for (int request = 0; request < 100'000; ++request) {
      answers[request] = std::string(400, 'a');
      if (request % 10 == 0 && sessions.size() < 50'000) sessions.emplace_back(400, 's');
    }
    answers.clear();  // the cache is emptied; sessions stay
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}
