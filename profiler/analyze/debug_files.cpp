// SPDX-License-Identifier: MIT
#include "profiler/analyze/debug_files.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tarn::profiler {

struct debuginfod_client;  // the library's

namespace {

constexpr const char* system_folder = "/usr/lib/debug";
constexpr long usual_wait_seconds = 10;
constexpr const char* urls_variable = "DEBUGINFOD_URLS";
constexpr const char* wait_variable = "DEBUGINFOD_TIMEOUT";

template <class function>
bool find_function(void* library, const char* name, function& out) {
  out = reinterpret_cast<function>(dlsym(library, name));
  return out != nullptr;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The seconds from the library's own environment variable; 0 and anything but a number mean the default.
long wait_seconds() {
  const char* text = std::getenv(wait_variable);
  const long seconds = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  return seconds > 0 ? seconds : usual_wait_seconds;
}

}  // namespace

// libdebuginfod.so.1, whose interface has been the same since elfutils 0.179.
class debug_files::server {
 public:
  static std::unique_ptr<server> open(const symbol_settings& settings) {
    void* library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    std::unique_ptr<server> made(new server(settings));
    debuginfod_client* (*begin)() = nullptr;
    void (*set_progress)(debuginfod_client*, int (*)(debuginfod_client*, long, long)) = nullptr;
    if (!find_function(library, "debuginfod_begin", begin) ||
        !find_function(library, "debuginfod_set_progressfn", set_progress) ||
        !find_function(library, "debuginfod_set_user_data", made->set_user_data_) ||
        !find_function(library, "debuginfod_find_debuginfo", made->find_) ||
        !find_function(library, "debuginfod_find_executable", made->find_file_) ||
        !find_function(library, "debuginfod_end", made->end_) ||
        !find_function(library, "debuginfod_get_user_data", get_user_data)) {
      return nullptr;
    }
    made->client_ = begin();
    if (made->client_ == nullptr) return nullptr;
    made->set_user_data_(made->client_, made.get());
    set_progress(made->client_, on_progress);
    return made;
  }
  ~server() {
    if (client_ != nullptr) end_(client_);
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  std::string fetch(const std::string& name, const std::string& build_id, part what) {
    name_ = name;
    received_ = 0;
    last_change_ = seconds_now();
    char* path = nullptr;
    const auto find = what == part::file ? find_file_ : find_;
    const int file = find(client_, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &path);
    if (file >= 0) close(file);
    if (file == -ETIME) gave_up_ = true;  // newer libraries look at the same variable, and may be first
    std::string found = file >= 0 && path != nullptr ? path : "";
    std::free(path);
    return found;
  }
  bool gave_up() const noexcept { return gave_up_; }

 private:
  explicit server(const symbol_settings& settings) : settings_(settings) {}

  // Called by the library several times a second during a download; a non-zero result gives up.
  static int on_progress(debuginfod_client* client, long received, long) {
    auto& self = *static_cast<server*>(get_user_data(client));
    const double now = seconds_now();
    if (received > self.received_) {
      self.received_ = received;
      self.last_change_ = now;
    }
    if (self.settings_.progress) {
      self.settings_.progress("debuginfod: " + self.name_ + ", " + std::to_string(self.received_ >> 20) +
                              " MiB");
    }
    self.gave_up_ = now - self.last_change_ > static_cast<double>(wait_seconds());
    return self.gave_up_ ? 1 : 0;
  }

  static inline void* (*get_user_data)(debuginfod_client*) = nullptr;
  const symbol_settings& settings_;
  debuginfod_client* client_ = nullptr;
  void (*set_user_data_)(debuginfod_client*, void*) = nullptr;
  int (*find_)(debuginfod_client*, const unsigned char*, int, char**) = nullptr;
  int (*find_file_)(debuginfod_client*, const unsigned char*, int, char**) = nullptr;
  void (*end_)(debuginfod_client*) = nullptr;
  std::string name_;
  long received_ = 0;
  double last_change_ = 0;
  bool gave_up_ = false;
};

debug_files::debug_files(symbol_settings settings) : settings_(std::move(settings)) {}

debug_files::~debug_files() = default;

std::vector<std::string> debug_files::folders() const {
  std::vector<std::string> all = settings_.debug_paths;
  all.emplace_back(system_folder);
  return all;
}

std::vector<std::string> debug_files::file_candidates(std::string_view build_id) const {
  std::vector<std::string> found;
  if (build_id.size() <= 2) return found;
  for (const std::string& folder : folders())
    found.push_back(folder + "/.build-id/" + std::string(build_id.substr(0, 2)) + "/" +
                    std::string(build_id.substr(2)));
  return found;
}

std::vector<std::string> debug_files::candidates(const std::string& path, std::string_view build_id,
                                                 const char* link) const {
  std::vector<std::string> found = file_candidates(build_id);
  for (std::string& each : found) each += ".debug";
  if (link != nullptr && std::strchr(link, '/') == nullptr) {
    const std::string folder = folder_of(path);
    found.push_back(folder + "/" + link);
    found.push_back(folder + "/.debug/" + link);
    for (const std::string& each : folders()) {
      found.push_back(each + folder + "/" + link);
      if (each != system_folder) found.push_back(each + "/" + link);
    }
  }
  return found;
}

bool debug_files::open_server() {
  if (server_looked_for_) return server_ != nullptr;
  server_looked_for_ = true;
  if (!settings_.ask_servers) return false;
  const char* urls = std::getenv(urls_variable);
  if (urls == nullptr || std::strspn(urls, " ") == std::strlen(urls)) return false;
  server_ = server::open(settings_);
  if (!server_) {
    problem_ = std::string(urls_variable) +
               " is set, but libdebuginfod.so.1 is not installed, so no debugging information was fetched";
  }
  return server_ != nullptr;
}

std::string debug_files::fetched(const std::string& path, const std::string& build_id) {
  return fetch(path, build_id, part::information);
}

std::string debug_files::fetched_file(const std::string& path, const std::string& build_id) {
  return fetch(path, build_id, part::file);
}

std::string debug_files::fetch(const std::string& path, const std::string& build_id, part what) {
  if (build_id.empty() || !problem_.empty() || !open_server()) return "";
  std::string found = server_->fetch(path.substr(path.rfind('/') + 1), build_id, what);
  if (settings_.progress) settings_.progress("");
  if (server_->gave_up()) {
    problem_ = "debuginfod gave nothing for " + std::to_string(wait_seconds()) +
               " s, so names are missing; unset " + urls_variable + ", or wait longer by " + wait_variable;
  }
  return found;
}

}  // namespace tarn::profiler
