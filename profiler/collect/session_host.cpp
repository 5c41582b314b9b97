// SPDX-License-Identifier: MIT
#include "profiler/collect/session_host.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

// Address space for every thread that records at the same time; memory for as much as is written.
constexpr std::size_t rings_of_session = 2048;
constexpr std::uint64_t full_ring_words = (std::uint64_t{512} << 10) / 8;
constexpr std::uint64_t sample_ring_words = (std::uint64_t{64} << 10) / 8;
constexpr std::size_t page = std::size_t{64} << 10;  // of any system

std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) & ~(page - 1); }

// The limit on the length of files is meant for disks; as far as it may be lifted, it is for this one.
bool set_length(int file, std::size_t bytes) {
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit lifted = before;
  lifted.rlim_cur = lifted.rlim_max;
  setrlimit(RLIMIT_FSIZE, &lifted);
  const bool done = ftruncate(file, static_cast<off_t>(bytes)) == 0;
  const int error = errno;
  setrlimit(RLIMIT_FSIZE, &before);
  errno = error;
  return done;
}

}  // namespace

session_host::session_host(record_mode mode, std::uint64_t sample_bytes, const tick_clock& clock)
    : ring_count_(rings_of_session),
      ring_words_(mode == record_mode::full ? full_ring_words : sample_ring_words) {
  const std::size_t rings_at = round_up(sizeof(session_state));
  const std::size_t words_at = rings_at + round_up(ring_count_ * sizeof(ring_header));
  header_ = new (header_file_.make("tarn-session", round_up(sizeof(session_header)))) session_header;
  header_->mode = mode;
  header_->ticks = clock.source();
  header_->tick_shift = clock.shift();
  header_->rings = static_cast<std::uint32_t>(ring_count_);
  header_->ring_words = static_cast<std::uint32_t>(ring_words_);
  header_->collector = getpid();
  header_->sample_bytes = sample_bytes;
  header_->rings_offset = rings_at;
  header_->words_offset = words_at;
  header_->state_bytes = words_at + ring_count_ * ring_words_ * 8;
  auto* state = static_cast<unsigned char*>(state_file_.make("tarn-session-state", header_->state_bytes));
  state_ = new (state) session_state;
  rings_ = reinterpret_cast<ring_header*>(state + rings_at);
  words_ = reinterpret_cast<std::uint64_t*>(state + words_at);
  header_file_.seal(header_seals);
  state_file_.seal(state_seals);
}

session_host::~session_host() {
  // relaxed: a program that still runs finds it out when its ring is full
  header_->recording.store(0, std::memory_order_relaxed);
}

void* session_host::memory_file::make(const char* name, std::size_t bytes) {
  file_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* memory = MAP_FAILED;
  if (file_ >= 0 && set_length(file_, bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  }
  if (memory == MAP_FAILED) {
    throw profile_error(
        std::string("cannot make the memory for the recording: ") + std::strerror(errno) +
        " (it takes 1 GiB of address space, and a file in memory of that length, of which only what is "
        "used takes memory: see ulimit -v and ulimit -f)");
  }
  memory_ = memory;
  bytes_ = bytes;
  return memory;
}

void session_host::memory_file::seal(int seals) const {
  if (fcntl(file_, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0) return;
  throw profile_error(std::string("cannot seal the memory for the recording: ") + std::strerror(errno));
}

session_host::memory_file::~memory_file() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

std::string session_host::memory_file::place() const {
  struct stat status = {};
  fstat(file_, &status);
  return std::to_string(file_) + ":" + std::to_string(status.st_ino);
}

std::string session_host::place() const {
  return std::to_string(getpid()) + ":" + header_file_.place() + ":" + state_file_.place();
}

}  // namespace tarn::profiler
