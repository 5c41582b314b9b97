// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/conf.hpp"

#include <fcntl.h>

#include <cstdlib>

#include "base/text.hpp"
#include "malloc/jemalloc/exported.hpp"
#include "malloc/jemalloc/message.hpp"
#include "os/syscall.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t most_options = 16;
constexpr std::size_t longest_line = 1024;

struct pair {
  std::string_view key;
  std::string_view value;
};

bool is_key(std::string_view text) {
  for (const char c : text) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!fits) return false;
  }
  return !text.empty();
}

bool is_number(std::string_view text) {
  constexpr std::size_t most_digits = 18;
  const bool hex = text.starts_with("0x");
  const std::string_view digits = part_of(text, hex ? 2 : 0);
  return !digits.empty() && text.size() <= most_digits &&
         digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "0123456789") == std::string_view::npos;
}

bool is_valid(const conf_option& option, std::string_view value) {
  switch (option.type) {
    case conf_type::flag: return value == "true" || value == "false";
    case conf_type::number:
    case conf_type::size: return is_number(value);
    case conf_type::signed_size: return value == "-1" || is_number(value);
    case conf_type::text: break;
  }
  return true;
}

void complain(const char* source, const char* what, std::string_view text) {
  text_buffer<longest_line> line;
  line.put("tarn: ").put(source).put(": ").put(what).put(": ").put(text).put(" (ignored)\n");
  write_message(line);
}

// Cuts the next "key:value" off. False: the text is at its end, or malformed; *malformed tells which.
bool next_pair(std::string_view& rest, pair& out, bool& malformed) {
  malformed = false;
  if (rest.empty()) return false;
  const std::size_t comma = rest.find(',');
  const std::string_view part = part_of(rest, 0, comma);
  const std::size_t colon = part.find(':');
  malformed = colon == std::string_view::npos || !is_key(part_of(part, 0, colon)) || comma == rest.size() - 1;
  if (colon == std::string_view::npos || !is_key(part_of(part, 0, colon))) return false;
  out = {part_of(part, 0, colon), part_of(part, colon + 1)};
  rest = comma == std::string_view::npos ? std::string_view{} : part_of(rest, comma + 1);
  return true;
}

// What the user has written, by option; the last source counts.
class written_options {
 public:
  // `source`: for messages.
  void add(const char* source, std::string_view text) {
    pair next{};
    bool malformed = false;
    while (next_pair(text, next, malformed)) {
      if (malformed) complain(source, "the text ends with a comma", next.key);
      add(source, next);
    }
    if (malformed) complain(source, "not of the form key:value,key:value", text);
  }

  void apply() const {
    for (std::size_t i = 0; i < conf_options.count; ++i) {
      if (values_[i].data() == nullptr) continue;
      if (conf_options.options[i].apply != nullptr) conf_options.options[i].apply(values_[i]);
    }
  }

 private:
  void add(const char* source, const pair& written) {
    if (!is_jemalloc_option(written.key)) return complain(source, "no option of jemalloc", written.key);
    const char* const advice = advice_for(written.key);
    if (advice != nullptr && written.value != "false") tell_missing(written, advice);
    for (std::size_t i = 0; i < conf_options.count; ++i) {
      const conf_option& option = conf_options.options[i];
      if (option.name != written.key) continue;
      if (!is_valid(option, written.value)) return complain(source, "invalid value for", written.key);
      values_[i] = written.value;
    }
  }

  static void tell_missing(const pair& written, const char* advice) {
    text_buffer<longest_line> line;
    line.put("tarn: option ").put(written.key).put(':').put(written.value);
    write_message(line.put(" of jemalloc has no effect: ").put(advice).put('\n'));
  }

  std::string_view values_[most_options];
};

// The target of /etc/malloc.conf; empty: there is no such link.
std::string_view link_target(char* buffer, std::size_t capacity) {
  constexpr const char* path = "/etc/malloc.conf";
  const long length = os::system_call(SYS_readlinkat, AT_FDCWD, path, buffer, capacity);
  return length > 0 ? std::string_view(buffer, static_cast<std::size_t>(length)) : std::string_view{};
}

}  // namespace

void read_conf() {
  static constinit char target[longest_line];
  written_options written;
  if (malloc_conf != nullptr) written.add("malloc_conf", malloc_conf);
  written.add("/etc/malloc.conf", link_target(target, sizeof target));
  if (const char* const variable = secure_getenv("MALLOC_CONF")) written.add("MALLOC_CONF", variable);
  written.apply();
}

}  // namespace tarn::jemalloc
