// SPDX-License-Identifier: MIT
// A program without threads of its own enters a user namespace, which the kernel allows to processes of one thread
// only, while its recycler has a thread because objects are idle. unshare succeeds, and the idle objects are destroyed
// in time.
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "program.hpp"
#include "tarn/recycler.hpp"

namespace {

using namespace std::chrono_literals;

std::atomic<int> alive{0};

struct parser {
  parser() { ++alive; }
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;
  ~parser() { --alive; }
};

int count_tasks() {
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count;
}

template <class Condition>
bool wait_until(Condition condition) {
  for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

// Whether tarn's definition of unshare() is in use. The archives do not define libc's functions.
bool has_gates() {
  Dl_info defining{};
  void* const found = dlsym(RTLD_DEFAULT, "unshare");
  return found != nullptr && dladdr(found, &defining) != 0 &&
         std::strstr(defining.dli_fname, "libtarn") != nullptr;
}

// Whether the system lets a process of one thread do it: a forked child has none of its parent's threads. Emulators of
// system calls have threads of their own.
bool may_enter_user_namespace() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main() {
  if (!has_gates() || !may_enter_user_namespace()) return 77;  // skipped
  tarn::recycler<parser> parsers({.cycle = std::chrono::milliseconds(300), .name = "parsers"});
  { auto one = parsers.get(); }
  TARN_CHECK(wait_until([] { return count_tasks() > 1; }),
             "the recycler has no thread while an object waits");
  TARN_CHECK(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER): %s", std::strerror(errno));
  TARN_CHECK(wait_until([] { return alive == 0; }), "%d objects wait for ever after unshare", alive.load());
  return 0;
}
