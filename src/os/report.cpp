// SPDX-License-Identifier: MIT
#include "os/report.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/compiler.hpp"
#include "os/held_signals.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

// Above the descriptor numbers that programs expect or choose.
constexpr long duplicates_from = 500;

struct file_identity {
  dev_t device;
  ino_t number;
};

// False: the descriptor is not open.
bool ask_identity(long descriptor, file_identity& out) {
  struct stat now {};
  if (system_call(SYS_fstat, descriptor, &now) != 0) return false;
  out = {now.st_dev, now.st_ino};
  return true;
}
bool is_file(long descriptor, const file_identity& which) {
  file_identity now{};
  return ask_identity(descriptor, now) && now.device == which.device && now.number == which.number;
}

bool has_standard_error = false;
file_identity standard_error{};
long duplicate = -1;
file_identity duplicated{};

// If there was no standard error at the start, descriptor 2 may later be a file of the program, and must not be written
// to. Noted at load, not at the first allocation: a sandbox may be active by then.
[[gnu::constructor(101)]] void note_standard_error() { has_standard_error = ask_identity(2, standard_error); }

// The program may have closed all unknown descriptors and reused the number for a file of its own: compare the file.
bool has_duplicate() { return duplicate >= 0 && is_file(duplicate, duplicated); }

// Whether a pipe has room for a line, or gets it soon. A reader that has stopped reading must not stop the program in malloc.
bool has_room(long descriptor) {
  constexpr long most_wait_ms = 100;
  if (has_entered_sandbox()) return true;
  pollfd asked{static_cast<int>(descriptor), POLLOUT, 0};
#ifdef SYS_poll
  return system_call(SYS_poll, &asked, 1, most_wait_ms) != 0;
#else
  const timespec limit{0, most_wait_ms * 1'000'000};
  return system_call(SYS_ppoll, &asked, 1, &limit, 0, 0) != 0;
#endif
}

bool write_if_room(long descriptor, const text_writer& line) {
  return has_room(descriptor) && write_all(descriptor, line.data(), line.stored()) == 0;
}

}  // namespace

long write_all(long descriptor, const char* text, std::size_t size) {
  const held_signals signals;
  while (size != 0) {
    const long written = signals.taken(system_call(SYS_write, descriptor, text, size));
    if (written == -EINTR || (written == -EAGAIN && has_room(descriptor))) continue;
    if (written <= 0) return written != 0 ? written : -EIO;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

void write_line(const text_writer& line) {
  if (!has_standard_error || write_if_room(2, line)) return;
  if (has_duplicate()) write_if_room(duplicate, line);
}

void write_notice(const text_writer& line) {
  if (has_entered_sandbox() || !has_standard_error) return;
  if (is_file(2, standard_error) && write_if_room(2, line)) return;
  if (has_duplicate()) write_if_room(duplicate, line);
}

void keep_standard_error() {
  forget_standard_error();
  const long copy = system_call(SYS_fcntl, 2, F_DUPFD_CLOEXEC, duplicates_from);
  if (copy >= 0 && ask_identity(copy, duplicated)) duplicate = copy;
}

void forget_standard_error() {
  if (has_duplicate()) system_call(SYS_close, duplicate);
  duplicate = -1;
}

TARN_COLD void fatal(const char* what, const void* pointer) {
  text_buffer<1400> line;
  line.put("tarn: ").put(what).put(": ").pointer(pointer).put('\n');
  write_line(line);
  end_process();
}

TARN_COLD void end_process() {
  // libc's abort() takes locks; the signal alone is what a debugger and a core dump need.
  const long process = system_call(SYS_getpid);
  system_call(SYS_tgkill, process, system_call(SYS_gettid), SIGABRT);
  // SIGABRT was ignored, blocked or handled; SIGKILL cannot be.
  system_call(SYS_kill, process, SIGKILL);
  __builtin_trap();
}

}  // namespace tarn::os
