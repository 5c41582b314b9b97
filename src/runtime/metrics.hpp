// SPDX-License-Identifier: MIT
// metrics: what a part of the engine counts, as tables from which the control socket makes OpenMetrics text
// (control/openmetrics.hpp). A part defines one metric_group: its figures, and a function that gives their values for
// each of its members (each typed pool, each lock). A front names its group in its table (front.hpp); others are listed
// in control/openmetrics.cpp.
//
// Names follow Prometheus' conventions: tarn_, then what is counted, with its unit in plural at the end. The text of a
// counter ends with _total, which is not written here.
// Thread safety: visit() is called by the control thread, which holds no lock. That thread is not one of libc's: visit()
// must not allocate, and may use only those functions of libc that neither set errno nor take a lock.
#pragma once

#include <cstdint>

namespace tarn {

enum class metric_kind : std::uint8_t { gauge, counter };
// Values of `seconds` are given in nanoseconds.
enum class metric_unit : std::uint8_t { none, bytes, seconds };

struct metric {
  const char* name;  // "tarn_pool_bytes"
  metric_kind kind;
  metric_unit unit;
  const char* help;  // one sentence without a full stop
};

// In place of a value: the member has none for this metric.
inline constexpr std::uint64_t no_value = ~std::uint64_t{0};

// `member`: the value of the group's label; copied before the call returns. `number`: that of its second label.
// `values`: one for each metric of the group.
using metric_receiver = void (*)(void* context, const char* member, std::uint64_t number,
                                 const std::uint64_t* values);

struct metric_group {
  static constexpr unsigned most_metrics = 32;

  // Values of members that agree in their labels are added.
  const char* label;         // null: there is one member, and its metrics have no label
  const char* number_label;  // null: there is no second label
  const metric* metrics;
  unsigned count;  // at most most_metrics
  void (*visit)(metric_receiver receive, void* context);
};

}  // namespace tarn
