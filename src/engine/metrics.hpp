// SPDX-License-Identifier: MIT
// metrics: what a part of the engine counts, as tables from which the control socket makes OpenMetrics text
// (observe/socket/openmetrics.hpp). A part has a structure of figures, a table of metric_of (one for each metric: which figure
// it shows), and a metric_group, which metric_table makes of the table and of a function that visits the figures of each
// member (each typed pool, each scope). A front names its group in its table (front.hpp); others are listed in
// observe/socket/openmetrics.cpp.
//
// Names follow Prometheus' conventions: tarn_, then what is counted, with its unit in plural at the end. The text of a
// counter ends with _total, which is not written here.
// Thread safety: visit() is called by the control thread, which holds no lock. That thread is not one of libc's: visit()
// must not allocate, and may use only those functions of libc that neither set errno nor take a lock.
#pragma once

#include <cstdint>
#include <iterator>

namespace tarn {

enum class metric_kind : std::uint8_t { gauge, counter };
enum class metric_unit : std::uint8_t { none, bytes };

struct metric {
  const char* name;  // "tarn_pool_bytes"
  metric_kind kind;
  metric_unit unit;
  const char* help;  // one sentence without a full stop
};

// In place of a value: the member has none for this metric.
inline constexpr std::uint64_t no_value = ~std::uint64_t{0};

// Whoever wants the values of a group.
struct metric_receiver {
  // `member`: the value of the group's label, or the labels; copied before the call returns.
  // `values`: one for each metric of the group.
  void (*receive)(void* context, const char* member, const std::uint64_t* values);
  void* context;
};

struct metric_group {
  static constexpr unsigned most_metrics = 32;

  // Values of members of one label are added. Null: a member is its labels as OpenMetrics writes them (a="b",c="d"), or
  // null if there is only one.
  const char* label;
  const metric* metrics;
  unsigned count;  // at most most_metrics
  void (*visit)(metric_receiver to);
};

// A metric that shows one figure of a structure.
template <class Figures>
struct metric_of {
  const char* name;
  metric_kind kind;
  metric_unit unit;
  const char* help;
  std::uint64_t Figures::*figure;
};

// `rows`: an array of metric_of, a constant.
template <const auto& rows>
class metric_table {
 public:
  // `visit`: calls give() for each member.
  static constexpr metric_group group(void (*visit)(metric_receiver), const char* label = nullptr) {
    return {label, shown.metrics, count, visit};
  }
  // The same for a function that visits the figures of each member, with the member's name.
  template <auto each>
  static constexpr metric_group group_of(const char* label) {
    return group([](metric_receiver to) { each(give_named, &to); }, label);
  }

  template <class Figures>
  static void give(const metric_receiver& to, const char* member, const Figures& figures) {
    std::uint64_t values[count];
    for (unsigned i = 0; i < count; ++i) values[i] = figures.*rows[i].figure;
    to.receive(to.context, member, values);
  }

 private:
  static constexpr unsigned count = std::size(rows);
  static_assert(count <= metric_group::most_metrics);

  struct list {
    metric metrics[count];
  };
  static constexpr list list_metrics() {
    list out{};
    for (unsigned i = 0; i < count; ++i)
      out.metrics[i] = {rows[i].name, rows[i].kind, rows[i].unit, rows[i].help};
    return out;
  }
  static constexpr list shown = list_metrics();

  template <class Figures>
  static void give_named(void* to, const char* member, const Figures* figures) {
    give(*static_cast<const metric_receiver*>(to), member, *figures);
  }
};

}  // namespace tarn
