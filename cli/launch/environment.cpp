// SPDX-License-Identifier: MIT
#include "cli/launch/environment.hpp"

#include <unistd.h>

#include <algorithm>

namespace tarn::cli {

namespace {

bool names(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && std::string_view(entry).starts_with(name);
}

}  // namespace

environment environment::current() {
  environment copy;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    copy.entries_.emplace_back(*entry);
  }
  return copy;
}

std::optional<std::string> environment::get(std::string_view name) const {
  for (const std::string& entry : entries_) {
    if (names(entry, name)) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

void environment::set(std::string_view name, std::string_view value) {
  std::string wanted = std::string(name).append("=").append(value);
  const auto existing = std::find_if(entries_.begin(), entries_.end(),
                                     [name](const std::string& entry) { return names(entry, name); });
  if (existing != entries_.end()) {
    *existing = std::move(wanted);
  } else {
    entries_.push_back(std::move(wanted));
  }
}

void environment::unset(std::string_view name) {
  std::erase_if(entries_, [name](const std::string& entry) { return names(entry, name); });
}

void environment::prepend_preload(const std::string& library) {
  std::vector<std::string> all = preloads();
  std::erase(all, library);
  all.insert(all.begin(), library);
  set_preloads(all);
}

std::vector<std::string> environment::preloads() const {
  std::vector<std::string> found;
  const std::string list = get("LD_PRELOAD").value_or("");
  std::size_t begin = list.find_first_not_of(" :");
  while (begin != std::string::npos) {
    const std::size_t end = list.find_first_of(" :", begin);
    found.push_back(list.substr(begin, end == std::string::npos ? end : end - begin));
    begin = list.find_first_not_of(" :", end);
  }
  return found;
}

void environment::set_preloads(const std::vector<std::string>& libraries) {
  if (libraries.empty()) return unset("LD_PRELOAD");
  std::string list;
  for (const std::string& library : libraries) {
    if (!list.empty()) list += ':';
    list += library;
  }
  set("LD_PRELOAD", list);
}

std::vector<char*> environment::pointers() {
  std::vector<char*> all;
  all.reserve(entries_.size() + 1);
  for (std::string& entry : entries_) all.push_back(entry.data());
  all.push_back(nullptr);
  return all;
}

bool is_preloadable_path(std::string_view path) {
  return path.find_first_of(" :$\t\n") == std::string_view::npos;
}

}  // namespace tarn::cli
