// SPDX-License-Identifier: MIT
#include "cli/control/http_client.hpp"

#include <algorithm>
#include <utility>

#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

#if TARN_HAS_CURL
#include <curl/curl.h>

#include "cli/control/opened_library.hpp"
#endif

namespace tarn::cli {

#if TARN_HAS_CURL

namespace {

constexpr std::size_t longest_answer = 4096;
constexpr std::size_t longest_shown = 200;
constexpr long connect_seconds = 5;

// Those functions that are used.
struct curl_library {
  opened_library opened{"libcurl",
                        "7.66",
                        {"libcurl.so.4", "libcurl-gnutls.so.4"},
                        "--push needs the library libcurl, which is not installed",
                        "Debian 12: apt install libcurl4; Debian 13, Ubuntu 24.04: libcurl4t64."};
  decltype(&curl_global_init) global_init = opened["curl_global_init"];
  decltype(&curl_easy_init) init = opened["curl_easy_init"];
  decltype(&curl_easy_reset) reset = opened["curl_easy_reset"];
  decltype(&curl_easy_setopt) setopt = opened["curl_easy_setopt"];
  decltype(&curl_easy_perform) perform = opened["curl_easy_perform"];
  decltype(&curl_easy_getinfo) getinfo = opened["curl_easy_getinfo"];
  decltype(&curl_easy_strerror) strerror = opened["curl_easy_strerror"];
  decltype(&curl_easy_cleanup) cleanup = opened["curl_easy_cleanup"];
  decltype(&curl_slist_append) append = opened["curl_slist_append"];
  decltype(&curl_slist_free_all) free_all = opened["curl_slist_free_all"];

  static const curl_library& get() {
    static const curl_library loaded;
    return loaded;
  }
};

std::size_t take_answer(const char* data, std::size_t size, std::size_t count, void* to) {
  auto& text = *static_cast<std::string*>(to);
  text.append(data, std::min(size * count, longest_answer - text.size()));
  return size * count;
}

int is_given_up(void* is_over, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up*/,
                curl_off_t /*sent*/) {
  return static_cast<const std::atomic<bool>*>(is_over)->load(std::memory_order_relaxed) ? 1 : 0;
}

// The words that explain a refusal, on one line.
std::string shown(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() > longest_shown) text = text.substr(0, longest_shown) + "…";
  return profiler::printable(text);
}

class header_list {
 public:
  ~header_list() { curl_library::get().free_all(list_); }
  header_list() = default;
  header_list(const header_list&) = delete;
  header_list& operator=(const header_list&) = delete;

  void add(const std::string& line) {
    curl_slist* const longer = curl_library::get().append(list_, line.c_str());
    if (longer != nullptr) list_ = longer;
  }
  [[nodiscard]] curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

}  // namespace

http_client::http_client(std::string authorities) : authorities_(std::move(authorities)) {
  const curl_library& curl = curl_library::get();
  if (curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) handle_ = curl.init();
  if (handle_ == nullptr) throw cli_error(exit_code::refused, "libcurl does not start", "Try again.");
}

http_client::~http_client() {
  if (handle_ != nullptr) curl_library::get().cleanup(handle_);
}

http_reply http_client::post(const http_post& what, double seconds, const std::atomic<bool>& is_over) {
  const curl_library& curl = curl_library::get();
  header_list headers;
  headers.add("Content-Type: " + what.type);
  if (what.is_packed) headers.add("Content-Encoding: gzip");
  headers.add("Expect:");  // the body follows without a question
  for (const std::string& each : what.headers) headers.add(each);
  std::string answer;
  char reason[CURL_ERROR_SIZE] = "";
  curl.reset(handle_);  // keeps the connection
  const auto set = [&](CURLoption option, auto value) { curl.setopt(handle_, option, value); };
  set(CURLOPT_URL, what.url.c_str());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, what.body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(what.body.size()));
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_USERAGENT, "tarn/" TARN_CLI_VERSION);
  if (!authorities_.empty()) set(CURLOPT_CAINFO, authorities_.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(seconds * 1e3));
  set(CURLOPT_WRITEFUNCTION, &take_answer);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &is_given_up);
  set(CURLOPT_XFERINFODATA, const_cast<void*>(static_cast<const void*>(&is_over)));
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(reason));
#if LIBCURL_VERSION_NUM >= 0x075700
  set(CURLOPT_QUICK_EXIT,
      1L);  // the end does not wait for names that are being looked up; older libraries do
#endif
  const CURLcode outcome = curl.perform(handle_);
  // The buffers end with this call.
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (outcome != CURLE_OK) return {0, shown(*reason != '\0' ? reason : curl.strerror(outcome)), 0};
  long status = 0;
  curl_off_t later = 0;
  curl.getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  curl.getinfo(handle_, CURLINFO_RETRY_AFTER, &later);
  return {static_cast<int>(status), shown(answer), static_cast<double>(later)};
}

#else

http_client::http_client(std::string authorities) : authorities_(std::move(authorities)) {
  throw cli_error(exit_code::refused, "this tarn was built without libcurl, and has no --push",
                  "Build it where libcurl4-openssl-dev is installed.");
}
http_client::~http_client() = default;
http_reply http_client::post(const http_post& /*what*/, double /*seconds*/,
                             const std::atomic<bool>& /*is_over*/) {
  return {};
}

#endif

}  // namespace tarn::cli
