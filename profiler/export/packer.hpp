// SPDX-License-Identifier: MIT
// packer: compresses text in pieces, as the file's name asks for: ".gz", ".zst", or not at all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tarn::profiler {

class packer {
 public:
  // `take` gets the bytes of the file. Throws profile_error if there is no memory.
  packer(std::string_view path, std::function<void(const std::string&)> take);
  ~packer();
  packer(const packer&) = delete;
  packer& operator=(const packer&) = delete;

  void write(std::string_view piece);
  void finish();  // once, at the end

 private:
  struct stream;

  std::function<void(const std::string&)> take_;
  std::unique_ptr<stream> stream_;
};

}  // namespace tarn::profiler
