// SPDX-License-Identifier: MIT
#include "cli/agent/rpc_message.hpp"

#include <fmt/core.h>

#include <exception>
#include <utility>

#include "cli/show/json_output.hpp"

namespace tarn::cli {

namespace {

// No request of the protocol comes near.
constexpr int most_levels = 64;

struct too_deep : std::exception {};

bool is_id(const nlohmann::json& value) { return value.is_string() || value.is_number_integer(); }

rpc_line refused(const nlohmann::json& id, int code, const std::string& message) {
  return {.request = {}, .refusal = rpc_error(id, code, message)};
}

rpc_line read_object(nlohmann::json message) {
  const auto member = [&message](const char* name) -> const nlohmann::json& {
    static const nlohmann::json none;
    const auto found = message.find(name);
    return found != message.end() ? *found : none;
  };
  const nlohmann::json id = is_id(member("id")) ? member("id") : nlohmann::json();
  const auto invalid = [&id](const char* what) { return refused(id, rpc_code::invalid_request, what); };
  if (member("jsonrpc") != "2.0") return invalid("the member jsonrpc must be \"2.0\"");
  if (!message.contains("method") && (message.contains("result") || message.contains("error"))) return {};
  if (!member("method").is_string()) return invalid("the member method must be a text");
  if (message.contains("id") && id.is_null()) return invalid("an id must be a text or a whole number");
  if (message.contains("params") && !member("params").is_object())
    return refused(id, rpc_code::invalid_parameters, "the member params must be an object");
  rpc_request request{id, member("method").get<std::string>(), nlohmann::json::object()};
  if (message.contains("params")) request.parameters = std::move(message["params"]);
  return {.request = std::move(request), .refusal = {}};
}

}  // namespace

std::optional<nlohmann::json> parse_shallow(std::string_view text) {
  const auto refuse_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > most_levels) throw too_deep();
    return true;
  };
  try {
    return nlohmann::json::parse(text, refuse_depth, false);
  } catch (const too_deep&) {
    return std::nullopt;
  }
}

rpc_line read_rpc_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  std::optional<nlohmann::json> message = parse_shallow(line);
  if (!message)
    return refused({}, rpc_code::invalid_request,
                   fmt::format("the message has more than {} levels", most_levels));
  if (message->is_object()) return read_object(std::move(*message));
  if (message->is_discarded()) return refused({}, rpc_code::not_json, "the line is not JSON in UTF-8");
  return refused({}, rpc_code::invalid_request,
                 message->is_array() ? "batches are not supported: send each message on a line of its own"
                                     : "a message must be an object");
}

std::string rpc_result(const nlohmann::json& id, nlohmann::json result) {
  return json_text({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}) + "\n";
}

std::string rpc_error(const nlohmann::json& id, int code, const std::string& message) {
  return json_text({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}}) +
         "\n";
}

std::string refusal_of_long_line() {
  return rpc_error({}, rpc_code::invalid_request,
                   fmt::format("a line has at most {} bytes; this one was not read", most_line_bytes));
}

}  // namespace tarn::cli
