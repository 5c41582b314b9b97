// SPDX-License-Identifier: MIT
// Line 51: the control socket (TARN_CONTROL=FOLDER, this program's first argument) answers its user and nobody else,
// whatever clients do, and the program does not notice it: no descriptor of it appears, none is left to children, and it
// follows changes of rights, fork, exec and the end of the process.
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "sandbox.hpp"
#include "tasks.hpp"

using namespace guarantee;

namespace {

constexpr int clients = 100;
const char* folder;

int connect_to(pid_t process, bool nonblocking = false) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0), 0);
  if (descriptor < 0) skip("socket: %s", strerror(errno));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/%d", folder, process);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

// The door opens soon after the process has started.
int connect_soon(pid_t process) {
  for (int i = 0; i < 2000; ++i) {
    const int descriptor = connect_to(process);
    if (descriptor >= 0) return descriptor;
    sleep_ms(1);
  }
  return -1;
}

// The start of the answer; "" if there is none within ten seconds. Not reentrant.
const char* ask(pid_t process, const char* line) {
  static char answer[1024];
  answer[0] = '\0';
  const int descriptor = connect_soon(process);
  if (descriptor < 0) return answer;
  // Whoever may not ask has an answer before the question.
  if (send(descriptor, line, strlen(line), MSG_NOSIGNAL) < 0 && errno != EPIPE) return answer;
  size_t length = 0;
  pollfd wait{descriptor, POLLIN, 0};
  while (length < sizeof answer - 1 && poll(&wait, 1, 10000 * static_cast<int>(slowness())) == 1) {
    const ssize_t bytes = recv(descriptor, answer + length, sizeof answer - 1 - length, 0);
    if (bytes <= 0) break;
    length += static_cast<size_t>(bytes);
    answer[length] = '\0';
  }
  close(descriptor);
  return answer;
}

bool answers(pid_t process) { return strncmp(ask(process, "tarn/1 metrics\n"), "tarn/1 ok ", 10) == 0; }

size_t open_descriptors() {
  size_t count = 0;
  for (int i = 0; i < 1024; ++i) count += fcntl(i, F_GETFD) != -1;
  return count;
}

void keeps_descriptors_apart() {
  const size_t before = open_descriptors();
  TARN_CHECK(answers(getpid()), "the socket does not answer");
  TARN_CHECK(open_descriptors() == before, "a descriptor has appeared");
  // As daemons do.
  const child_result result = run_in_child(60, [] {
    if (!answers(getpid())) return 10;
    for (int i = 0; i < 1024; ++i) close(i);
    return answers(getpid()) ? holds : 11;
  });
  expect_good(result, "a child that has closed all descriptors");
}

// ---- clients that misbehave ----

