// SPDX-License-Identifier: MIT
// A service in a control group of 256 MiB (docs/design/0034): four threads answer requests, each with memory of its own, a
// recycled parser, a buffer, and a cache of answers that would grow to some 400 MiB. With the limit of the group, the
// program's callback drops answers, idle objects, buffers and free memory go, and all requests are answered. With
// TARN_LIMIT=none the same program is killed; outside of the group it takes more than 400 MiB. Skipped where no such group can be made.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../memory_group.hpp"
#include "program.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/process.hpp"
#include "tarn/recycler.hpp"

namespace {

using namespace pools_test;

constexpr std::size_t group_bytes = 256 * mib;
constexpr unsigned threads = 4;
constexpr std::size_t requests = 20000;  // of each thread
constexpr std::size_t keys = 20000;
constexpr std::size_t answer_bytes = 20 * 1024;  // of all keys together 390 MiB
constexpr std::size_t base_bytes = 48 * mib;     // live all the time

// Answers by key, the most recently used ones first.
class answer_cache {
 public:
  bool find(std::uint64_t key, std::string& out) {
    const std::lock_guard guard(lock_);
    const auto found = index_.find(key);
    if (found == index_.end()) return false;
    recent_.splice(recent_.begin(), recent_, found->second);
    out = found->second->second;
    return true;
  }
  void insert(std::uint64_t key, const std::string& answer) {
    const std::lock_guard guard(lock_);
    if (index_.contains(key)) return;
    recent_.emplace_front(key, answer);
    index_[key] = recent_.begin();
  }
  void shrink_by(std::uint64_t bytes) {
    const std::lock_guard guard(lock_);
    ++shrinks_;
    for (std::uint64_t freed = 0; freed < bytes && !recent_.empty(); freed += answer_bytes) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
      ++dropped_;
    }
  }
  [[nodiscard]] std::size_t shrinks() const { return shrinks_; }
  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  using entry = std::pair<std::uint64_t, std::string>;
  std::mutex lock_;
  std::list<entry> recent_;
  std::unordered_map<std::uint64_t, std::list<entry>::iterator> index_;
  std::size_t shrinks_ = 0;
  std::size_t dropped_ = 0;
};

struct parser {
  std::string text;
  void clear() { text.clear(); }
  [[nodiscard]] std::size_t capacity() const { return text.capacity(); }
  [[nodiscard]] std::size_t size() const { return text.size(); }
  using value_type = char;
};

struct service {
  answer_cache cache;
  tarn::recycler<parser> parsers{[] { return parser{}; }};
  tarn::buffer_pool buffers;

  std::string answer(std::uint64_t key) {
    std::string text;
    if (cache.find(key, text)) return text;
    auto parsed = parsers.get();
    parsed->text.assign(256 * 1024, static_cast<char>('a' + key % 26));
    auto buffer = buffers.get(1 * mib);
    std::memset(buffer.data(), static_cast<int>(key % 251), 512 * 1024);
    std::vector<std::string> parts;
    for (std::size_t size = 0; size < answer_bytes; size += 512) parts.emplace_back(512, parsed->text[size]);
    for (const std::string& part : parts) text += part;
    text.resize(answer_bytes);
    text.shrink_to_fit();
    cache.insert(key, text);
    return text;
  }
};

bool is_right(std::uint64_t key, const std::string& text) {
  return text.size() == answer_bytes && text.front() == static_cast<char>('a' + key % 26) &&
         text.back() == text.front();
}

int serve() {
  service s;
  const auto registration =
      tarn::on_pressure([&](const tarn_pressure& now) { s.cache.shrink_by(now.excess + now.soft / 8); });
  TARN_CHECK(registration.is_active(), "no thread calls the callback");
  std::vector<std::string> base(base_bytes / 4000, std::string(4000, 'x'));
  std::atomic<std::size_t> answered{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&s, &answered, t] {
      std::uint64_t random = t + 1;
      for (std::size_t i = 0; i < requests; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const std::uint64_t key = (random >> 33) % keys;
        if (is_right(key, s.answer(key))) ++answered;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  TARN_CHECK(answered == threads * requests, "%zu of %zu requests were answered", answered.load(),
             threads * requests);
  std::printf("%zu requests; the callback ran %zu times and dropped %zu answers\n", answered.load(),
              s.cache.shrinks(), s.cache.dropped());
  std::fflush(stdout);
  return 0;
}

struct end_of_service {
  int status = 0;       // of wait
  double peak_mib = 0;  // of the process's resident memory
};

// The service in the group, if there is one, in a new process: the option is read at its start.
end_of_service serve_in(const memory_group* group, const char* self, const char* limit) {
  const pid_t child = fork();
  if (child == 0) {
    if (limit != nullptr) setenv("TARN_LIMIT", limit, 1);
    if (group != nullptr && !group->enter()) _exit(77);
    execl(self, self, "serve", nullptr);
    _exit(1);
  }
  end_of_service end;
  rusage usage{};
  wait4(child, &end.status, 0, &usage);
  end.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  return end;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return serve();
  if (!measurable) guarantee::skip("a sanitizer's own memory counts");
  unsetenv("TARN_LIMIT");
  const memory_group group(group_bytes);
  if (!group.exists()) guarantee::skip("no control group with a memory limit can be made");
  const end_of_service bounded = serve_in(&group, arguments[0], nullptr);
  if (WIFEXITED(bounded.status) && WEXITSTATUS(bounded.status) == 77)
    guarantee::skip("the group cannot be entered");
  const double group_peak = guarantee::in_mib(group.peak());
  TARN_CHECK(WIFEXITED(bounded.status) && WEXITSTATUS(bounded.status) == 0,
             "in 256 MiB: status %#x, peak %.0f MiB", bounded.status, group_peak);
  const end_of_service unbounded = serve_in(&group, arguments[0], "none");
  TARN_CHECK(WIFSIGNALED(unbounded.status) && WTERMSIG(unbounded.status) == SIGKILL,
             "without the limit it should be killed, but: status %#x", unbounded.status);
  const end_of_service free = serve_in(nullptr, arguments[0], "none");
  TARN_CHECK(WIFEXITED(free.status) && WEXITSTATUS(free.status) == 0 && free.peak_mib > 400,
             "outside of the group: status %#x, peak %.0f MiB", free.status, free.peak_mib);
  std::printf(
      "%s: peak of the group %.0f MiB, of the process %.0f MiB; without the limit killed at %.0f MiB; "
      "outside of the group %.0f MiB\n",
      group.version(), group_peak, bounded.peak_mib, unbounded.peak_mib, free.peak_mib);
  return 0;
}
