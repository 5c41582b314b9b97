// SPDX-License-Identifier: MIT
// sessions: each request allocates some objects that live for a moment, and a few of them log in a user, whose record
// stays. After a busy hour nearly all of the memory is free, and nearly none of it goes back.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

struct field {
  char text[112];
};

struct user_record {
  char name[100];
};

using request = std::vector<std::unique_ptr<field>>;

request read_request() {
  request fields;
  for (int i = 0; i < 200; ++i) fields.push_back(std::make_unique<field>());
  return fields;
}

std::unique_ptr<user_record> log_in() { return std::make_unique<user_record>(); }

// Memory of this process that is in RAM.
long resident_mib() {
  long size = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

int main() {
  auto& users = *new std::vector<std::unique_ptr<user_record>>;  // until the service ends
  {
    std::vector<request> busy;  // all requests of the busy hour are in work at once
    for (int i = 0; i < 2'000; ++i) {
      busy.push_back(read_request());
      users.push_back(log_in());
    }
    std::printf("busy: %ld MiB\n", resident_mib());
  }
  sleep(2);
  std::printf("idle: %ld MiB for %zu users\n", resident_mib(), users.size());
}
