// SPDX-License-Identifier: MIT
#include "profiler/attach/loader_lock.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "profiler/attach/safe_point.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t most_bytes = 64 << 10;

// The first words of pthread_mutex_t, which are part of glibc's ABI.
struct mutex_words {
  std::int32_t lock;
  std::uint32_t count;
  std::int32_t owner;
  std::uint32_t users;
  std::int32_t kind;
  std::int32_t spins;
  std::uint64_t list[2];
};

bool is_recursive_mutex(const unsigned char* at) {
  mutex_words words;
  std::memcpy(&words, at, sizeof words);
  return words.lock >= 0 && words.lock <= 2 && words.users <= 1 && words.kind == PTHREAD_MUTEX_RECURSIVE_NP &&
         words.owner >= 0 && words.spins == 0 && words.list[0] == 0 && words.list[1] == 0;
}

}  // namespace

long find_recursive_mutexes(std::span<const unsigned char> data) {
  constexpr std::size_t size = sizeof(pthread_mutex_t);
  for (std::size_t at = 0; at + 2 * size <= data.size(); at += alignof(pthread_mutex_t)) {
    if (is_recursive_mutex(data.data() + at) && is_recursive_mutex(data.data() + at + size))
      return static_cast<long>(at);
  }
  return -1;
}

loader_lock::loader_lock(pid_t process, const std::vector<remote_module>& modules) : process_(process) {
  for (const remote_module& module : modules) {
    if (!is_dynamic_linker(module)) continue;
    for (const remote_symbol& one : module.functions) {
      if (one.name != rtld_global) continue;
      std::vector<unsigned char> data(std::min(one.bytes, most_bytes));
      data.resize(read_memory(process, one.address, data.data(), data.size()));
      const long offset = find_recursive_mutexes(data);
      if (offset >= 0) address_ = one.address + static_cast<std::uint64_t>(offset);
    }
  }
}

bool loader_lock::is_free() const {
  for (unsigned index = 0; address_ != 0 && index < 2; ++index) {
    std::int32_t word = 0;
    read_memory(process_, address_ + index * sizeof(pthread_mutex_t), &word, sizeof word);
    if (word != 0) return false;
  }
  return true;
}

}  // namespace tarn::profiler
