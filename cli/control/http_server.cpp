// SPDX-License-Identifier: MIT
#include "cli/control/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <exception>

#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

#if TARN_HAS_MICROHTTPD
#include <microhttpd.h>

#include "cli/control/opened_library.hpp"
#endif

namespace tarn::cli {

namespace {

cli_error bad_address(const std::string& text) {
  return {exit_code::usage, fmt::format("--listen {}: this is not an address and a port", text),
          "Give 127.0.0.1:PORT; [::1]:PORT; or 0.0.0.0:PORT to be reached from other machines."};
}

struct socket_address {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof(sockaddr_in);
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
    out.bytes = sizeof(sockaddr_in6);
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

bool is_own_host(const std::string& header, const std::vector<std::string>& names) {
  std::string host = header;
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") return true;
  in6_addr room = {};
  if (inet_pton(AF_INET, host.c_str(), &room) == 1 || inet_pton(AF_INET6, host.c_str(), &room) == 1)
    return true;
  return std::any_of(names.begin(), names.end(), [&host](const std::string& name) {
    return strcasecmp(name.c_str(), host.c_str()) == 0;
  });
}

#if TARN_HAS_MICROHTTPD

namespace {

// The library's own bound is above ours, so that it takes the connection for which another one is ended.
constexpr unsigned most_connections = 2 * http_guests::most;
constexpr std::size_t memory_of_connection = 16 << 10;
constexpr unsigned idle_seconds = 10;

// Those functions that are used.
struct library {
  opened_library opened{
      "libmicrohttpd",
      "0.9.44",
      {"libmicrohttpd.so.12"},
      "tarn serve needs the library libmicrohttpd, which is not installed",
      "Debian 12: apt install libmicrohttpd12; Debian 13, Ubuntu 24.04: libmicrohttpd12t64."};
  decltype(&MHD_start_daemon) start_daemon = opened["MHD_start_daemon"];
  decltype(&MHD_stop_daemon) stop_daemon = opened["MHD_stop_daemon"];
  decltype(&MHD_create_response_from_buffer) create_response = opened["MHD_create_response_from_buffer"];
  decltype(&MHD_add_response_header) add_header = opened["MHD_add_response_header"];
  decltype(&MHD_queue_response) queue_response = opened["MHD_queue_response"];
  decltype(&MHD_destroy_response) destroy_response = opened["MHD_destroy_response"];
  decltype(&MHD_lookup_connection_value) lookup_value = opened["MHD_lookup_connection_value"];
  decltype(&MHD_set_connection_option) set_connection_option = opened["MHD_set_connection_option"];
  decltype(&MHD_get_connection_info) get_connection_info = opened["MHD_get_connection_info"];

  static const library& get() {
    static const library loaded;
    return loaded;
  }
};

std::string advice_for(int error, const listen_address& where) {
  if (error == EADDRINUSE)
    return fmt::format("Give a port that no other program has: --listen {} lets the system choose.",
                       listen_address{where.host, 0}.text());
  if (error == EACCES)
    return "Without root's rights, give a port of 1024 or more: --listen " +
           listen_address{where.host, 9464}.text();
  const bool is_foreign = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
  return is_foreign ? "This machine has no such address. Give one of its own, or 0.0.0.0 for all of them."
                    : "";
}

// A socket of our own: the library does not always leave its error in errno. Throws cli_error.
int listening_socket(const listen_address& where) {
  const socket_address address = address_of(where);
  const auto* const named = reinterpret_cast<const sockaddr*>(&address.storage);
  const int yes = 1;
  const int made = socket(named->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      (named->sa_family != AF_INET6 || setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) == 0) &&
      bind(made, named, address.bytes) == 0 && listen(made, SOMAXCONN) == 0)
    return made;
  const int error = errno;
  close(made);
  throw cli_error(exit_code::refused,
                  fmt::format("--listen {}: cannot listen there: {}", where.text(), std::strerror(error)),
                  advice_for(error, where));
}

// The one that the system has chosen, if port 0 was asked for.
std::uint16_t port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

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

int descriptor_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* const info =
      library::get().get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info != nullptr ? static_cast<int>(info->connect_fd) : -1;
}

// Without its port.
std::string address_of_client(MHD_Connection* connection) {
  const MHD_ConnectionInfo* const info =
      library::get().get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return "";
  char text[INET6_ADDRSTRLEN] = "";
  const sockaddr* const address = info->client_addr;
  const void* const part =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  const char* const shown = inet_ntop(address->sa_family, part, text, sizeof text);
  return shown != nullptr ? shown : "";
}

// Requests that a page of another site makes a browser send, except one that shows the page here.
bool is_of_another_site(MHD_Connection* connection, const char* url) {
  const std::string site = header(connection, "Sec-Fetch-Site");
  const bool is_other = !site.empty() && site != "same-origin" && site != "none";
  const std::string origin = header(connection, "Origin");
  const bool has_origin = !origin.empty() && !origin.ends_with("://" + header(connection, "Host"));
  return (is_other && std::strcmp(url, "/") != 0) || has_origin;
}

}  // namespace

struct http_server::connection {
  // Called once with a request's head, then for each part of its body, and at last without one: for POST, the answer
  // comes then.
  static MHD_Result answer(void* server, MHD_Connection* connection, const char* url, const char* method,
                           const char* /*version*/, const char* /*upload*/, std::size_t* upload_bytes,
                           void** state) {
    auto& self = *static_cast<http_server*>(server);
    const bool has_body = *upload_bytes != 0;
    *upload_bytes = 0;
    const bool is_question = std::strcmp(method, "POST") == 0 && self.takes_posts_.contains(url);
    if (!is_question && std::strcmp(method, "GET") != 0 && std::strcmp(method, "HEAD") != 0)
      return queue(connection, {405, "text/plain; charset=utf-8", "only GET\n"});
    if (is_question && (*state == nullptr || has_body)) {
      *state = server;
      return MHD_YES;
    }
    if (!is_own_host(header(connection, "Host"), self.host_names_) || is_of_another_site(connection, url)) {
      return queue(connection, {403, "text/plain; charset=utf-8",
                                "this server has another name; see tarn serve --help, --host-name\n"});
    }
    http_request request;
    request.path = url;
    for (const char* const name : {"pid", "seconds", "gc"}) {
      const char* const value = library::get().lookup_value(connection, MHD_GET_ARGUMENT_KIND, name);
      if (value != nullptr) request.parameters[name] = value;
    }
    request.accepts_openmetrics = header(connection, "Accept").find("openmetrics") != std::string::npos;
    const int number = descriptor_of(connection);
    self.at_guests([number](http_guests& guests) { guests.asked(number); });
    const http_answer answer = self.answer_or_error(request);
    restart_idle_time(connection);
    self.at_guests([number](http_guests& guests) { guests.answered(number, monotonic_seconds()); });
    return queue(connection, answer);
  }

