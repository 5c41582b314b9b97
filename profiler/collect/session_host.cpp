// SPDX-License-Identifier: MIT
#include "profiler/collect/session_host.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t full_ring_bytes = std::uint64_t{512} << 10;
constexpr std::uint64_t sample_ring_bytes = std::uint64_t{64} << 10;
constexpr std::chrono::milliseconds beat_every{50};
constexpr int most_descriptors = 4;  // descriptors received with one message; the kernel closes the others
constexpr int most_strangers = 256;  // messages of strangers that one call skips at most

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    throw profile_error(std::string("the system gives no random numbers: ") + std::strerror(errno) +
                        "; what works on this system: tarn doctor");
  }
  return number;
}

// A bound datagram socket on which the kernel names each sender (SO_PASSCRED). -1, with errno: it could not be
// made.
int bound_socket(const sockaddr_un& address, std::size_t length) {
  const int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (made >= 0 && setsockopt(made, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0 &&
      bind(made, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(length)) == 0) {
    return made;
  }
  const int error = errno;
  if (made >= 0) close(made);
  errno = error;
  return -1;
}

// The ancillary data of a message: descriptors and the sender. Closes the descriptors.
struct attachments {
  int files[most_descriptors] = {-1, -1, -1, -1};
  int count = 0;
  ucred sender = {};

  explicit attachments(msghdr& message) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET) continue;
      const std::size_t bytes = part->cmsg_len - CMSG_LEN(0);
      if (part->cmsg_type == SCM_CREDENTIALS && bytes == sizeof sender) {
        std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      } else if (part->cmsg_type == SCM_RIGHTS && bytes <= sizeof files) {
        std::memcpy(files, CMSG_DATA(part), bytes);
        count = static_cast<int>(bytes / sizeof(int));
      }
    }
  }
  ~attachments() {
    for (int index = 0; index < count; ++index) close(files[index]);
  }
  attachments(const attachments&) = delete;
  attachments& operator=(const attachments&) = delete;
};

}  // namespace

session_host::session_host(record_mode mode, std::uint64_t sample_bytes, std::uint32_t first_halvings,
                           const tick_clock& clock)
    : address_(random_number()), secret_(random_number()) {
  make_header();
  header_->mode = mode;
  header_->ticks = clock.source();
  header_->tick_shift = clock.shift();
  header_->ring_words =
      static_cast<std::uint32_t>((mode == record_mode::full ? full_ring_bytes : sample_ring_bytes) / 8);
  header_->collector = getpid();
  header_->sample_bytes = sample_bytes;
  header_->first_halvings = first_halvings;
  open_named_socket();
  open_placed_socket();
  begin_to_beat();
}

session_host::~session_host() {
  {
    const std::lock_guard hold(end_lock_);
    has_ended_ = true;
  }
  end_.notify_one();
  heart_.join();
  // relaxed: a program that still runs notices when its ring is full
  header_->recording.store(0, std::memory_order_relaxed);
  munmap(header_, sizeof(session_header));
  for (const int file : {header_file_, named_socket_, placed_socket_, socket_place_}) {
    if (file >= 0) close(file);
  }
}

void session_host::make_header() {
  constexpr std::size_t bytes = sizeof(session_header);
  header_file_ = memfd_create("tarn-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* memory = MAP_FAILED;
  if (header_file_ >= 0 && ftruncate(header_file_, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, header_file_, 0);
  }
  if (memory == MAP_FAILED || fcntl(header_file_, F_ADD_SEALS, header_seals | F_SEAL_SEAL) != 0) {
    throw profile_error(std::string("cannot make the memory for the recording: ") + std::strerror(errno) +
                        "; what works on this system: tarn doctor");
  }
  header_ = new (memory) session_header;
}

// Signals are for the other threads.
void session_host::begin_to_beat() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  heart_ = std::thread([this] { beat(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void session_host::beat() {
  std::unique_lock hold(end_lock_);
  // relaxed: only that it changes matters
  while (!end_.wait_for(hold, beat_every, [this] { return has_ended_; }))
    header_->beat.fetch_add(1, std::memory_order_relaxed);
}

void session_host::open_named_socket() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("{}{}", socket_prefix, address_);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  named_socket_ = bound_socket(address, offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (named_socket_ < 0) {
    throw profile_error(std::string("cannot open a socket for the recording: ") + std::strerror(errno) +
                        "; what works on this system: tarn doctor");
  }
}

// The socket's name in the file system is removed at once: programs reach it through this process's O_PATH
// descriptor (/proc/PID/fd).
void session_host::open_placed_socket() {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "tarn-XXXXXX").string();
  if (error || mkdtemp(folder.data()) == nullptr) return;
  const std::string path = folder + "/socket";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() < sizeof address.sun_path) {
    std::copy(path.begin(), path.end(), address.sun_path);
    placed_socket_ = bound_socket(address, offsetof(sockaddr_un, sun_path) + path.size() + 1);
    socket_place_ = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  }
  unlink(path.c_str());
  rmdir(folder.c_str());
}

std::optional<arrival> session_host::receive() {
  std::optional<arrival> next = receive_from(named_socket_);
  return next || placed_socket_ < 0 ? std::move(next) : receive_from(placed_socket_);
}

std::optional<arrival> session_host::receive_from(int socket) {
  for (int looks = 0; looks < most_strangers; ++looks) {
    file_message content;
    iovec part = {&content, sizeof content};
    alignas(cmsghdr) unsigned char
        control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(most_descriptors * sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes < 0) return std::nullopt;
    const attachments with(message);
    if (bytes != sizeof content || content.magic != session_magic || content.secret != secret_) continue;
    if (with.count != 1 || with.sender.pid <= 0) continue;
    arrival result;
    result.memory = process_memory::map(with.files[0], header_->ring_words);
    result.process = static_cast<std::uint32_t>(with.sender.pid);
    result.user = with.sender.uid;
    if (result.memory != nullptr) return result;
  }
  return std::nullopt;
}

std::string session_host::place() const {
  struct stat status = {};
  fstat(header_file_, &status);
  return fmt::format("{}:{}:{}:{}:{}:{}", getpid(), header_file_, status.st_ino, address_, secret_,
                     std::max(0, socket_place_));
}

std::vector<int> session_host::placed_descriptors() const {
  std::vector<int> all = {header_file_};
  if (socket_place_ >= 0) all.push_back(socket_place_);
  return all;
}

}  // namespace tarn::profiler
