// SPDX-License-Identifier: MIT
// sessions: loads a day's sessions, writes a report about them, then keeps the newest, which are still open.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

struct session {
  std::string user;
  std::vector<int> clicks;
};

using session_list = std::vector<std::unique_ptr<session>>;

session_list load() {
  session_list all;
  for (int i = 0; i < 400'000; ++i) {
    auto one = std::make_unique<session>();
    one->user = "somebody-with-a-long-name-" + std::to_string(i);
    one->clicks.assign(static_cast<std::size_t>(10 + i % 50), i);
    all.push_back(std::move(one));
  }
  return all;
}

std::string report(const session_list& all) {
  std::string text;
  for (const auto& one : all)
    text += one->user + ": " + std::to_string(one->clicks.size()) + " clicks, the last on " +
            std::to_string(one->clicks.back()) + ", from an address that is not known any more\n";
  return text;
}

// Memory of this process that is in RAM.
long resident_mib() {
  long size = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

int main() {
  session_list sessions = load();
  std::printf("loaded:   %4ld MiB resident\n", resident_mib());
  std::printf("report:   %4zu MiB of text\n", report(sessions).size() >> 20);
  // The newest hundredth is still open; all other sessions end.
  for (std::size_t i = 0; i < sessions.size() - sessions.size() / 100; ++i) sessions[i].reset();
  sleep(3);
  std::printf("evening:  %4ld MiB resident\n", resident_mib());
}
