// SPDX-License-Identifier: MIT
// opened_library: a library that the command loads when a verb needs it, so that no package of tarn needs it.
#pragma once

#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>
#include <string>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

class opened_library {
 public:
  // The first of `files` that is there. Throws cli_error (refused) with this problem and advice.
  opened_library(std::string name, std::string oldest, std::initializer_list<const char*> files,
                 const std::string& problem, const std::string& advice)
      : name_(std::move(name)), oldest_(std::move(oldest)) {
    for (const char* const file : files)
      if (handle_ == nullptr) handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw cli_error(exit_code::refused, problem, advice);
  }

  // Converts to a pointer to any function. Throws cli_error (refused): the library does not have it.
  struct function {
    void* found;

    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(found);
    }
  };
  [[nodiscard]] function operator[](const char* name) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr)
      throw cli_error(exit_code::refused, fmt::format("{} has no {}", name_, name),
                      fmt::format("Install version {} or newer.", oldest_));
    return {found};
  }

 private:
  std::string name_;
  std::string oldest_;
  void* handle_ = nullptr;  // stays open
};

}  // namespace tarn::cli
