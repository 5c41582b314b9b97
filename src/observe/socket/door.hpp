// SPDX-License-Identifier: MIT
// door: the socket at which the control thread listens: FOLDER/PID, mode 0600, in a folder that belongs to the process's
// user and that nobody else may enter. If that name is taken by a process of another PID namespace: FOLDER/PID.1, and so
// on. `tarn` finds it by the kernel's list of sockets, not by its name.
//
// Owner: the control thread. Its descriptors are in that thread's own table. The file is removed when the door closes
// and when the process exits; one that a killed process has left is removed by the next process that opens a door in
// the same folder.
// Invariant: descriptor() >= 0 if and only if the name is not empty.
#pragma once

#include <sys/un.h>

#include "engine/options.hpp"
#include "os/invariant.hpp"

namespace tarn::control_socket {

#pragma GCC visibility push(hidden)

class door {
 public:
  door() = default;
  ~door() { close(); }
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  // `path`: an absolute path of at most options::longest_control_folder characters, whose last part is no symbolic
  // link, however many slashes or dots follow it. False: the door cannot be opened; one line on stderr says why, and what
  // to do.
  bool open(const char* path);
  // In PARENT/tarn-USER; if that is another user's, who may have made it first, in a new folder PARENT/tarn-USER-RANDOM,
  // which is removed when the door closes. Requires: `parent` has at most 40 characters.
  bool open_standard(const char* parent);
  void close();
  [[nodiscard]] long descriptor() const { return descriptor_; }
  [[nodiscard]] const char* name() const { return name_; }

  void validate() const { TARN_INVARIANT("door", this, (descriptor_ >= 0) == (name_[0] != '\0')); }

 private:
  friend struct door_test_access;

  bool open_folder(const char* folder, bool complains);
  bool make_own_folder(const char* beginning);
  bool open_in(const char* folder);
  bool bind_to(const char* folder, bool is_locked);
  bool is_taken(bool is_locked);

  long descriptor_ = -1;
  char name_[sizeof sockaddr_un::sun_path] = "";
  char own_folder_[sizeof sockaddr_un::sun_path] = "";  // "" if the folder is not this door's alone
};

// A folder's stale sockets, at most so many of them at a time, are removed: those of processes that have ended.
void remove_stale_sockets(const char* folder);

#pragma GCC visibility pop

}  // namespace tarn::control_socket
