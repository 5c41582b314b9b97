// SPDX-License-Identifier: MIT
#include "observe/socket/openmetrics.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "background/decay.hpp"
#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "engine/slow_calls.hpp"
#include "observe/statistics.hpp"
#include "os/memory.hpp"

namespace tarn::control_socket {
namespace {

// Groups that belong to no front. A part of the engine adds its own here.
constexpr const metric_group* groups[] = {&statistics::metrics, &process_metrics, &slow_calls::metrics};

struct member {
  static constexpr std::size_t longest_name = 160;
  char name[longest_name];
  std::uint64_t values[metric_group::most_metrics];
};

// In memory of its own, whose pages are used as members come.
class gathered {
 public:
  explicit gathered(unsigned metrics)
      : metrics_(metrics), members_(static_cast<member*>(os::reserve(bytes, os::system_page_size()))) {}
  ~gathered() {
    if (members_ != nullptr) os::release_own(members_, bytes);
  }
  gathered(const gathered&) = delete;
  gathered& operator=(const gathered&) = delete;

  metric_receiver receiver() { return {receive, this}; }
  [[nodiscard]] std::span<const member> all() const { return {members_, count_}; }

 private:
  static constexpr std::size_t bytes = (most_members + 1) * sizeof(member);

  static void receive(void* to, const char* name, const std::uint64_t* values) {
    static_cast<gathered*>(to)->add(name, values);
  }
  void add(const char* name, const std::uint64_t* values) {
    if (members_ == nullptr) return;
    std::string_view kept(name != nullptr ? name : "");
    kept = part_of(kept, 0, member::longest_name - 1);
    member* const end = members_ + count_;
    const auto named = [&](const member& m) { return kept == m.name; };
    member* m = std::find_if(members_, end, named);
    if (m == end && count_ >= most_members) {
      kept = "(others)";
      m = std::find_if(members_, end, named);
    }
    if (m == end) {
      ++count_;
      std::memcpy(m->name, kept.data(), kept.size());  // the memory is zero
    }
    for (unsigned i = 0; i < metrics_; ++i) m->values[i] += values[i];
  }

  const unsigned metrics_;
  member* const members_;
  unsigned count_ = 0;
};

void put_labels(text_writer& out, const metric_group& group, const member& m) {
  if (group.label != nullptr) {
    out.put('{').put(group.label).put("=\"").put_escaped(m.name).put("\"}");
  } else if (*m.name != '\0') {
    out.put('{').put(m.name).put('}');
  }
}

void put_family(text_writer& out, const metric& m) {
  constexpr const char* kinds[] = {"gauge", "counter"};
  out.put("# TYPE ").put(m.name).put(' ').put(kinds[static_cast<unsigned>(m.kind)]).put('\n');
  if (m.unit == metric_unit::bytes) out.put("# UNIT ").put(m.name).put(" bytes\n");
  out.put("# HELP ").put(m.name).put(' ').put(m.help).put(".\n");
}

}  // namespace

void write_group(text_writer& out, const metric_group& group) {
  gathered members(group.count);
  group.visit(members.receiver());
  for (unsigned i = 0; i < group.count; ++i) {
    const metric& m = group.metrics[i];
    const auto is_known = [i](const member& one) { return one.values[i] != no_value; };
    if (std::none_of(members.all().begin(), members.all().end(), is_known)) continue;
    put_family(out, m);
    for (const member& one : members.all()) {
      if (!is_known(one)) continue;
      out.put(m.name).put(m.kind == metric_kind::counter ? "_total" : "");
      put_labels(out, group, one);
      out.put(' ').number(one.values[i]).put('\n');
    }
  }
}

void write_openmetrics(text_writer& out) {
  out.put("# TYPE tarn_build_info gauge\n# HELP tarn_build_info The version of tarn in the process.\n");
  out.put("tarn_build_info{version=\"" TARN_VERSION "\"} 1\n");
  for (const metric_group* const group : groups) write_group(out, *group);
  engine::for_each_front([&out](const engine::front& f) {
    if (f.metrics != nullptr) write_group(out, *f.metrics);
  });
  out.put("# EOF\n");
}

}  // namespace tarn::control_socket

void tarn::decay::write_box_figures() {
  if (!engine::samples.take_due_box_figures()) return;
  auto* const room = static_cast<char*>(os::reserve(box_figures_room, os::system_page_size()));
  if (room == nullptr) return;
  text_writer text(room, box_figures_room);
  control_socket::write_group(text, statistics::class_metrics);
  control_socket::write_openmetrics(text);
  engine::samples.box().write_figures({room, std::min(text.size(), box_figures_room)});
  os::release_own(room, box_figures_room);
}
