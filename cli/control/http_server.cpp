// SPDX-License-Identifier: MIT
#include "cli/control/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>

#include "cli/show/cli_error.hpp"

#if TARN_HAS_MICROHTTPD
#include <dlfcn.h>
#include <microhttpd.h>
#endif

namespace tarn::cli {

namespace {

cli_error bad_address(const std::string& text) {
  return {exit_code::usage, fmt::format("--listen {}: this is not an address and a port", text),
          "Give 127.0.0.1:PORT; [::1]:PORT; or 0.0.0.0:PORT to be reached from other machines."};
}

struct socket_address {
  sockaddr_storage storage = {};
  bool is_version_6 = false;
};

socket_address address_of(const listen_address& where) {
  socket_address out;
  auto* const four = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, where.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(where.port);
  } else if (inet_pton(AF_INET6, where.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(where.port);
    out.is_version_6 = true;
  } else {
    throw bad_address(where.text());
  }
  return out;
}

}  // namespace

bool listen_address::is_loopback() const { return host.starts_with("127.") || host == "::1"; }

std::string listen_address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

listen_address parse_listen_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw bad_address(text);
  listen_address out;
  out.host = text.substr(0, colon);
  if (out.host == "localhost") out.host = "127.0.0.1";
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (problem != std::errc() || stop != end) throw bad_address(text);
  address_of(out);
  return out;
}

#if TARN_HAS_MICROHTTPD

namespace {

constexpr unsigned most_connections = 32;
constexpr std::size_t memory_of_connection = 16 << 10;
constexpr unsigned idle_seconds = 10;

// The functions of libmicrohttpd that are used.
struct library {
  decltype(&MHD_start_daemon) start_daemon;
  decltype(&MHD_stop_daemon) stop_daemon;
  decltype(&MHD_get_daemon_info) get_daemon_info;
  decltype(&MHD_create_response_from_buffer) create_response;
  decltype(&MHD_add_response_header) add_header;
  decltype(&MHD_queue_response) queue_response;
  decltype(&MHD_destroy_response) destroy_response;
  decltype(&MHD_lookup_connection_value) lookup_value;
  decltype(&MHD_set_connection_option) set_connection_option;

  static const library& get() {
    static const library loaded;
    return loaded;
  }

