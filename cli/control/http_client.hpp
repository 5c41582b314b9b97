// SPDX-License-Identifier: MIT
// http_client: sends POST requests over HTTP and HTTPS, by the library libcurl, which is loaded when a client is made: the
// rest of the command does not need it. Proxies are those of curl's variables (https_proxy, no_proxy). Redirections are not
// followed. An answer is taken within `seconds`, and its first 4 KiB are looked at.
// Thread safety: the constructor before there are other threads; each client for one thread.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace tarn::cli {

struct http_post {
  std::string url;
  std::string type;                       // Content-Type
  bool is_packed = false;                 // the body, by gzip
  std::vector<std::string> headers = {};  // "Name: value"
  std::string body;
};

struct http_reply {
  int status = 0;             // 0: there was none
  std::string problem = {};   // why; or what the answer says; printable
  double later_seconds = 0;   // Retry-After
  std::string leads_to = {};  // of a redirection: the address; printable
  std::string body = {};      // its first 4 KiB
  bool is_page = false;       // for people (text/html), as of a server that answers any address
};

class http_client {
 public:
  // `authorities`: a file with the certificates that are trusted; empty: those of the system. Throws cli_error (refused).
  explicit http_client(std::string authorities);
  ~http_client();
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;

  // Gives up within about a second once `is_over`.
  http_reply post(const http_post& what, double seconds, const std::atomic<bool>& is_over);

 private:
  std::string authorities_;
  void* handle_ = nullptr;
};

}  // namespace tarn::cli
