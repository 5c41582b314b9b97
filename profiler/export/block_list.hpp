// SPDX-License-Identifier: MIT
// block_list: a sequence that grows at its end in blocks of equal length. No element moves, and at most one block is
// partly used, whatever the size of an element: std::deque's blocks of 512 bytes hold two of 224, and waste a ninth.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tarn::profiler {

template <class T>
class block_list {
  static constexpr std::size_t block_bytes = 64 * 1024;
  static constexpr std::size_t per_block = sizeof(T) < block_bytes ? block_bytes / sizeof(T) : 1;

  template <class List>
  class basic_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<std::is_const_v<List>, const T&, T&>;
    using pointer = std::remove_reference_t<reference>*;

    basic_iterator() = default;
    basic_iterator(List* list, std::size_t index) : list_(list), index_(index) {}
    reference operator*() const { return (*list_)[index_]; }
    pointer operator->() const { return &**this; }
    basic_iterator& operator++() {
      ++index_;
      return *this;
    }
    basic_iterator operator++(int) { return {list_, index_++}; }
    bool operator==(const basic_iterator&) const = default;

   private:
    List* list_ = nullptr;
    std::size_t index_ = 0;
  };

 public:
  using value_type = T;
  using iterator = basic_iterator<block_list>;
  using const_iterator = basic_iterator<const block_list>;

  block_list() = default;
  block_list(block_list&& other) noexcept
      : blocks_(std::move(other.blocks_)), size_(std::exchange(other.size_, 0)) {}
  block_list& operator=(block_list&& other) noexcept {
    blocks_ = std::move(other.blocks_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T& push_back(T value) {
    if (size_ == blocks_.size() * per_block) blocks_.push_back(std::make_unique<T[]>(per_block));
    T& place = blocks_[size_ / per_block][size_ % per_block];
    place = std::move(value);
    ++size_;
    return place;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t index) { return blocks_[index / per_block][index % per_block]; }
  const T& operator[](std::size_t index) const { return blocks_[index / per_block][index % per_block]; }
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, size_}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size_}; }

 private:
  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace tarn::profiler
