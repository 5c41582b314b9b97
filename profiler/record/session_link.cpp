// SPDX-License-Identifier: MIT
#include "profiler/record/session_link.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include <cstring>

#include "base/architecture.hpp"
#include "os/mutex.hpp"
#include "os/syscall.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/own_calls.hpp"

namespace tarn::profiler::recorder {

namespace {

// So long that the collector meanwhile empties about half a ring: each wait costs the program some microseconds.
constexpr long wait_ns = 1000000;
// Of wait_ns: without a sign of the collector, and within one of its rounds.
constexpr unsigned most_waits = 2000;
constexpr unsigned most_waits_in_round = 60000;
// Longer than the collector takes from one beat to the next.
constexpr unsigned waits_before_question = 256;
constexpr unsigned most_idle_rounds = 256;
constexpr unsigned sandbox_rounds = 10240;  // iterations of a spin: 100 to 500 us
constexpr unsigned no_exec_seal = 8;        // MFD_NOEXEC_SEAL, Linux 6.3

// In a sandbox no system call may be made, so the thread spins instead.
void wait_a_moment() {
  timespec pause = {0, wait_ns};
  if (own_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0) != -EPERM) return;
  for (unsigned round = 0; round < sandbox_rounds; ++round) arch::pause();
}

// Reads a decimal number and skips the character after it.
std::uint64_t take_number(const char*& text) {
  std::uint64_t value = 0;
  while (*text >= '0' && *text <= '9') value = 10 * value + static_cast<std::uint64_t>(*text++ - '0');
  if (*text != 0) ++text;
  return value;
}

char* put_number(char* out, std::uint64_t value) {
  char digits[20];
  unsigned count = 0;
  do digits[count++] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  while (count > 0) *out++ = digits[--count];
  *out = 0;
  return out;
}

char* put_string(char* out, const char* text) {
  while (*text != 0) *out++ = *text++;
  *out = 0;
  return out;
}

// "/proc/PID/fd/DESCRIPTOR", in a room of 64.
char* put_place(char* out, std::uint64_t pid, std::uint64_t descriptor) {
  char* end = put_number(put_string(out, "/proc/"), pid);
  return put_number(put_string(end, "/fd/"), descriptor);
}

// Maps /proc/PID/fd/DESCRIPTOR to be read, provided that it is the file of that number and has the seals.
const session_header* map_header(std::uint64_t pid, std::uint64_t descriptor, std::uint64_t inode) {
  char path[64];
  put_place(path, pid, descriptor);
  const long file = os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (failed(file)) return nullptr;
  struct stat status = {};
  const long sealed = os::system_call(SYS_fcntl, file, F_GET_SEALS);
  long memory = -1;
  if (os::system_call(SYS_fstat, file, reinterpret_cast<long>(&status)) == 0 && status.st_ino == inode &&
      !failed(sealed) && (sealed & header_seals) == header_seals &&
      status.st_size >= static_cast<off_t>(sizeof(session_header))) {
    memory = os::system_call(SYS_mmap, 0, status.st_size, PROT_READ, MAP_SHARED, file, 0);
  }
  os::system_call(SYS_close, file);
  if (failed(memory)) return nullptr;
  const auto* header = reinterpret_cast<const session_header*>(memory);
  if (is_usable(*header)) return header;
  unmap_pages(reinterpret_cast<void*>(memory), static_cast<std::size_t>(status.st_size));
  return nullptr;
}

long make_memory_file() {
  const auto name = reinterpret_cast<long>("tarn-process");
  constexpr long flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const long file = os::system_call(SYS_memfd_create, name, flags | no_exec_seal);
  return file == -EINVAL ? os::system_call(SYS_memfd_create, name, flags) : file;
}

// RLIMIT_FSIZE is meant for files on disks. It is raised for this file up to the hard limit; a file beyond that
// would end the program by SIGXFSZ.
std::uint32_t rings_within(const rlimit& limit, std::uint32_t ring_words) {
  return limit.rlim_max == RLIM_INFINITY ? most_rings : rings_in(limit.rlim_max, ring_words);
}

long limit_of_files(const rlimit* now, rlimit* before) {
  return os::system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, reinterpret_cast<long>(now),
                         reinterpret_cast<long>(before));
}

bool set_length(long file, std::uint64_t bytes, const rlimit& limit) {
  const rlimit lifted = {limit.rlim_max, limit.rlim_max};
  const bool is_in_the_way = limit.rlim_cur < bytes;
  if (is_in_the_way) limit_of_files(&lifted, nullptr);
  const bool done = !failed(os::system_call(SYS_ftruncate, file, static_cast<long>(bytes)));
  if (is_in_the_way) limit_of_files(&limit, nullptr);
  return done;
}