  // The library closes the descriptor after this call.
  static void come_or_go(void* server, MHD_Connection* connection, void** /*context*/,
                         MHD_ConnectionNotificationCode what) {
    auto& self = *static_cast<http_server*>(server);
    const int number = descriptor_of(connection);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED)
      return self.at_guests([number](http_guests& guests) { guests.left(number); });
    const std::string address = address_of_client(connection);
    self.end_guests([&](http_guests& guests) { return guests.came(number, address, monotonic_seconds()); });
  }

  static void is_done(void* server, MHD_Connection* connection, void** /*state*/,
                      MHD_RequestTerminationCode /*how*/) {
    const int number = descriptor_of(connection);
    static_cast<http_server*>(server)->at_guests(
        [number](http_guests& guests) { guests.waits(number, monotonic_seconds()); });
  }
};

http_answer http_server::answer_or_error(const http_request& request) const {
  constexpr const char* text = "text/plain; charset=utf-8";
  try {
    return answer_(request);
  } catch (const cli_error& error) {
    return {503, text,
            fmt::format("{}\n{}\n", profiler::printable(error.what()), profiler::printable(error.advice()))};
  } catch (const std::exception& error) {
    return {503, text, fmt::format("{}\n", profiler::printable(error.what()))};
  }
}

void http_server::at_guests(const std::function<void(http_guests&)>& work) {
  const std::lock_guard turn(guests_lock_);
  work(guests_);
}

// Under the lock, without which the library could close the descriptor meanwhile, and another file get its number.
void http_server::end_guests(const std::function<std::vector<int>(http_guests&)>& work) {
  const std::lock_guard turn(guests_lock_);
  for (const int each : work(guests_)) shutdown(each, SHUT_RDWR);
}

void http_server::end_late() {
  end_guests([](http_guests& guests) { return guests.late(monotonic_seconds()); });
}

http_server::http_server(const listen_address& where, std::vector<std::string> host_names,
                         std::set<std::string> takes_posts, handler answer)
    : where_(where),
      host_names_(std::move(host_names)),
      takes_posts_(std::move(takes_posts)),
      answer_(std::move(answer)) {
  char name[HOST_NAME_MAX + 1] = "";
  if (gethostname(name, sizeof name - 1) == 0) host_names_.emplace_back(name);
  const library& mhd = library::get();
  const int listening = listening_socket(where);  // the library closes it
  where_.port = port_of(listening);
  const unsigned flags = static_cast<unsigned>(MHD_USE_THREAD_PER_CONNECTION) |
                         static_cast<unsigned>(MHD_USE_INTERNAL_POLLING_THREAD) |
                         static_cast<unsigned>(MHD_USE_POLL);
  daemon_ = mhd.start_daemon(
      flags, where_.port, nullptr, nullptr, connection::answer, this, MHD_OPTION_LISTEN_SOCKET, listening,
      MHD_OPTION_CONNECTION_LIMIT, most_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_of_connection,
      MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds, MHD_OPTION_NOTIFY_CONNECTION, connection::come_or_go, this,
      MHD_OPTION_NOTIFY_COMPLETED, connection::is_done, this, MHD_OPTION_END);
  if (daemon_ == nullptr) throw cli_error(exit_code::refused, "libmicrohttpd starts no server", "Try again.");
}

http_server::~http_server() {
  if (daemon_ != nullptr) library::get().stop_daemon(static_cast<MHD_Daemon*>(daemon_));
}

#else

void http_server::end_late() {}

http_server::http_server(const listen_address& where, std::vector<std::string> host_names,
                         std::set<std::string> takes_posts, handler answer)
    : where_(where),
      host_names_(std::move(host_names)),
      takes_posts_(std::move(takes_posts)),
      answer_(std::move(answer)) {
  throw cli_error(
      exit_code::refused, "this tarn was built without libmicrohttpd, and has no 'tarn serve'",
      "Build it where libmicrohttpd-dev is installed. Without it: tarn control --metrics PID, in a loop.");
}
http_server::~http_server() = default;

#endif

}  // namespace tarn::cli
