// SPDX-License-Identifier: MIT
#include "cli/control/http_client.hpp"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <string_view>
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
  if (text.size() == longest_answer) return 0;  // ends the transfer: it is no answer of a store
  text.append(data, std::min(size * count, longest_answer - text.size()));
  return size * count;
}

struct taken_headers {
  double retry_seconds = 0;
  bool are_whole = false;
};

// Retry-After is a number of any length. libcurl has no figure for one that is too long, but reads those that are a date; and it takes
// headers that are cut off by the end of the connection for a whole answer.
std::size_t take_header(const char* data, std::size_t size, std::size_t count, void* to) {
  constexpr std::string_view name = "retry-after:";
  constexpr double longest = 1e9;
  std::string_view line(data, size * count);
  auto& taken = *static_cast<taken_headers*>(to);
  taken.are_whole = line == "\r\n" || line == "\n";
  if (line.size() <= name.size() || strncasecmp(line.data(), name.data(), name.size()) != 0)
    return size * count;
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t", name.size())));
  double seconds = 0;
  for (; !line.empty() && line.front() >= '0' && line.front() <= '9'; line.remove_prefix(1))
    seconds = std::min(longest, 10 * seconds + (line.front() - '0'));
  taken.retry_seconds = seconds;
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

// Why there is no answer, and what libcurl has to say of it.
std::string lack_of_answer(CURLcode outcome, int status, double seconds, bool is_connected,
                           const char* words) {
  if (outcome == CURLE_WRITE_ERROR)
    return fmt::format(
        "it answers with more than {} bytes, as no store does: see whether the address is that of the store itself",
        longest_answer);
  // libcurl knows more of a connection that came too late.
  if (outcome != CURLE_ABORTED_BY_CALLBACK && (outcome != CURLE_OPERATION_TIMEDOUT || !is_connected))
    return shown(words);
  const char* const what = !is_connected   ? "there was no connection"
                           : status >= 200 ? "it had not ended its answer"
                                           : "it had not answered";
  return fmt::format("{} after {:.1f} s{}", what, seconds,
                     outcome == CURLE_ABORTED_BY_CALLBACK ? ", when the push ended" : "");
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
  taken_headers taken;
  char reason[CURL_ERROR_SIZE] = "";
  curl.reset(handle_);  // keeps the connection
  const auto set = [&](CURLoption option, auto value) { curl.setopt(handle_, option, value); };
  set(CURLOPT_URL, what.url.c_str());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, what.body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(what.body.size()));
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_ACCEPT_ENCODING, "");  // some servers pack the words of a refusal, asked or not
  set(CURLOPT_USERAGENT, "tarn/" TARN_CLI_VERSION);
  if (!authorities_.empty()) set(CURLOPT_CAINFO, authorities_.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(seconds * 1e3));
  set(CURLOPT_WRITEFUNCTION, &take_answer);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer));
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&taken));
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
  long status = 0;
  double seconds_taken = 0, connected = 0;
  const char* form = nullptr;
  curl.getinfo(handle_, CURLINFO_CONTENT_TYPE, &form);
  curl.getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  curl.getinfo(handle_, CURLINFO_TOTAL_TIME, &seconds_taken);
  curl.getinfo(handle_, CURLINFO_PRETRANSFER_TIME, &connected);
  const bool is_page = form != nullptr && std::string_view(form).starts_with("text/html");
  // The words of a refusal may be long or cut off, and a page may be long.
  const bool is_refusal = taken.are_whole && status >= 300;
  if (outcome != CURLE_OK && !is_refusal && (outcome != CURLE_WRITE_ERROR || !is_page))
    return {0, lack_of_answer(outcome, static_cast<int>(status), seconds_taken, connected > 0,
                              *reason != '\0' ? reason : curl.strerror(outcome))};
  if (!taken.are_whole) return {0, "its answer ends within its headers"};
  const char* leads_to = nullptr;
  curl_off_t later = 0;
  curl.getinfo(handle_, CURLINFO_RETRY_AFTER, &later);
  curl.getinfo(handle_, CURLINFO_REDIRECT_URL, &leads_to);
  return {static_cast<int>(status),
          shown(answer),
          std::max(taken.retry_seconds, static_cast<double>(later)),
          shown(leads_to != nullptr ? leads_to : ""),
          answer,
          is_page};
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
