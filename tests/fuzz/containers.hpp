// SPDX-License-Identifier: MIT
// containers: strings and vectors whose memory comes from an arena, from pools and from buffers, through the adapters
// for the standard library. For each, a std::string (its twin) holds the expected contents.
//
// Thread safety: none; any thread may call, one at a time.
#pragma once

#include <memory_resource>
#include <string>
#include <vector>

#include "model.hpp"
#include "sources.hpp"
#include "tarn/arena.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/resources.hpp"

namespace tarn::fuzz {

class containers {
 public:
  // Appends, cuts, replaces or empties one of the containers, and compares it with its twin.
  void change(input& in) {
    const unsigned which = in.byte() % 3;
    const unsigned how = in.byte() % 8;
    const std::string text(in.bytes() % most_text, static_cast<char>(in.byte()));
    std::string& twin = twins_[which];
    if (how == 0 || twin.size() + text.size() > most_bytes) {
      twin.clear();
      clear(which);
    } else if (how == 1) {
      twin.resize(twin.size() / 2);
      cut(which, twin.size());
    } else {
      twin += text;
      append(which, text);
    }
    check(which);
  }
  void check() const {
    for (unsigned which = 0; which < 3; ++which) check(which);
  }
  void empty() {
    for (unsigned which = 0; which < 3; ++which) {
      twins_[which].clear();
      clear(which);
    }
  }

 private:
  using buffered = std::vector<char, buffer_allocator<char>>;
  static constexpr std::size_t most_text = 200000;
  static constexpr std::size_t most_bytes = std::size_t{2} << 20;

  void append(unsigned which, const std::string& text) {
    if (which == 0) in_arena_.insert(in_arena_.end(), text.begin(), text.end());
    if (which == 1) in_pools_ += text;
    if (which == 2) in_buffers_.insert(in_buffers_.end(), text.begin(), text.end());
  }
  void cut(unsigned which, std::size_t size) {
    if (which == 0) in_arena_.resize(size);
    if (which == 1) in_pools_.resize(size), in_pools_.shrink_to_fit();
    if (which == 2) in_buffers_.resize(size), in_buffers_.shrink_to_fit();
  }
  void clear(unsigned which) {
    if (which == 0) {
      in_arena_ = std::pmr::vector<char>(&resource_);  // frees its elements before the arena is reset
      arena_.reset();
    }
    if (which == 1) in_pools_ = std::pmr::string(&fuzz::resource());
    if (which == 2) in_buffers_ = buffered();
  }
  void check(unsigned which) const {
    const std::string& twin = twins_[which];
    const bool same = which == 0 ? std::equal(twin.begin(), twin.end(), in_arena_.begin(), in_arena_.end())
                      : which == 1
                          ? std::equal(twin.begin(), twin.end(), in_pools_.begin(), in_pools_.end())
                          : std::equal(twin.begin(), twin.end(), in_buffers_.begin(), in_buffers_.end());
    require(same, "a container does not hold what was put into it");
  }

  std::string twins_[3];
  arena arena_;
  arena_resource resource_{arena_};
  std::pmr::vector<char> in_arena_{&resource_};
  std::pmr::string in_pools_{&fuzz::resource()};
  buffered in_buffers_;
};

}  // namespace tarn::fuzz
