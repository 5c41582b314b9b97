// SPDX-License-Identifier: MIT
// A program for the tests of `tarn profile`: one of its processes attacks the others and the collector through the
// memory, files and addresses that the recorder has given to it.
//
// Usage: hostile_session UID
//   1. The first process makes 20,000 allocations of 100 bytes and forks a child.
//   2. The child finds the session's mappings in /proc/self/maps, truncates their files and punches holes into them,
//      changes to user UID, sends files to the collector that are malformed or claim to be the first process's, and
//      overwrites all writable mappings. During this a second thread of the first process makes 40,000 allocations.
//   3. A second child changes to user UID before its recording begins, and makes 3,000 allocations.
//   4. New threads of the first process make 20,000 allocations.
// The first process's profile must hold 20,000, 40,000 and 20,000 allocations at three places, and no more. Exit
// status: 0; 1: the child could truncate a file or make a read-only mapping writable; 77: the child found no session or
// may not change its user.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "profiler/record/session.hpp"

namespace {

namespace session = tarn::profiler;

struct mapping {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool writable = false;
};

std::vector<mapping> session_mappings() {
  std::vector<mapping> found;
  std::FILE* file = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strstr(line, "memfd:tarn-") == nullptr) continue;
    mapping one;
    char rights[5] = {};
    std::sscanf(line, "%zx-%zx %4s", &one.start, &one.end, rights);
    one.writable = rights[1] == 'w';
    found.push_back(one);
  }
  std::fclose(file);
  return found;
}

[[gnu::noinline]] void allocate(int count) {
  for (int index = 0; index < count; ++index) {
    void* volatile block = std::malloc(100);
    std::free(block);
  }
}

// Opens a mapping's file by its name in /proc/self/map_files; true: the file could be truncated.
bool cut_off(const mapping& one) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/self/map_files/%zx-%zx", one.start, one.end);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ftruncate(file, 0) == 0;
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
  close(file);
  return done;
}

// ---- messages to the collector ----

struct collector_address {
  sockaddr_un name = {};
  socklen_t length = 0;
  session::file_message message;
};

bool find_collector(collector_address& found) {
  const char* place = std::getenv(session::session_variable);
  unsigned long long numbers[5] = {};
  if (place == nullptr || std::sscanf(place, "%llu:%llu:%llu:%llu:%llu", &numbers[0], &numbers[1],
                                      &numbers[2], &numbers[3], &numbers[4]) != 5) {
    return false;
  }
  found.name.sun_family = AF_UNIX;
  const int length = std::snprintf(found.name.sun_path + 1, sizeof found.name.sun_path - 1, "%s%llu",
                                   session::socket_prefix, numbers[3]);
  found.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<unsigned>(length));
  found.message.secret = numbers[4];
  return true;
}

void send_files(const collector_address& to, const session::file_message& content, const int* files,
                std::size_t count) {
  const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  iovec part = {const_cast<session::file_message*>(&content), sizeof content};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_name = const_cast<sockaddr_un*>(&to.name);
  message.msg_namelen = to.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(attached), files, count * sizeof(int));
  }
  sendmsg(from, &message, MSG_NOSIGNAL);
  close(from);
}

int make_file(unsigned flags, std::uint64_t bytes, int seals) {
  const int file = memfd_create("hostile", flags | MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) return -1;
  if (file >= 0 && seals != 0) fcntl(file, F_ADD_SEALS, seals);
  return file;
}

// A process file that claims to be that of the first process, or of a child of it, with made-up allocations.
int make_false_file(const session::session_header& header, std::uint64_t bytes, std::uint32_t ring_words,
                    std::uint64_t serial, std::uint64_t parent_serial) {
  const int file = make_file(0, bytes, 0);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return -1;
  auto* page = static_cast<session::process_page*>(memory);
  page->pid = getppid();
  page->serial = serial;
  page->parent_serial = parent_serial;
  page->rings = session::most_rings + 7;
  auto* start = static_cast<unsigned char*>(memory);
  auto* words = reinterpret_cast<std::uint64_t*>(start + session::words_offset);
  const std::uint64_t now = session::read_ticks(header.ticks) >> header.tick_shift;
  page->start_ticks = now;
  words[0] = static_cast<std::uint64_t>(session::word_kind::time) | now << session::kind_bits;
  for (std::uint32_t index = 1; index + 1 < ring_words; index += 2) {
    words[index] = session::address_word(session::word_kind::malloc, 1, 0x10000 + 16 * index);
    words[index + 1] = std::uint64_t{100} << 32;
  }
  for (std::uint32_t ring = 0; ring < 2; ++ring) {
    auto* of_ring = reinterpret_cast<session::ring_header*>(start + session::rings_offset) + ring;
    // A child must seem small, as only small children are added to their parent's figures.
    of_ring->head = ring != 0 ? ~std::uint64_t{0} : parent_serial != 0 ? 2001 : ring_words - 1;
  }
  munmap(memory, bytes);
  fcntl(file, F_ADD_SEALS, session::process_seals);
  return file;
}

