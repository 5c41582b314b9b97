// SPDX-License-Identifier: MIT
#include "cli/control/push_store.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/export/live_profile.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/format/pprof_message.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

using kind = push_store::kind;

struct store_form {
  kind form;
  const char* name;
  const char* path;
};
constexpr store_form forms[] = {{kind::pyroscope, "pyroscope", "/push.v1.PusherService/Push"},
                                {kind::parca, "parca", "/api/profiles/writeraw"},
                                {kind::otlp, "otlp", "/v1development/profiles"}};

constexpr std::size_t most_words_bytes = 200;

const store_form& form_of(kind wanted) {
  return *std::find_if(std::begin(forms), std::end(forms),
                       [wanted](const store_form& each) { return each.form == wanted; });
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < three.size() ? static_cast<std::uint8_t>(three[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= three.size() ? letters[bits >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

// As Prometheus and those stores have names of labels.
std::string label_name(std::string name) {
  for (char& each : name) {
    const bool is_known =
        (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || (each >= '0' && each <= '9');
    if (!is_known) each = '_';
  }
  if (name.front() >= '0' && name.front() <= '9') name.insert(0, "_");
  return name;
}

std::string json_body(kind form, std::string_view profile, const process_labels& labels) {
  // What the stores call the profiles of Go's heap, so that their pages show these in the same way.
  process_labels all{{"__name__", "memory"}};
  for (const auto& [name, value] : labels) all.try_emplace(label_name(name), value);
  nlohmann::json names = nlohmann::json::array();
  for (const auto& [name, value] : all)
    names.push_back(nlohmann::json::object({{"name", name}, {"value", value}}));
  nlohmann::json series = nlohmann::json::object();
  series["samples"][0]["rawProfile"] = base64(profiler::gzipped(std::string(profile)));
  if (form == kind::parca) {
    series["labels"]["labels"] = std::move(names);
  } else {
    series["labels"] = std::move(names);
  }
  nlohmann::json request = nlohmann::json::object();
  request["series"][0] = std::move(series);
  return json_text(request);
}

// None at all is that of the scheme. The colons of an address in brackets are not before a port.
bool has_wrong_port(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return false;
  std::uint16_t port = 0;
  const char* const end = authority.data() + authority.size();
  const auto [stop, problem] = std::from_chars(authority.data() + colon + 1, end, port);
  return problem != std::errc() || stop != end || port == 0;
}

}  // namespace

const char* push_store::name() const { return form_of(form).name; }

push_store parse_push_store(const std::string& text) {
  const auto refuse = [&text](const char* advice) -> cli_error {
    return {exit_code::usage, fmt::format("--push {}: this is not a store and its address", text), advice};
  };
  const std::size_t sign = text.find('=');
  const auto* const found = std::find_if(std::begin(forms), std::end(forms), [&](const store_form& each) {
    return text.substr(0, sign) == each.name;
  });
  if (sign == std::string::npos || found == std::end(forms))
    throw refuse("Give pyroscope=http://HOST:4040, parca=http://HOST:7070, or otlp=http://HOST:4318.");
  push_store store{found->form, text.substr(sign + 1)};
  const std::size_t host = store.url.find("://") + 3;
  if (!(store.url.starts_with("http://") || store.url.starts_with("https://")) || host >= store.url.size() ||
      store.url.find_first_of("?# \t\n") != std::string::npos)
    throw refuse("The address begins with http:// or https:// and has no question: http://HOST:PORT.");
  const std::string authority = store.url.substr(host, store.url.find_first_of("/\\", host) - host);
  if (authority.empty() || authority.front() == ':')
    throw refuse("The address has a host after the two slashes: http://HOST:PORT.");
  if (authority.find('@') != std::string::npos)
    throw cli_error(exit_code::usage, "--push: an address with a password can be read by everybody in ps",
                    "Put 'Authorization: Basic …' into a file, and name it by --push-headers.");
  if (has_wrong_port(authority))
    throw refuse(
        "The port is a number from 1 to 65535: http://HOST:PORT. IPv6 stands in brackets: http://[::1]:4318.");
  while (store.url.ends_with('/')) store.url.pop_back();
  return store;
}

http_post request_to(const push_store& store, std::string_view profile, const process_labels& labels) {
  http_post request;
  request.url = store.url + form_of(store.form).path;
  if (store.form == kind::otlp) {
    request.type = "application/x-protobuf";
    request.is_packed = true;
    request.body = profiler::gzipped(profiler::otlp_profiles(profile, labels, TARN_CLI_VERSION));
  } else {
    request.type = "application/json";
    request.body = json_body(store.form, profile, labels);
  }
  return request;
}

// Of ExportProfilesServiceResponse, field 1, partial_success: 1 rejected_profiles, 2 error_message. With none rejected the words are
// a warning. What is no such message is a success, as the status says.
std::string rejection_in(const push_store& store, std::string_view answer) {
  if (store.form != kind::otlp) return {};
  using profiler::pprof::message_field;
  using profiler::pprof::message_reader;
  std::int64_t refused = 0;
  std::string_view words;
  message_reader outer(answer);
  for (message_field part; outer.next(part);) {
    if (part.number != 1) continue;
    message_reader inner(part.bytes);
    for (message_field each; inner.next(each);) {
      if (each.number == 1) refused = static_cast<std::int64_t>(each.value);
      if (each.number == 2) words = each.bytes;
    }
  }
  if (refused <= 0) return {};
  const std::string said = profiler::cut_at_character(profiler::printable(words), most_words_bytes);
  return fmt::format("it answers that it rejects {} of the profiles{}", refused,
                     said.empty() ? "" : fmt::format(" ({})", said));
}

}  // namespace tarn::cli
