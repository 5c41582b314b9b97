// SPDX-License-Identifier: MIT
// opencv_frames: matrices of all kinds in a buffer pool, caller's data, sharing, no memory.
#include "tarn/adapters/opencv.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace {

TEST(opencv_frames, large_matrices_lie_in_the_pool_and_come_back) {
  tarn::buffer_pool pool({.name = "frames"});
  tarn::opencv_frames frames(pool);
  for (int frame = 0; frame < 20; ++frame) {
    cv::Mat image;
    image.allocator = &frames;
    image.create(1080, 1920, CV_8UC4);
    EXPECT_EQ(image.step[0], 1920U * 4);
    image.setTo(cv::Scalar(1, 2, 3, frame));
    EXPECT_EQ(image.at<cv::Vec4b>(1079, 1919)[3], frame);
    EXPECT_EQ(pool.stats().live, 1U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data) % 4096, 0U);
    const cv::Mat shared = image;
    image.release();
    EXPECT_EQ(shared.at<cv::Vec4b>(0, 0)[0], 1);
    EXPECT_EQ(pool.stats().live, 1U);
  }
  const auto stats = pool.stats();
  EXPECT_EQ(stats.live, 0U);
  EXPECT_EQ(stats.gets, 20U);
  EXPECT_GE(stats.hits, 19U);
}

TEST(opencv_frames, small_matrices_and_many_dimensions) {
  tarn::buffer_pool pool;
  tarn::opencv_frames frames(pool);
  cv::Mat small;
  small.allocator = &frames;
  small.create(3, 3, CV_64F);
  small = cv::Mat::eye(3, 3, CV_64F);
  EXPECT_EQ(cv::sum(small)[0], 3);
  cv::Mat cube;
  cube.allocator = &frames;
  const int sizes[] = {20, 30, 40};
  cube.create(3, sizes, CV_32F);
  EXPECT_EQ(cube.step[0], 30U * 40 * 4);
  EXPECT_EQ(cube.step[1], 40U * 4);
  EXPECT_EQ(cube.step[2], 4U);
  cube.setTo(2);
  EXPECT_EQ(pool.stats().live, 1U);
  cube.release();
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(opencv_frames, as_the_default_allocator) {
  static tarn::opencv_frames frames;
  cv::MatAllocator* const before = cv::Mat::getDefaultAllocator();
  cv::Mat::setDefaultAllocator(&frames);
  {
    cv::Mat a(1000, 1000, CV_32F, cv::Scalar(2));
    cv::Mat b = a * 3 + a.t();
    EXPECT_EQ(b.at<float>(500, 500), 8);
    std::vector<std::uint8_t> own(640 * 480, 7);
    const cv::Mat view(480, 640, CV_8U, own.data());
    cv::Mat copy = view.clone();
    EXPECT_EQ(cv::sum(copy)[0], 640.0 * 480 * 7);
    EXPECT_EQ(view.data, own.data());
  }
  cv::Mat::setDefaultAllocator(before);
}

TEST(opencv_frames, another_thread_may_release) {
  tarn::buffer_pool pool;
  tarn::opencv_frames frames(pool);
  cv::Mat image;
  image.allocator = &frames;
  image.create(1000, 1000, CV_8U);
  std::thread([image = std::move(image)]() mutable { image.release(); }).join();
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(opencv_frames, no_memory_is_an_exception_of_opencv) {
  tarn::buffer_pool pool;
  tarn::opencv_frames frames(pool);
  cv::Mat image;
  image.allocator = &frames;
  // OpenCV then asks its own allocator, which has no memory for 2^47 bytes either.
  const int sizes[] = {1 << 30, 1 << 14};
  try {
    image.create(2, sizes, CV_64F);
    FAIL() << "it has memory for 2^47 bytes";
  } catch (const cv::Exception& error) {
    EXPECT_EQ(error.code, cv::Error::StsNoMem) << error.what();
  }
  EXPECT_EQ(pool.stats().live, 0U);
}

}  // namespace
