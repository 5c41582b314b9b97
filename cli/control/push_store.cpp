// SPDX-License-Identifier: MIT
#include "cli/control/push_store.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/export/live_profile.hpp"
#include "profiler/export/pprof_message.hpp"

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
  series["samples"][0]["rawProfile"] = base64(profiler::pprof::gzipped(std::string(profile)));
  if (form == kind::parca) {
    series["labels"]["labels"] = std::move(names);
  } else {
    series["labels"] = std::move(names);
  }
  nlohmann::json request = nlohmann::json::object();
  request["series"][0] = std::move(series);
  return json_text(request);
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
  if (authority.empty()) throw refuse("The address has a host after the two slashes: http://HOST:PORT.");
  if (authority.find('@') != std::string::npos)
    throw cli_error(exit_code::usage, "--push: an address with a password can be read by everybody in ps",
                    "Put 'Authorization: Basic …' into a file, and name it by --push-headers.");
  while (store.url.ends_with('/')) store.url.pop_back();
  return store;
}

http_post request_to(const push_store& store, std::string_view profile, const process_labels& labels) {
  http_post request;
  request.url = store.url + form_of(store.form).path;
  if (store.form == kind::otlp) {
    request.type = "application/x-protobuf";
    request.is_packed = true;
    request.body = profiler::pprof::gzipped(profiler::otlp_profiles(profile, labels, TARN_CLI_VERSION));
  } else {
    request.type = "application/json";
    request.body = json_body(store.form, profile, labels);
  }
  return request;
}

}  // namespace tarn::cli
