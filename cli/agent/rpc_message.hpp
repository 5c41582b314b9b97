// SPDX-License-Identifier: MIT
// rpc_message: the messages of JSON-RPC 2.0 as the Model Context Protocol has them, one per line: reading what a client has
// sent, which may be anything, and writing the answers. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tarn::cli {

struct rpc_code {
  static constexpr int not_json = -32700;
  static constexpr int invalid_request = -32600;
  static constexpr int unknown_method = -32601;
  static constexpr int invalid_parameters = -32602;
  static constexpr int busy = -32000;
};

// A longer line is not kept while it is read.
inline constexpr std::size_t most_line_bytes = std::size_t{1} << 20;

// For what others have written: writing and copying a value recurses as deep as it is nested. None: it is nested too deeply; a
// discarded value: it is not JSON.
std::optional<nlohmann::json> parse_shallow(std::string_view text);

struct rpc_request {
  nlohmann::json id;  // a text or a whole number; null: a notification, which gets no answer
  std::string method;
  nlohmann::json parameters;  // an object
};

// At most one of both: an answer to a request of this process, which makes none, is neither.
struct rpc_line {
  std::optional<rpc_request> request;
  std::string refusal;  // the answer to what is no request
};

rpc_line read_rpc_line(std::string_view line);

// A line each, with its end.
std::string rpc_result(const nlohmann::json& id, nlohmann::json result);
std::string rpc_error(const nlohmann::json& id, int code, const std::string& message);
std::string refusal_of_long_line();

}  // namespace tarn::cli