// MAP_FAILED: no address space for the file, or no way to keep it from a forked child.
void* map_private(long file, std::uint64_t bytes) {
  const auto length = static_cast<long>(bytes);
  const long memory =
      os::system_call(SYS_mmap, 0, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (failed(memory)) return MAP_FAILED;
  os::system_call(SYS_madvise, memory, length, MADV_DONTDUMP);
  if (!failed(os::system_call(SYS_madvise, memory, length, MADV_DONTFORK)) &&
      !failed(os::system_call(SYS_fcntl, file, F_ADD_SEALS, process_seals | F_SEAL_SEAL))) {
    return reinterpret_cast<void*>(memory);
  }
  unmap_pages(reinterpret_cast<void*>(memory), bytes);
  return MAP_FAILED;
}

// `end`: end of the address's path or name.
bool send_to(const session_link& link, long socket, sockaddr_un& address, const char* end, int descriptor) {
  file_message content;
  content.secret = link.secret;
  iovec part = {&content, sizeof content};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(end - reinterpret_cast<char*>(&address));
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* attached = CMSG_FIRSTHDR(&message);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(attached), &descriptor, sizeof descriptor);
  collector_patience patience;
  for (;;) {
    const long result =
        os::system_call(SYS_sendmsg, socket, reinterpret_cast<long>(&message), MSG_DONTWAIT | MSG_NOSIGNAL);
    const bool is_full = result == -EAGAIN || result == -ETOOMANYREFS || result == -EINTR;
    if (!is_full || !patience.wait(*link.header)) return !failed(result);
  }
}

}  // namespace

session_link open_session(const char* place) {
  session_link link;
  link.collector = take_number(place);
  const std::uint64_t descriptor = take_number(place);
  const std::uint64_t inode = take_number(place);
  link.address = take_number(place);
  link.secret = take_number(place);
  link.socket = take_number(place);
  link.header = map_header(link.collector, descriptor, inode);
  return link;
}

int make_process_file(const session_header& header, process_file& made) {
  rlimit limit = {};
  if (limit_of_files(nullptr, &limit) != 0) return -1;
  std::uint32_t rings = rings_within(limit, header.ring_words);
  if (rings == 0) return -1;
  const long file = make_memory_file();
  if (failed(file)) return -1;
  void* memory = MAP_FAILED;
  while (rings > 0) {
    const std::uint64_t bytes = process_file_bytes(rings, header.ring_words);
    if (set_length(file, bytes, limit)) memory = map_private(file, bytes);
    if (memory != MAP_FAILED) break;
    rings /= 4;
  }
  if (rings == 0) {
    os::system_call(SYS_close, file);
    return -1;
  }
  auto* bytes = static_cast<unsigned char*>(memory);
  made.page = static_cast<process_page*>(memory);
  made.rings = reinterpret_cast<ring_header*>(bytes + rings_offset);
  made.words = reinterpret_cast<std::uint64_t*>(bytes + words_offset);
  made.ring_count = rings;
  return static_cast<int>(file);
}

bool send_process_file(const session_link& link, int descriptor) {
  const long socket = os::system_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool done = false;
  if (!failed(socket)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    char* end = put_number(put_string(address.sun_path + 1, socket_prefix), link.address);
    done = send_to(link, socket, address, end, descriptor);
    if (!done && link.socket != 0) {
      end = put_place(address.sun_path, link.collector, link.socket) + 1;
      done = send_to(link, socket, address, end, descriptor);
    }
    os::system_call(SYS_close, socket);
  }
  os::system_call(SYS_close, descriptor);
  return done;
}

void unmap_process_file(const session_header& header, const process_file& file) {
  if (file.page != nullptr) unmap_pages(file.page, process_file_bytes(file.ring_count, header.ring_words));
}

bool collector_patience::wait(const session_header& header) {
  // relaxed, all: they only decide whether the wait goes on
  if (header.recording.load(std::memory_order_relaxed) == 0) return false;
  const std::uint64_t beat = header.beat.load(std::memory_order_relaxed);
  if (beat != beat_) waits_ = 0;
  beat_ = beat;
  const std::uint64_t round = header.rounds.load(std::memory_order_relaxed);
  if (round != round_) {
    waits_in_round_ = 0;
    ++rounds_;
  }
  round_ = round;
  // In another pid namespace the number means another process or none, so the answer may be wrong there.
  const bool gone = waits_ % waits_before_question == waits_before_question - 1 &&
                    own_call(SYS_kill, header.collector, 0) == -ESRCH;
  if (gone || rounds_ > most_idle_rounds) return false;
  is_silent_ = ++waits_ > most_waits || ++waits_in_round_ > most_waits_in_round;
  if (is_silent_) return false;
  wait_a_moment();
  return true;
}

}  // namespace tarn::profiler::recorder
