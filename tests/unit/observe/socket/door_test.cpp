// SPDX-License-Identifier: MIT
#include "observe/socket/door.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "broken_invariant.hpp"

namespace tarn::control_socket {

struct door_test_access {
  static char* name(door& d) { return d.name_; }
};

namespace {

namespace fs = std::filesystem;

class door_test : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/tarn-door-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    parent_ = path;
    folder_ = parent_ + "/doors";
  }
  void TearDown() override { fs::remove_all(parent_); }

  // A socket file at which nobody listens.
  void leave_socket(const std::string& name) const {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder_ + "/" + name).c_str());
    ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(socket);
  }
  [[nodiscard]] std::string own_name() const { return folder_ + "/" + std::to_string(getpid()); }

  std::string parent_;
  std::string folder_;
};

mode_t mode_of(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

TEST_F(door_test, is_for_its_user_only) {
  const mode_t before = umask(0);
  door d;
  EXPECT_TRUE(d.open(folder_.c_str()));
  umask(before);
  EXPECT_EQ(mode_of(folder_), 0700U);
  EXPECT_EQ(mode_of(own_name()), 0600U);
  EXPECT_EQ(std::string(d.name()), own_name());
}

TEST_F(door_test, removes_its_name_when_it_closes) {
  {
    door d;
    ASSERT_TRUE(d.open(folder_.c_str()));
  }
  EXPECT_FALSE(fs::exists(own_name()));
}

TEST_F(door_test, does_not_open_in_a_folder_that_others_may_enter) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0750), 0);
  door d;
  EXPECT_FALSE(d.open(folder_.c_str()));
  EXPECT_LT(d.descriptor(), 0);
}

TEST_F(door_test, does_not_follow_a_link_nor_open_below_a_file) {
  ASSERT_EQ(mkdir((parent_ + "/real").c_str(), 0700), 0);
  fs::create_symlink(parent_ + "/real", folder_);
  door d;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(d.open(folder_.c_str()));
  for (const char* const end : {"/", "//", "/.", "/./"}) EXPECT_FALSE(d.open((folder_ + end).c_str())) << end;
  EXPECT_TRUE(fs::is_empty(parent_ + "/real"));
  EXPECT_FALSE(d.open("/dev/null/doors"));
  testing::internal::GetCapturedStderr();
}

TEST_F(door_test, takes_a_folder_with_slashes_at_its_end) {
  door d;
  ASSERT_TRUE(d.open((folder_ + "//").c_str()));
  EXPECT_EQ(std::string(d.name()), own_name());
}

TEST_F(door_test, takes_the_name_that_an_ended_process_has_left) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  leave_socket(std::to_string(getpid()));
  door d;
  ASSERT_TRUE(d.open(folder_.c_str()));
  EXPECT_EQ(std::string(d.name()), own_name());
}

TEST_F(door_test, leaves_the_name_of_a_living_process_alone) {
  door first;
  ASSERT_TRUE(first.open(folder_.c_str()));
  door second;  // as that of a process with the same number in another namespace
  ASSERT_TRUE(second.open(folder_.c_str()));
  EXPECT_EQ(std::string(second.name()), own_name() + ".1");
  EXPECT_TRUE(fs::exists(own_name()));
}

TEST_F(door_test, removes_what_ended_processes_have_left) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::string stale = folder_ + "/" + std::to_string(child);
  leave_socket(std::to_string(child));
  leave_socket("other");
  leave_socket(std::to_string(getppid()));
  fs::create_directory(folder_ + "/99999999");
  door d;
  ASSERT_TRUE(d.open(folder_.c_str()));
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(folder_ + "/other"));
  EXPECT_TRUE(fs::exists(folder_ + "/" + std::to_string(getppid())));
  EXPECT_TRUE(fs::exists(folder_ + "/99999999"));
}

// As another user makes it, to keep the sockets of this one's processes closed.
TEST_F(door_test, opens_elsewhere_where_the_standard_folder_is_another_user_s) {
  const std::string standard = parent_ + "/tarn-" + std::to_string(geteuid());
  ASSERT_EQ(mkdir(standard.c_str(), 0755), 0);
  ASSERT_EQ(chmod(standard.c_str(), 0755), 0);
  std::string folder;
  {
    door d;
    ASSERT_TRUE(d.open_standard(parent_.c_str()));
    folder = fs::path(d.name()).parent_path();
    EXPECT_TRUE(folder.starts_with(standard + "-")) << folder;
    EXPECT_EQ(folder.size(), standard.size() + 17);
    EXPECT_EQ(mode_of(folder), 0700U);
    EXPECT_EQ(mode_of(d.name()), 0600U);
  }
  EXPECT_FALSE(fs::exists(folder));
  fs::remove(standard);
  door d;
  ASSERT_TRUE(d.open_standard(parent_.c_str()));
  EXPECT_EQ(fs::path(d.name()).parent_path(), standard);
}

// A process that is not seen from here may be about to listen: it has the folder's lock.
TEST_F(door_test, takes_nothing_for_stale_while_another_process_opens_its_door) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  leave_socket(std::to_string(child));
  leave_socket(std::to_string(getpid()));
  const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(folder, LOCK_EX), 0);
  door d;
  ASSERT_TRUE(d.open(folder_.c_str()));
  EXPECT_EQ(std::string(d.name()), own_name() + ".1");
  EXPECT_TRUE(fs::exists(folder_ + "/" + std::to_string(child)));
  ::close(folder);
}

TEST_F(door_test, finds_a_broken_invariant) {
  door d;
  d.validate();
  door_test_access::name(d)[0] = 'x';
  EXPECT_BROKEN(d.validate(), "door", "(descriptor_ >= 0) == (name_[0] != '\\0')", &d);
  door_test_access::name(d)[0] = '\0';
}

}  // namespace
}  // namespace tarn::control_socket
