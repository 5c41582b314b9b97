// SPDX-License-Identifier: MIT
// debug_files: finds the debugging information of a stripped file, or a file that is not there any more, by its build-id: beside the
// file, in directories for such files, or on a debuginfod server, if DEBUGINFOD_URLS names one and the system has libdebuginfod.so.1 (elfutils). That
// library is loaded on demand, and caches what it fetches. A server that delivers nothing for some seconds is not
// asked again, so that symbol lookup always ends.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::profiler {

struct symbol_settings {
  // Directories searched before /usr/lib/debug, with the same layout.
  std::vector<std::string> debug_paths;
  bool ask_servers = true;
  // Called with a description of the download in progress; empty: there is none any more.
  std::function<void(const std::string&)> progress;
};

class debug_files {
 public:
  explicit debug_files(symbol_settings settings);
  ~debug_files();
  debug_files(const debug_files&) = delete;
  debug_files& operator=(const debug_files&) = delete;

  // Files that may contain the information for `path`, best first; they need not exist. `link`: the name in its
  // .gnu_debuglink, or null.
  std::vector<std::string> candidates(const std::string& path, std::string_view build_id,
                                      const char* link) const;
  // Fetches the information from a server and returns the path of the local copy; empty: no server has it.
  std::string fetched(const std::string& path, const std::string& build_id);

  // The same of the file itself, where another one lies at `path`, or none.
  std::vector<std::string> file_candidates(std::string_view build_id) const;
  std::string fetched_file(const std::string& path, const std::string& build_id);
  // Why nothing was fetched although a server is configured, as a sentence; empty: nothing went wrong.
  const std::string& problem() const noexcept { return problem_; }

 private:
  class server;

  enum class part : std::uint8_t { information, file };

  std::vector<std::string> folders() const;
  std::string fetch(const std::string& path, const std::string& build_id, part what);
  bool open_server();

  symbol_settings settings_;
  std::unique_ptr<server> server_;
  bool server_looked_for_ = false;
  std::string problem_;
};

}  // namespace tarn::profiler
