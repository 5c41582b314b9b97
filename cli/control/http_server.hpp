// SPDX-License-Identifier: MIT
// http_server: answers GET and HEAD requests, and POST at some paths, over HTTP, by the library libmicrohttpd, which is
// loaded when a server is made: the rest of the command does not need it. Bounds: 32 connections, 16 KiB for a request's
// head; bodies are not kept; ten seconds without progress.
// Thread safety: the constructor and destructor in one thread; requests are answered in threads of the library.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

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

class http_server {
 public:
  using handler = std::function<http_answer(const http_request&)>;

  // Throws cli_error (refused). `answer` may be called by several threads, and take its time; what it throws
  // becomes an answer with status 503. At the paths `takes_posts` POST is answered as GET, and the body dropped. On
  // a loopback address, requests that name another host than this one are refused: a page in a browser could otherwise
  // read the answers by a name that leads here.
  http_server(const listen_address& where, std::set<std::string> takes_posts, handler answer);
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  // Where it listens: the port that the system has chosen, if port 0 was asked for.
  const listen_address& where() const { return where_; }

 private:
  struct connection;

  listen_address where_;
  std::set<std::string> takes_posts_;
  handler answer_;
  void* daemon_ = nullptr;
};

}  // namespace tarn::cli