void send_false_files(const session::session_header& header, std::uint64_t parent_serial) {
  collector_address to;
  if (!find_collector(to)) return;
  for (const std::uint32_t ring_words : {1U << 13, 1U << 16}) {  // the two modes' ring sizes
    const std::uint64_t bytes = session::process_file_bytes(4, ring_words);
    const int unsealed = make_file(0, bytes, 0);
    const int on_disk = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const int pipe_like = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    std::vector<int> files = {unsealed,
                              make_file(MFD_HUGETLB, std::uint64_t{64} << 20, session::process_seals),
                              make_file(0, session::words_offset / 2, session::process_seals),
                              make_file(0, bytes + 1, session::process_seals),
                              make_file(0, bytes, session::process_seals | F_SEAL_FUTURE_WRITE),
                              on_disk,
                              pipe_like};
    for (const int file : files) {
      if (file >= 0) send_files(to, to.message, &file, 1);
    }
    if (ftruncate(unsealed, 0) != 0) std::perror("ftruncate");
    const int several[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    for (const std::size_t count : {0U, 2U, 3U, 4U, 8U}) send_files(to, to.message, several, count);
    const int honest = make_false_file(header, bytes, ring_words, 7, 0);
    session::file_message wrong;
    send_files(to, wrong, &honest, 1);
    files.push_back(honest);
    for (int round = 0; round < 20; ++round) {
      const int claims_to_be = make_false_file(header, bytes, ring_words, parent_serial, 0);
      const int claims_child = make_false_file(header, bytes, ring_words, 9, parent_serial);
      for (const int file : {claims_to_be, claims_child}) send_files(to, to.message, &file, 1);
      files.insert(files.end(), {claims_to_be, claims_child});
    }
    for (const int file : files) close(file);
  }
}

// ---- the session's mappings ----

// Writes each pattern to the first 4 MiB, and to one word in each 256 KiB of the whole mapping: writing all of it would
// take a gigabyte of memory. Then random words to the first 4 MiB.
void overwrite(const mapping& one) {
  auto* words = reinterpret_cast<volatile std::uint64_t*>(one.start);
  const std::size_t count = (one.end - one.start) / 8;
  const std::size_t whole = std::min(count, (std::size_t{4} << 20) / 8);
  for (const std::uint64_t pattern : {~std::uint64_t{0}, std::uint64_t{0x4141414141414141}, std::uint64_t{2},
                                      std::uint64_t{0}, std::uint64_t{0x7fffffffffffffff}}) {
    for (std::size_t index = 0; index < whole; ++index) words[index] = pattern;
    for (std::size_t index = 0; index < count; index += 4096 * 8) words[index] = pattern;
    usleep(20000);
  }
  std::uint64_t random = 1;
  for (int round = 0; round < 300000; ++round) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    words[(random >> 33) % whole] = random >> (round % 60);
  }
}

int work_against_others(uid_t user) {
  const std::vector<mapping> mappings = session_mappings();
  if (mappings.empty()) return 77;
  bool harmed = false;
  for (const mapping& one : mappings) harmed = cut_off(one) || harmed;  // still with the first user's rights
  if (setresuid(user, user, user) != 0) return 77;
  std::uint64_t parent_serial = 0;
  const session::session_header* header = nullptr;
  for (const mapping& one : mappings) {
    const auto* page = reinterpret_cast<const session::process_page*>(one.start);
    if (one.writable) parent_serial = page->parent_serial;
    if (!one.writable) {
      header = reinterpret_cast<const session::session_header*>(one.start);
      harmed =
          mprotect(reinterpret_cast<void*>(one.start), one.end - one.start, PROT_READ | PROT_WRITE) == 0 ||
          harmed;
    }
  }
  if (header == nullptr) return 77;
  send_false_files(*header, parent_serial);
  for (const mapping& one : mappings) {
    if (one.writable) overwrite(one);
  }
  return harmed ? 1 : 0;
}

// This child is recorded from its first allocation on, which it makes as the other user.
[[gnu::noinline]] int work_with_lesser_rights(uid_t user) {
  if (setresuid(user, user, user) != 0) return 77;
  for (int index = 0; index < 3000; ++index) {
    void* volatile block = std::malloc(200);
    std::free(block);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  allocate(20000);
  usleep(500000);  // by now the collector has read these events
  const pid_t child = fork();
  if (child == 0) _exit(work_against_others(static_cast<uid_t>(std::atoi(words[1]))));
  std::thread beside([] {
    for (int round = 0; round < 20; ++round) {
      allocate(2000);
      usleep(10000);
    }
  });
  int status = 0;
  waitpid(child, &status, 0);
  beside.join();
  const auto user = static_cast<uid_t>(std::atoi(words[1]));
  const pid_t second = fork();
  if (second == 0) _exit(work_with_lesser_rights(user));
  waitpid(second, nullptr, 0);
  for (int round = 0; round < 4; ++round) std::thread([] { allocate(5000); }).join();
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