void survives_garbage() {
  random_numbers random(51);
  static char bytes[20000];
  for (int i = 0; i < 200; ++i) {
    const int descriptor = connect_soon(getpid());
    TARN_CHECK(descriptor >= 0, "the socket takes no client after %d with garbage", i);
    const size_t length = i % 4 == 0 ? sizeof bytes : random.below(600);
    for (size_t b = 0; b < length; ++b) bytes[b] = static_cast<char>(random.next());
    if (i % 3 == 0) memcpy(bytes, "tarn/1 ", 7);
    if (length != 0 && send(descriptor, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EPIPE &&
        errno != EAGAIN)
      skip("send: %s", strerror(errno));
    close(descriptor);
  }
  TARN_CHECK(answers(getpid()), "the socket does not answer after garbage");
}

// All that the socket can hold are connected and do nothing; later ones are answered when their time is over.
double outlasts_hanging_clients() {
  int hanging[clients];
  for (int& each : hanging) each = connect_to(getpid(), true);
  const double begin = wall_seconds();
  TARN_CHECK(answers(getpid()), "the socket does not answer beside %d clients that hang", clients);
  const double waited = wall_seconds() - begin;
  for (const int each : hanging) {
    if (each >= 0) close(each);
  }
  return waited;
}

// ---- other users ----

void refuses_others() {
  if (geteuid() != 0) return;
  const pid_t process = getpid();
  const auto as_nobody = [process](bool reaches) {
    return run_in_child(60, [process, reaches] {
      if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return not_checkable;
      if (!reaches) return connect_to(process) < 0 && errno == EACCES ? holds : 20;
      return strstr(ask(process, "tarn/1 metrics\n"), "only the process's own user") != nullptr ? holds : 21;
    });
  };
  expect_good(as_nobody(false), "another user at the closed folder");
  char path[160];
  snprintf(path, sizeof path, "%s/%d", folder, process);
  if (chmod(folder, 0755) != 0 || chmod(path, 0666) != 0) skip("chmod: %s", strerror(errno));
  const child_result reached = as_nobody(true);
  chmod(folder, 0700);
  expect_good(reached, "another user whom the files let in");
}

// ---- the life of the process ----

void follows_fork() {
  const pid_t parent = getpid();
  expect_good(run_in_child(60,
                           [parent] {
                             if (!answers(getpid())) return 30;
                             if (!answers(parent)) return 31;
                             return count_tasks() == 2 ? holds : 32;
                           }),
              "a child's own socket");
  TARN_CHECK(answers(parent), "the parent does not answer after a fork");
}

void follows_exec() {
  expect_good(run_in_child(60,
                           [] {
                             if (!answers(getpid())) return 40;
                             char path[4096];
                             const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
                             if (length <= 0) return not_checkable;
                             path[length] = '\0';
                             execl(path, path, "after-exec", static_cast<char*>(nullptr));
                             return not_checkable;
                           }),
              "a program executed by a process with a socket");
}

// The thread has none of the old rights, and the socket is the new user's, in that user's folder.
void follows_rights() {
  if (geteuid() != 0) return;
  const child_result result = run_in_child(60, [] {
    using set_option = int(const char*, const char*);
    auto* const set = reinterpret_cast<set_option*>(dlsym(RTLD_DEFAULT, "tarn_set_option"));
    if (set == nullptr || set("control", "on") != 0) return 50;
    folder = "/tmp/tarn-0";
    if (!answers(getpid())) return 51;
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return not_checkable;
    expect_one_set_of_rights("setuid");
    folder = "/tmp/tarn-65534";
    if (!answers(getpid())) return 52;
    return set("control", "off") == 0 ? holds : 53;
  });
  expect_good(result, "a process that changes its user");
}

void ends_in_a_sandbox() {
  expect_good(run_in_child(60,
                           [] {
                             if (!answers(getpid())) return 60;
                             constexpr long allowed[] = {SYS_read,      SYS_write,          SYS_openat,
                                                         SYS_close,     SYS_getdents64,     SYS_exit_group,
                                                         SYS_nanosleep, SYS_clock_nanosleep};
                             close_sandbox(allowed, sandbox_call::prctl_call);
                             return count_tasks() == 1 ? holds : 61;
                           }),
              "a process in a sandbox");
}

void leaves_no_name() {
  const pid_t child = fork();
  if (child == 0) exit(answers(getpid()) ? holds : broken);
  expect_good(wait_for(child), "a child that exits");
  char path[160];
  snprintf(path, sizeof path, "%s/%d", folder, child);
  TARN_CHECK(access(path, F_OK) != 0, "%s is there after the process has exited", path);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return broken;
  folder = getenv("TARN_CONTROL");
  if (strcmp(arguments[1], "after-exec") == 0) return folder != nullptr && answers(getpid()) ? holds : 41;
  start();
  if (tarn_trim == nullptr) skip("this allocator has no control socket");
  if (folder == nullptr || folder[0] != '/') return broken;
  const int first = connect_soon(getpid());
  TARN_CHECK(first >= 0, "there is no socket at %s/%d: %s", folder, getpid(), strerror(errno));
  close(first);
  TARN_CHECK(count_tasks() == 2, "%zu threads, not 2", count_tasks());
  keeps_descriptors_apart();
  survives_garbage();
  const double waited = outlasts_hanging_clients();
  refuses_others();
  follows_fork();
  follows_exec();
  follows_rights();
  ends_in_a_sandbox();
  leaves_no_name();
  TARN_CHECK(answers(getpid()), "the socket does not answer at the end");
  measured("answered %.1f s after %d clients that hang", waited, clients);
  return holds;
}
