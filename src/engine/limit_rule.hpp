// SPDX-License-Identifier: MIT
// limit_rule: the option `limit`, as it is set; what follows from it is decided in background/pressure.hpp.
//
// Thread safety: any thread. No lock. A reader may mix two settings.
#pragma once

#include <atomic>
#include <cstdint>

namespace tarn::pressure {

// One limit of the rule. `percent`: of the control group's limit.
struct bound {
  enum class kind : std::uint8_t { automatic, none, bytes, percent };
  kind what = kind::none;
  std::uint64_t value = 0;
};
struct rule {
  bound soft{bound::kind::automatic};  // automatic: near() of the control group's limit
  bound hard{bound::kind::none};       // never automatic
};

class limit_rule {
 public:
  constexpr limit_rule() = default;

  void set(const rule& by) {
    soft_kind_.store(by.soft.what, std::memory_order_relaxed);
    soft_value_.store(by.soft.value, std::memory_order_relaxed);
    hard_kind_.store(by.hard.what, std::memory_order_relaxed);
    hard_value_.store(by.hard.value, std::memory_order_relaxed);
    is_new_.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] rule current() const {
    return {{soft_kind_.load(std::memory_order_relaxed), soft_value_.load(std::memory_order_relaxed)},
            {hard_kind_.load(std::memory_order_relaxed), hard_value_.load(std::memory_order_relaxed)}};
  }
  // Whether nobody has looked at memory by this rule yet.
  [[nodiscard]] bool is_new() const { return is_new_.load(std::memory_order_relaxed); }
  // Somebody looks. Whether it is the first one.
  bool take_new() { return is_new_.exchange(false, std::memory_order_relaxed); }

 private:
  std::atomic<bound::kind> soft_kind_{bound::kind::automatic};
  std::atomic<bound::kind> hard_kind_{bound::kind::none};
  std::atomic<std::uint64_t> soft_value_{0};
  std::atomic<std::uint64_t> hard_value_{0};
  std::atomic<bool> is_new_{false};
};

// The process's.
[[gnu::visibility("hidden")]] extern limit_rule option_limit;

}  // namespace tarn::pressure
