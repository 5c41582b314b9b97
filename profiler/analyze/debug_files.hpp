// SPDX-License-Identifier: MIT
// debug_files: where the debugging information of a stripped file lies: beside it, in folders for such files, or on a
// debuginfod server, if DEBUGINFOD_URLS names one and the system has libdebuginfod.so.1 (of elfutils). That library is loaded
// when it is needed; it keeps what it fetches in its own cache. A server that gives nothing for some seconds is asked for nothing
// more: no name is worth waiting for without an end.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::profiler {

struct symbol_settings {
  // Folders that are looked into before /usr/lib/debug, laid out as it is.
  std::vector<std::string> debug_paths;
  bool ask_servers = true;
  // What is being waited for, for a line of progress; empty: nothing any more.
  std::function<void(const std::string&)> progress;
};

class debug_files {
 public:
  explicit debug_files(symbol_settings settings);
  ~debug_files();
  debug_files(const debug_files&) = delete;
  debug_files& operator=(const debug_files&) = delete;

  // Files that may have the information for `path`, best first. `link`: the name in its .gnu_debuglink, or null. They need
  // not be there.
  std::vector<std::string> candidates(const std::string& path, std::string_view build_id,
                                      const char* link) const;
  // What a server has, as a file of this system; empty: there is none.
  std::string fetched(const std::string& path, const std::string& build_id);
  // Why nothing was fetched although a server is named, as a sentence; empty: there is no reason.
  const std::string& problem() const noexcept { return problem_; }

 private:
  class server;

  bool open_server();

  symbol_settings settings_;
  std::unique_ptr<server> server_;
  bool server_looked_for_ = false;
  std::string problem_;
};

}  // namespace tarn::profiler
