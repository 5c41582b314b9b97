// SPDX-License-Identifier: MIT
// environment: a copy of the process environment that can be changed and passed to a child. Keeps the order and
// entries without "=". Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

class environment {
 public:
  environment() = default;
  static environment current();

  std::optional<std::string> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);

  // Puts `library` before whatever LD_PRELOAD holds. The path must be expressible there (see
  // is_preloadable_path).
  void prepend_preload(const std::string& library);
  // The libraries LD_PRELOAD names, in order.
  std::vector<std::string> preloads() const;
  void set_preloads(const std::vector<std::string>& libraries);

  // Valid until the next change.
  std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

// LD_PRELOAD separates by blanks and colons and has no way to quote them; `$` starts a token.
bool is_preloadable_path(std::string_view path);

}  // namespace tarn::cli
