// SPDX-License-Identifier: MIT
#include "profiler/collect/session_host.hpp"

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
constexpr std::size_t most_rings = 2048;
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
    : ring_count_(most_rings), ring_words_(mode == record_mode::full ? full_ring_words : sample_ring_words) {
  const std::size_t rings_at = round_up(sizeof(session_header));
  const std::size_t words_at = rings_at + round_up(ring_count_ * sizeof(ring_header));
  bytes_ = words_at + ring_count_ * ring_words_ * 8;
  file_ = memfd_create("tarn-session", MFD_CLOEXEC);
  void* memory = MAP_FAILED;
  if (file_ >= 0 && set_length(file_, bytes_)) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  }
  if (memory == MAP_FAILED) {
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw profile_error(
        std::string("cannot make the memory for the recording: ") + std::strerror(error) +
        " (it takes 1 GiB of address space, and a file in memory of that length, of which only what is "
        "used takes memory: see ulimit -v and ulimit -f)");
  }
  header_ = new (memory) session_header;
  rings_ = reinterpret_cast<ring_header*>(static_cast<unsigned char*>(memory) + rings_at);
  words_ = reinterpret_cast<std::uint64_t*>(static_cast<unsigned char*>(memory) + words_at);
  header_->mode = mode;
  header_->ticks = clock.source();
  header_->tick_shift = clock.shift();
  header_->rings = static_cast<std::uint32_t>(ring_count_);
  header_->ring_words = static_cast<std::uint32_t>(ring_words_);
  header_->collector = getpid();
  header_->sample_bytes = sample_bytes;
  header_->rings_offset = rings_at;
  header_->words_offset = words_at;
  header_->bytes = bytes_;
}

session_host::~session_host() {
  // relaxed: a program that still runs finds it out when its ring is full
  header_->recording.store(0, std::memory_order_relaxed);
  munmap(header_, bytes_);
  close(file_);
}

std::string session_host::place() const {
  struct stat status = {};
  fstat(file_, &status);
  return std::to_string(getpid()) + ":" + std::to_string(file_) + ":" + std::to_string(status.st_ino);
}

}  // namespace tarn::profiler
