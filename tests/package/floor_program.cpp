// SPDX-License-Identifier: MIT
// For tests/package/glibc_floor_test.sh: uses what an older glibc has under other names or versions, and ends with status 0
// if all of it works.
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

int constructed = 0;
struct constructor {
  constructor() { ++constructed; }
  ~constructor() { std::fputs("destroyed\n", stderr); }
} object;

bool stops(const char* what, bool holds) {
  if (!holds) std::fprintf(stderr, "floor_program: %s does not work\n", what);
  return !holds;
}

bool catches() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::runtime_error& error) {
    return std::strcmp(error.what(), "thrown") == 0;
  }
}

}  // namespace

int main() {
  int from_thread = 0;
  const auto shared = std::make_shared<int>(7);
  std::thread([&from_thread, shared] { from_thread = *shared; }).join();
  struct stat seen = {};
  struct stat seen_open = {};
  const bool found =
      ::stat("/", &seen) == 0 && lstat("/", &seen_open) == 0 && seen.st_ino == seen_open.st_ino;
  bool in_environment = false;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each)
    in_environment = in_environment || std::strcmp(*each, "FLOOR_TEST=set") == 0;
  volatile double two = 2;
  const bool failed = stops("a constructor", constructed == 1) || stops("a thread", from_thread == 7) ||
                      stops("stat", found && S_ISDIR(seen.st_mode)) || stops("environ", in_environment) ||
                      stops("getenv", std::getenv("FLOOR_TEST") != nullptr) ||
                      stops("an exception", catches()) ||
                      stops("dlsym", dlsym(RTLD_DEFAULT, "malloc") != nullptr) ||
                      stops("a directory", std::filesystem::exists("/")) ||
                      stops("sigdescr_np", std::strcmp(sigdescr_np(SIGSEGV), "Segmentation fault") == 0) ||
                      stops("pow", std::pow(two, 10) == 1024 && std::hypot(two, 0) == 2) ||
                      stops("random_device", std::random_device()() != std::random_device()() ||
                                                 std::random_device()() != std::random_device()());
  return failed ? 1 : 0;
}
