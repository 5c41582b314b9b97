// SPDX-License-Identifier: MIT
// opencv_frames: matrices of OpenCV whose elements lie in a tarn::buffer_pool (cv::MatAllocator).
//
//     tarn::buffer_pool pool({.name = "frames"});
//     static tarn::opencv_frames frames(pool);
//     cv::Mat image;
//     image.allocator = &frames;               // for what image.create() allocates from here on
//     cv::Mat::setDefaultAllocator(&frames);   // or for all matrices that are made from here on
//
// A filter allocates its result for every image, and frees it; from malloc the pages of a frame of 8 MiB are faulted in
// each time, which takes longer than most filters. A buffer pool keeps the frame's pages for the next one.
//
// Use it where images of about the same size come and go. Do not use it for matrices that are kept, nor if tarn is the
// program's malloc and no budget, prefaulting or statistics are needed. Matrices below 64 KiB come from cv::fastMalloc, as
// without it.
//
// Requires: OpenCV 4. The pool outlives this object (or is null: the process-wide pool), and this object outlives all matrices
// that it has served: OpenCV calls it when they end. A default allocator must live until the process ends.
// Thread safety: any thread. Failure: cv::Exception (cv::Error::StsNoMem), as OpenCV's own allocator, which cv::Mat then tries.
// Cost: a hit two short locks; see tarn/buffer_pool.hpp. Data is aligned to a page.
#pragma once

#include <opencv2/core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tarn/buffer_pool.hpp"

namespace tarn {

class opencv_frames final : public cv::MatAllocator {
 public:
  // From the process-wide buffer pool.
  opencv_frames() noexcept = default;
  explicit opencv_frames(const buffer_pool& pool) noexcept : pool_(pool.handle()) {}

  // As OpenCV's own allocator lays matrices out: `steps` gets the bytes of each dimension's elements, unless `data` is the
  // caller's and has steps of its own.
  cv::UMatData* allocate(int dimensions, const int* sizes, int type, void* data, std::size_t* steps,
                         cv::AccessFlag, cv::UMatUsageFlags) const override {
    std::size_t total = CV_ELEM_SIZE(type);
    for (int i = dimensions - 1; i >= 0; --i) {
      if (steps != nullptr) {
        if (data != nullptr && steps[i] != cv::Mat::AUTO_STEP) {
          CV_Assert(total <= steps[i]);
          total = steps[i];
        } else {
          steps[i] = total;
        }
      }
      if (__builtin_mul_overflow(total, static_cast<std::size_t>(sizes[i]), &total)) {
        CV_Error(cv::Error::StsNoMem, "tarn: a matrix whose size overflows");
      }
    }
    auto result = std::make_unique<cv::UMatData>(this);
    result->data = result->origdata = static_cast<uchar*>(data != nullptr ? data : take(total));
    result->size = total;
    if (data != nullptr) result->flags |= cv::UMatData::USER_ALLOCATED;
    return result.release();
  }
  bool allocate(cv::UMatData* data, cv::AccessFlag, cv::UMatUsageFlags) const override {
    return data != nullptr;
  }
  void deallocate(cv::UMatData* data) const override {
    if (data == nullptr) return;
    CV_Assert(data->urefcount == 0 && data->refcount == 0);
    if ((data->flags & cv::UMatData::USER_ALLOCATED) == 0) {
      give(data->origdata, data->size);
      data->origdata = nullptr;
    }
    delete data;
  }

 private:
  [[nodiscard]] void* take(std::size_t bytes) const {
    if (bytes < least_buffer_bytes) return cv::fastMalloc(bytes);
    tarn_buffer_pool* const pool = pool_ != nullptr ? pool_ : tarn_buffer_pool_shared();
    std::size_t capacity = 0;
    void* const buffer = pool != nullptr ? tarn_buffer_get(pool, bytes, &capacity) : nullptr;
    if (buffer == nullptr) {
      CV_Error(cv::Error::StsNoMem, "tarn: no memory for a matrix of " + std::to_string(bytes) + " bytes");
    }
    return buffer;
  }
  void give(void* elements, std::size_t bytes) const {
    if (bytes < least_buffer_bytes) return cv::fastFree(elements);
    tarn_buffer_give_back(nullptr, elements);
  }

  tarn_buffer_pool* pool_ = nullptr;
};

}  // namespace tarn