 private:
  library() {
    void* const handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      throw cli_error(exit_code::refused,
                      "tarn serve needs the library libmicrohttpd, which is not installed",
                      "Debian, Ubuntu: apt install libmicrohttpd12 (libmicrohttpd12t64).");
    find(handle, "MHD_start_daemon", start_daemon);
    find(handle, "MHD_stop_daemon", stop_daemon);
    find(handle, "MHD_get_daemon_info", get_daemon_info);
    find(handle, "MHD_create_response_from_buffer", create_response);
    find(handle, "MHD_add_response_header", add_header);
    find(handle, "MHD_queue_response", queue_response);
    find(handle, "MHD_destroy_response", destroy_response);
    find(handle, "MHD_lookup_connection_value", lookup_value);
    find(handle, "MHD_set_connection_option", set_connection_option);
  }
  template <class Function>
  static void find(void* handle, const char* name, Function& to) {
    to = reinterpret_cast<Function>(dlsym(handle, name));
    if (to == nullptr)
      throw cli_error(exit_code::refused, fmt::format("libmicrohttpd has no {}", name),
                      "Install version 0.9.44 or newer.");
  }
};

// The time that an answer took was none without progress: a limit that follows none counts from now on.
void restart_idle_time(MHD_Connection* connection) {
  const library& mhd = library::get();
  for (const unsigned seconds : {0U, idle_seconds})
    mhd.set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

MHD_Result queue(MHD_Connection* connection, const http_answer& answer) {
  const library& mhd = library::get();
  MHD_Response* const response =
      mhd.create_response(answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  mhd.add_header(response, "Content-Type", answer.type.c_str());
  mhd.add_header(response, "Cache-Control", "no-store");
  mhd.add_header(response, "X-Content-Type-Options", "nosniff");
  mhd.add_header(
      response, "Content-Security-Policy",
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'");
  const MHD_Result result = mhd.queue_response(connection, static_cast<unsigned>(answer.status), response);
  mhd.destroy_response(response);
  return result;
}

std::string header(MHD_Connection* connection, const char* name) {
  const char* const value = library::get().lookup_value(connection, MHD_HEADER_KIND, name);
  return value != nullptr ? value : "";
}

// The header Host without its port.
std::string host_asked(MHD_Connection* connection) {
  std::string host = header(connection, "Host");
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

struct http_server::connection {
  // Called once with a request's head, then for each part of its body, and at last without one: for POST, the answer
  // comes then.
  static MHD_Result answer(void* server, MHD_Connection* connection, const char* url, const char* method,
                           const char* /*version*/, const char* /*upload*/, std::size_t* upload_bytes,
                           void** state) {
    const auto& self = *static_cast<const http_server*>(server);
    const bool has_body = *upload_bytes != 0;
    *upload_bytes = 0;
    const bool is_question = std::strcmp(method, "POST") == 0 && self.takes_posts_.contains(url);
    if (!is_question && std::strcmp(method, "GET") != 0 && std::strcmp(method, "HEAD") != 0)
      return queue(connection, {405, "text/plain; charset=utf-8", "only GET\n"});
    if (is_question && (*state == nullptr || has_body)) {
      *state = server;
      return MHD_YES;
    }
    const std::string host = host_asked(connection);
    if (self.where_.is_loopback() && host != "localhost" && host != self.where_.host && !host.empty())
      return queue(connection, {403, "text/plain; charset=utf-8", "this server is localhost\n"});
    http_request request;
    request.path = url;
    for (const char* const name : {"pid", "seconds", "gc"}) {
      const char* const value = library::get().lookup_value(connection, MHD_GET_ARGUMENT_KIND, name);
      if (value != nullptr) request.parameters[name] = value;
    }
    request.accepts_openmetrics = header(connection, "Accept").find("openmetrics") != std::string::npos;
    try {
      const http_answer answer = self.answer_(request);
      restart_idle_time(connection);
      return queue(connection, answer);
    } catch (const cli_error& error) {
      return queue(connection,
                   {503, "text/plain; charset=utf-8", fmt::format("{}\n{}\n", error.what(), error.advice())});
    } catch (const std::exception& error) {
      return queue(connection, {503, "text/plain; charset=utf-8", fmt::format("{}\n", error.what())});
    }
  }
};

http_server::http_server(const listen_address& where, std::set<std::string> takes_posts, handler answer)
    : where_(where), takes_posts_(std::move(takes_posts)), answer_(std::move(answer)) {
  socket_address address = address_of(where);
  unsigned flags = static_cast<unsigned>(MHD_USE_THREAD_PER_CONNECTION) |
                   static_cast<unsigned>(MHD_USE_INTERNAL_POLLING_THREAD) |
                   static_cast<unsigned>(MHD_USE_POLL);
  if (address.is_version_6) flags |= static_cast<unsigned>(MHD_USE_IPv6);
  const library& mhd = library::get();
  errno = 0;
  MHD_Daemon* const daemon = mhd.start_daemon(
      flags, where.port, nullptr, nullptr, connection::answer, this, MHD_OPTION_SOCK_ADDR, &address.storage,
      MHD_OPTION_CONNECTION_LIMIT, most_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_of_connection,
      MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds, MHD_OPTION_END);
  if (daemon == nullptr) {
    throw cli_error(exit_code::refused,
                    fmt::format("--listen {}: cannot listen there: {}", where.text(),
                                errno != 0 ? std::strerror(errno) : "the library refuses"),
                    "Give a port that no other program has: --listen 127.0.0.1:0 lets the system choose.");
  }
  daemon_ = daemon;
  const MHD_DaemonInfo* const info = mhd.get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
  if (info != nullptr && info->port != 0) where_.port = info->port;
}

http_server::~http_server() {
  if (daemon_ != nullptr) library::get().stop_daemon(static_cast<MHD_Daemon*>(daemon_));
}

#else

http_server::http_server(const listen_address& where, std::set<std::string> takes_posts, handler answer)
    : where_(where), takes_posts_(std::move(takes_posts)), answer_(std::move(answer)) {
  throw cli_error(exit_code::refused, "this tarn was built without libmicrohttpd, and has no 'tarn serve'",
                  "Build it where libmicrohttpd-dev is installed. Without it: tarn metrics PID, in a loop.");
}
http_server::~http_server() = default;

#endif

}  // namespace tarn::cli
