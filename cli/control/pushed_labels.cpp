// SPDX-License-Identifier: MIT
#include "cli/control/pushed_labels.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "cli/control/control_client.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/analyze/opened_elf.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_labels = 24;  // Pyroscope takes 30 by default
constexpr std::size_t longest_value = 1000;
constexpr std::string_view used_variables[] = {"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "POD_NAME",
                                               "HOSTNAME", "KUBERNETES_SERVICE_HOST"};

// Calls `take` with each part.
template <class Take>
void split(std::string_view text, char separator, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    take(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

std::map<std::string, std::string, std::less<>> variables_of(pid_t process) {
  std::map<std::string, std::string, std::less<>> out;
  split(
      profiler::proc_text(static_cast<std::uint32_t>(process), "environ"), '\0', [&](std::string_view line) {
        const std::size_t sign = line.find('=');
        if (sign == std::string_view::npos) return;
        const std::string_view name = line.substr(0, sign);
        if (std::find(std::begin(used_variables), std::end(used_variables), name) != std::end(used_variables))
          out.emplace(name, line.substr(sign + 1));
      });
  return out;
}

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

// "a%20b" is "a b", as in the variable's values.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape =
        text[at] == '%' && at + 2 < text.size() && digit_of(text[at + 1]) >= 0 && digit_of(text[at + 2]) >= 0;
    out += is_escape ? static_cast<char>(digit_of(text[at + 1]) * 16 + digit_of(text[at + 2])) : text[at];
    if (is_escape) at += 2;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Those that begin with two underscores mean something to stores.
// Stores keep names that begin with two underscores for themselves, and take each mark for one.
bool is_label_name(std::string_view name) {
  constexpr std::string_view marks = "._-";
  return !name.empty() && name.size() <= 100 && name.find_first_not_of(marks) <= 1 &&
         std::all_of(name.begin(), name.end(), [](char each) {
           return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                  (each >= '0' && each <= '9') || each == '.' || each == '_' || each == '-';
         });
}

std::string own_host() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

process_labels parse_labels(const std::vector<std::string>& words) {
  process_labels out;
  for (const std::string& word : words) {
    const std::size_t sign = word.find('=');
    if (sign == std::string::npos || sign + 1 == word.size() || !is_label_name(word.substr(0, sign)))
      throw cli_error(exit_code::usage, fmt::format("--push-label {}: this is not a name and a value", word),
                      "Give NAME=VALUE, such as service.version=1.2 or team=search.");
    out[word.substr(0, sign)] = word.substr(sign + 1);
  }
  return out;
}

process_labels labels_of(pid_t process, const process_labels& given) {
  const auto variables = variables_of(process);
  const auto variable = [&variables](const char* name) {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second : std::string();
  };
  // The first to say something is right; the ones that tell processes apart come before what else there is.
  process_labels out;
  const auto add = [&out](const std::string& name, std::string_view value) {
    if (!value.empty() && out.size() < most_labels)
      out.try_emplace(name, profiler::cut_at_character(profiler::printable(value), longest_value));
  };
  for (const auto& [name, value] : given) add(name, value);
  add("process.pid", std::to_string(process));
  add("service.name", variable("OTEL_SERVICE_NAME"));
  std::map<std::string, std::string> attributes;
  split(variable("OTEL_RESOURCE_ATTRIBUTES"), ',', [&attributes](std::string_view each) {
    const std::size_t sign = each.find('=');
    if (sign == std::string_view::npos) return;
    const std::string_view name = trimmed(each.substr(0, sign));
    if (is_label_name(name)) attributes.emplace(name, decoded(trimmed(each.substr(sign + 1))));
  });
  for (const char* const first : {"service.name", "service.version", "host.name", "k8s.pod.name"})
    add(first, attributes[first]);
  add("service.name", name_of_process(process));
  add("process.executable.build_id.gnu", profiler::build_id_of(fmt::format("/proc/{}/exe", process)));
  const std::string host = variable("HOSTNAME");
  add("k8s.pod.name", variable("POD_NAME"));
  if (!variable("KUBERNETES_SERVICE_HOST").empty()) add("k8s.pod.name", host);
  add("host.name", host.empty() ? own_host() : host);
  for (const auto& [name, value] : attributes) add(name, value);
  return out;
}

}  // namespace tarn::cli
