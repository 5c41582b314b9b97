// SPDX-License-Identifier: MIT
// answers: a service that keeps the answers that it has computed. With all of them in memory it needs some 200 MiB.
#include <sys/resource.h>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#ifdef WITH_CALLBACK
#include <tarn/process.hpp>
#endif

class answer_cache {
 public:
  std::string get(std::size_t question) {
    const std::lock_guard guard(lock_);
    std::string& known = answers_[question];
    if (known.empty()) known = std::string(20'000, static_cast<char>('a' + question % 26));
    return known;
  }
  // Drops answers from the oldest question on, at least so many bytes.
  void shrink_by(std::size_t bytes) {
    const std::lock_guard guard(lock_);
    for (std::size_t freed = 0, looked = 0; freed < bytes && looked < answers_.size(); ++looked) {
      std::string& oldest = answers_[next_++ % answers_.size()];
      freed += oldest.size();
      dropped_ += oldest.empty() ? 0 : 1;
      std::string().swap(oldest);
    }
  }
  std::size_t dropped() const { return dropped_; }

 private:
  std::mutex lock_;
  std::vector<std::string> answers_{std::vector<std::string>(10'000)};
  std::size_t next_ = 0;
  std::size_t dropped_ = 0;
};

// The most memory of this process that was in RAM. Allocates nothing, as there may be nothing left.
long peak_mib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss / 1024;
}

int main() {
  answer_cache cache;
#ifdef WITH_CALLBACK
  const auto registration =
      tarn::on_pressure([&cache](const tarn_pressure& now) { cache.shrink_by(now.excess + now.soft / 8); });
#endif
  std::size_t answered = 0;
  std::size_t failed = 0;
  for (std::size_t request = 0; request < 40'000; ++request) {
    try {
      answered += cache.get(request * 7919 % 10'000).size() == 20'000 ? 1 : 0;
    } catch (const std::bad_alloc&) {
      ++failed;
    }
  }
  std::printf("%zu requests answered, %zu failed; %s answers dropped; a peak of %ld MiB\n", answered, failed,
              cache.dropped() != 0 ? "some" : "no", peak_mib());
}
