// SPDX-License-Identifier: MIT
// http_server: answers GET and HEAD requests, and POST at some paths, over HTTP, by the library libmicrohttpd, which is
// loaded when a server is made: the rest of the command does not need it. Bounds: 32 connections, 16 of one address
// (http_guests.hpp says which one is ended for the next); 16 KiB for a request's head; bodies are not kept; ten seconds
// for a whole request, a minute for taking its answer.
// Thread safety: the constructor and destructor in one thread; requests are answered in threads of the library.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cli/control/http_guests.hpp"

namespace tarn::cli {

struct http_request {
  std::string path;
  std::map<std::string, std::string> parameters;  // those that http_server asks for: "pid", "seconds", "gc"
  bool accepts_openmetrics = false;               // the header Accept names it
};

struct http_answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct listen_address {
  std::string host;  // a numeric address
  std::uint16_t port = 0;

  bool is_loopback() const;
  std::string text() const;  // "127.0.0.1:9464"
};

// "127.0.0.1:9464", "[::1]:9464", "localhost:9464". Throws cli_error (usage).
listen_address parse_listen_address(const std::string& text);

// Whether a request with this header Host may be answered. A page in a browser can be led here by a name of its own site
// (DNS rebinding), so names other than localhost and `names` are refused; addresses, and a request without the header, are
// not: such a request is no page's of another site.
bool is_own_host(const std::string& header, const std::vector<std::string>& names);

class http_server {
 public:
  using handler = std::function<http_answer(const http_request&)>;

  // Throws cli_error (refused). `answer` may be called by several threads, and take its time; what it throws
  // becomes an answer with status 503. At the paths `takes_posts` POST is answered as GET, and the body dropped.
  // Requests for another host than `host_names` and this machine's are refused (is_own_host), and those that a page of
  // another site makes a browser send.
  http_server(const listen_address& where, std::vector<std::string> host_names,
              std::set<std::string> takes_posts, handler answer);
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  // Where it listens: the port that the system has chosen, if port 0 was asked for.
  const listen_address& where() const { return where_; }

  // Ends connections whose time is over; to be called each second.
  void end_late();

 private:
  struct connection;

  http_answer answer_or_error(const http_request& request) const;
  void at_guests(const std::function<void(http_guests&)>& work);
  void end_guests(const std::function<std::vector<int>(http_guests&)>& work);

  listen_address where_;
  std::vector<std::string> host_names_;
  std::set<std::string> takes_posts_;
  handler answer_;
  void* daemon_ = nullptr;
  std::mutex guests_lock_;
  http_guests guests_;  // guarded by guests_lock_
};

}  // namespace tarn::cli
