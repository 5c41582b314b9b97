// SPDX-License-Identifier: MIT
// workers: threads that execute functions for the fuzzer's thread, which waits for each one. So only the input decides
// which thread does what.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tarn::fuzz {

class worker {
 public:
  worker() : thread_([this] { work(); }) {}
  ~worker() {
    run(nullptr);
    thread_.join();
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  // A null function ends the thread.
  void run(const std::function<void()>* function) {
    std::unique_lock lock(mutex_);
    function_ = function;
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !waiting_; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return waiting_; });
      if (function_ != nullptr) (*function_)();
      waiting_ = false;
      changed_.notify_all();
      if (function_ == nullptr) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* function_ = nullptr;
  bool waiting_ = false;
  std::thread thread_;
};

// Number 0 is the calling thread.
class workers {
 public:
  static constexpr unsigned count = 3;
  void run(unsigned who, const std::function<void()>& function) {
    if (who % count == 0) return function();
    std::unique_ptr<worker>& one = others_[who % count - 1];
    if (one == nullptr) one = std::make_unique<worker>();
    one->run(&function);
  }
  // Ends the thread, which empties its caches. The next function for it runs in a new thread.
  void end(unsigned who) {
    if (who % count != 0) others_[who % count - 1].reset();
  }

 private:
  std::array<std::unique_ptr<worker>, count - 1> others_;
};

}  // namespace tarn::fuzz
