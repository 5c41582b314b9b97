// SPDX-License-Identifier: MIT
#include "observe/socket/door.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "os/futex.hpp"
#include "os/report.hpp"
#include "os/syscall.hpp"

namespace tarn::control_socket {
namespace {

using os::system_call;

constexpr int backlog = 64;
constexpr unsigned most_names = 10;

// What the destructor of the library removes. Also copied into a forked child, which is another process.
constinit char name_of_process[sizeof sockaddr_un::sun_path] = "";
constinit char folder_of_process[sizeof sockaddr_un::sun_path] = "";  // "" if the folder stays
long named_process = 0;

void remove_name(const char* name, const char* own_folder) {
  system_call(SYS_unlinkat, AT_FDCWD, name, 0);
  if (*own_folder != '\0') system_call(SYS_unlinkat, AT_FDCWD, own_folder, AT_REMOVEDIR);
}

[[gnu::destructor]] void remove_at_exit() {
  if (named_process != 0 && named_process == system_call(SYS_getpid))
    remove_name(name_of_process, folder_of_process);
}

void complain(const char* folder, const char* problem, long error) {
  text_buffer<512> line;
  line.put("tarn: control: ").put(folder).put(problem);
  if (error != 0) line.put(" (error ").number(static_cast<std::uint64_t>(-error)).put(")");
  line.put("; there is no control socket. TARN_CONTROL=FOLDER names another folder\n");
  os::write_notice(line);
}

long make_socket() { return system_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

sockaddr_un address_of(const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, std::strlen(name) + 1);
  return address;
}

// Whether a process listens at this name; also true if no socket can be made to ask.
bool is_answered(const char* name) {
  const long descriptor = make_socket();
  if (descriptor < 0) return true;
  const sockaddr_un address = address_of(name);
  const long result = system_call(SYS_connect, descriptor, &address, sizeof address);
  system_call(SYS_close, descriptor);
  return result != -ECONNREFUSED && result != -ENOENT;
}

// The number at the beginning of a socket's name; 0: it is not one of ours.
long process_of(std::string_view name) {
  std::uint64_t process = 0;
  const bool is_ours = take_number(name, process) && (name.empty() || name.starts_with('.'));
  return is_ours && process < 1000000000 ? static_cast<long>(process) : 0;
}

void put_name(char (&out)[sizeof sockaddr_un::sun_path], const char* folder, const char* name) {
  text_writer path(out, sizeof out - 1);
  path.put(folder).put('/').put(name);
  out[path.stored()] = '\0';
}

// Without "/" and "/." at its end, behind which the system follows a link that it is told not to follow.
void copy_folder(char (&out)[options::longest_control_folder + 1], std::string_view path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/.")))
    path.remove_suffix(path.ends_with('/') ? 1 : 2);
  text_writer text(out, sizeof out - 1);
  text.put(path.empty() ? std::string_view("/") : path);
  out[text.stored()] = '\0';
}

// Held from bind() to listen(), and while others' sockets are taken for stale: in between, a socket of a process that this
// one does not see, in another PID namespace, refuses connections like one that a killed process has left. A process that
// is stopped there must not keep others waiting.
class folder_lock {
 public:
  explicit folder_lock(const char* folder)
      : descriptor_(
            system_call(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {
    constexpr int most_tries = 10;
    constexpr std::int64_t pause_ms = 20;
    for (int tries = 0; descriptor_ >= 0 && !held_ && tries < most_tries; ++tries) {
      if (tries != 0) os::sleep_ms(pause_ms);
      held_ = system_call(SYS_flock, descriptor_, LOCK_EX | LOCK_NB) == 0;
    }
  }
  ~folder_lock() {
    if (descriptor_ >= 0) system_call(SYS_close, descriptor_);
  }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  [[nodiscard]] bool is_held() const { return held_; }

 private:
  long descriptor_;
  bool held_ = false;
};

struct directory_entry {
  std::uint64_t number;
  std::int64_t next;
  unsigned short length;
  unsigned char type;
  char name[1];
};

}  // namespace

void remove_stale_sockets(const char* folder) {
  constexpr int most_asked = 64;
  const long descriptor =
      system_call(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return;
  alignas(8) char entries[4096] = {};
  int asked = 0;
  long bytes = 0;
  while (asked < most_asked &&
         (bytes = system_call(SYS_getdents64, descriptor, entries, sizeof entries)) > 0) {
    for (long at = 0; at < bytes && asked < most_asked;) {
      const auto* const entry = reinterpret_cast<const directory_entry*>(entries + at);
      at += entry->length;
      const long process = process_of(entry->name);
      // A process that exists here may be another one than the socket's, in another namespace; its own successor
      // removes the file.
      if (entry->type != DT_SOCK || process == 0 || system_call(SYS_kill, process, 0) != -ESRCH) continue;
      ++asked;
      char name[sizeof sockaddr_un::sun_path];
      put_name(name, folder, entry->name);
      if (!is_answered(name)) system_call(SYS_unlinkat, AT_FDCWD, name, 0);
    }
  }
  system_call(SYS_close, descriptor);
}

// A folder in which nobody else can put or replace names.
bool door::open_folder(const char* folder, bool complains) {
  const auto complain = [complains](const char* about, const char* problem, long error) {
    if (complains) control_socket::complain(about, problem, error);
  };
  const long made = system_call(SYS_mkdirat, AT_FDCWD, folder, 0700);
  if (made != 0 && made != -EEXIST) {
    complain(folder, " cannot be made", made);
    return false;
  }
  const long descriptor =
      system_call(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) {
    complain(folder, " is not a folder that the process may enter", descriptor);
    return false;
  }
  struct stat found {};
  const long known = system_call(SYS_fstat, descriptor, &found);
  system_call(SYS_close, descriptor);
  if (known == 0 && static_cast<long>(found.st_uid) == system_call(SYS_geteuid) && (found.st_mode & 077) == 0)
    return true;
  complain(folder, " does not belong to the process's user alone (it needs mode 0700)", 0);
  return false;
}

bool door::is_taken(bool is_locked) {
  if (!is_locked || is_answered(name_)) return true;
  // A process of this number has left it, perhaps this one before it executed another program.
  system_call(SYS_unlinkat, AT_FDCWD, name_, 0);
  return false;
}

bool door::bind_to(const char* folder, bool is_locked) {
  const long process = system_call(SYS_getpid);
  for (unsigned i = 0; i < most_names; ++i) {
    text_buffer<32> number;
    number.number(static_cast<std::uint64_t>(process));
    if (i != 0) number.put('.').number(i);
    number.put('\0');
    put_name(name_, folder, number.data());
    for (int tries = 0; tries < 2; ++tries) {
      const sockaddr_un address = address_of(name_);
      const long result = system_call(SYS_bind, descriptor_, &address, sizeof address);
      if (result == 0) return true;
      if (result != -EADDRINUSE) {
        complain(folder, " cannot take a socket", result);
        return false;
      }
      if (is_taken(is_locked)) break;
    }
  }
  complain(folder, " has sockets of other processes with this number", 0);
  return false;
}

bool door::open(const char* path) {
  char folder[options::longest_control_folder + 1] = {};
  copy_folder(folder, path);
  return open_folder(folder, true) && open_in(folder);
}

// A name that nobody can take before, for as long as this door is open.
bool door::make_own_folder(const char* beginning) {
  constexpr int most_tries = 4;
  for (int tries = 0; tries < most_tries; ++tries) {
    unsigned char random[8] = {};
    if (system_call(SYS_getrandom, random, sizeof random, 0) != sizeof random) return false;
    text_writer path(own_folder_, sizeof own_folder_ - 1);
    path.put(beginning).put('-');
    for (const unsigned char byte : random)
      path.put("0123456789abcdef"[byte >> 4]).put("0123456789abcdef"[byte & 15]);
    own_folder_[path.stored()] = '\0';
    if (system_call(SYS_mkdirat, AT_FDCWD, own_folder_, 0700) == 0) return true;
  }
  own_folder_[0] = '\0';
  return false;
}

bool door::open_standard(const char* parent) {
  char folder[64] = {};
  text_writer text(folder, sizeof folder - 1);
  text.put(parent).put("/tarn-").number(static_cast<std::uint64_t>(system_call(SYS_geteuid)));
  folder[text.stored()] = '\0';
  if (open_folder(folder, false)) return open_in(folder);
  if (make_own_folder(folder)) {
    if (open_in(own_folder_)) return true;
    system_call(SYS_unlinkat, AT_FDCWD, own_folder_, AT_REMOVEDIR);
    own_folder_[0] = '\0';
    return false;
  }
  return open_folder(folder, true) && open_in(folder);  // says what is wrong
}

bool door::open_in(const char* folder) {
  descriptor_ = make_socket();
  if (descriptor_ < 0) {
    complain(folder, ": the system gives no socket", descriptor_);
    descriptor_ = -1;
    return false;
  }
  const folder_lock lock(folder);
  const bool bound = bind_to(folder, lock.is_held());
  // Before the mode is set, the folder keeps others away.
  if (!bound || system_call(SYS_fchmodat, AT_FDCWD, name_, 0600) != 0 ||
      system_call(SYS_listen, descriptor_, backlog) != 0) {
    system_call(SYS_close, descriptor_);
    descriptor_ = -1;
    if (bound) system_call(SYS_unlinkat, AT_FDCWD, name_, 0);
    name_[0] = '\0';
    return false;
  }
  std::memcpy(name_of_process, name_, sizeof name_);
  std::memcpy(folder_of_process, own_folder_, sizeof own_folder_);
  named_process = system_call(SYS_getpid);
  if (lock.is_held()) remove_stale_sockets(folder);
  validate();
  return true;
}

void door::close() {
  if (descriptor_ < 0) return;
  named_process = 0;
  remove_name(name_, own_folder_);
  system_call(SYS_close, descriptor_);
  descriptor_ = -1;
  name_[0] = own_folder_[0] = '\0';
}

}  // namespace tarn::control_socket
