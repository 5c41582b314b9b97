// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>

#include "background/reclaim.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "observe/heap_profile.hpp"
#include "observe/socket/client.hpp"
#include "observe/socket/command.hpp"
#include "observe/socket/openmetrics.hpp"
#include "observe/statistics.hpp"
#include "os/memory.hpp"

namespace tarn::control_socket {
namespace {

void help(std::string_view /*arguments*/, answer& out) {
  for (const command& c : commands()) {
    out.put(c.name);
    if (*c.takes != '\0') out.put(' ').put(c.takes);
    out.put(": ").put(c.meaning).put('\n');
  }
}

void metrics(std::string_view /*arguments*/, answer& out) { write_openmetrics(out); }

void stats(std::string_view /*arguments*/, answer& out) {
  statistics::write_json(out, true);
  out.put('\n');
}

// One line for each option: its name, value, where that comes from, whether `set` may change it, and what it accepts,
// separated by tabs.
void list_options(std::string_view /*arguments*/, answer& out) {
  tarn_option o{};
  for (std::size_t i = 0; options::describe(i, o) == 0; ++i) {
    out.put(o.name).put('\t').put(o.value).put('\t').put(o.source).put('\t');
    out.put(options::is_set_by_socket(i) ? "yes" : "no").put('\t').put(o.accepts).put('\n');
  }
}

void name_settable(answer& out) {
  tarn_option o{};
  bool first = true;
  for (std::size_t i = 0; options::describe(i, o) == 0; ++i) {
    if (!options::is_set_by_socket(i)) continue;
    out.put(first ? "" : ", ").put(o.name);
    first = false;
  }
}

void refuse_value(const char* name, const char* value, answer& out) {
  out.refuse().put("'").put(value).put("' is not valid: ").put(name).put(" takes ");
  tarn_option o{};
  if (options::describe(name, o) == 0) out.put(o.accepts).put("; it stays ").put(o.value);
}

void set(std::string_view arguments, answer& out) {
  if (arguments.find('\0') != std::string_view::npos) {
    out.refuse().put("set takes OPTION=VALUE without null bytes");
    return;
  }
  char name[64];
  char value[client::longest_request];
  std::string_view wanted = arguments;
  std::string_view key = take_until(wanted, '=');
  const bool has_value = key.size() != arguments.size();
  // As the variable is spelled, too.
  if (key.starts_with("TARN_")) key.remove_prefix(5);
  if (!has_value || !copy_lower(key, name) || wanted.size() >= sizeof value) {
    out.refuse().put("set takes OPTION=VALUE; options: ");
    return name_settable(out);
  }
  *std::copy(wanted.begin(), wanted.end(), value) = '\0';
  switch (options::set_by_socket(name, value)) {
    case 0: out.put(name).put('=').put(value).put('\n'); return;
    case EINVAL: return refuse_value(name, value, out);
    case EPERM:
      out.refuse().put(name).put(
          " cannot be changed while the program runs; set TARN_… in its environment, or one of: ");
      return name_settable(out);
    default: out.refuse().put(name).put(" is no option; these can be set: "); return name_settable(out);
  }
}

// Not tarn_trim(), which runs destructors of the program for objects of recyclers.
void trim(std::string_view arguments, answer& out) {
  std::size_t keep = 0;
  if (!arguments.empty() && (!take_number(arguments, keep) || !arguments.empty())) {
    out.refuse().put("trim takes a number of bytes to keep, or nothing");
    return;
  }
  out.number(engine::trim(keep)).put('\n');
}

void profile(std::string_view arguments, answer& out) {
  const bool is_heap = arguments == "heap" || arguments.empty();
  if (!is_heap && arguments != "allocs") {
    out.refuse().put("profile takes heap or allocs");
    return;
  }
  if (heap_profile::rate() == 0) {
    out.refuse().put("no samples are taken; begin with: tarn control PID profile=on");
    return;
  }
  const auto shown = is_heap ? heap_profile::view::heap : heap_profile::view::allocations;
  if (!heap_profile::write(shown, answer::receive, &out))
    out.refuse().put("there is no memory for the profile");
}

constexpr command table[] = {
    {"help", "", "the commands", help},
    {"metrics", "", "all figures as OpenMetrics text", metrics},
    {"stats", "", "the heap's figures as one line of JSON", stats},
    {"options", "", "the options and their values", list_options},
    {"set", "OPTION=VALUE", "changes an option", set},
    {"trim", "[BYTES]",
     "gives idle memory back to the system, except so much; answers how much was given back", trim},
    {"profile", "[heap|allocs]", "what the program has allocated, and where, as a profile of pprof", profile},
};

}  // namespace

std::span<const command> commands() { return table; }

void run(std::string_view line, answer& out) {
  const std::size_t space = line.find(' ');
  const std::string_view name = part_of(line, 0, space);
  std::string_view arguments =
      space == std::string_view::npos ? std::string_view{} : part_of(line, space + 1);
  for (const command& c : table) {
    if (c.name != name) continue;
    if (*c.takes == '\0' && !arguments.empty()) {
      out.refuse().put(c.name).put(" takes nothing after its name");
      return;
    }
    return c.run(arguments, out);
  }
  out.refuse().put("this process does not know the command; it knows:");
  for (const command& c : table) out.put(' ').put(c.name);
}

}  // namespace tarn::control_socket
