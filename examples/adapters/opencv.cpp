// SPDX-License-Identifier: MIT
// opencv: frames that are filtered one after the other. Their pixels lie in a pool's buffers, which are used again for each
// frame. Link: opencv_core, tarn::tarn-api.
#include <cstdio>
#include <opencv2/core.hpp>

#include "opencv.hpp"

int main() {
  static tarn::buffer_pool pool({.name = "frames"});
  static tarn::opencv_frames frames(pool);
  cv::Mat::setDefaultAllocator(&frames);
  double sum = 0;
  for (int frame = 0; frame < 100; ++frame) {
    const cv::Mat image(1080, 1920, CV_8UC3, cv::Scalar::all(frame));
    cv::Mat bright;
    image.convertTo(bright, CV_8U, 1.0, 10);
    cv::Mat difference;
    cv::absdiff(bright, image, difference);
    sum += cv::mean(difference)[0];
  }
  std::printf("100 frames, mean difference %.0f\n", sum / 100);
  const auto stats = pool.stats();
  std::printf("%s of the pixels lay in memory that was there already\n",
              stats.hits * 100 >= stats.gets * 95 ? "at least 95 of 100" : "few");
  cv::Mat::setDefaultAllocator(nullptr);
}
