// SPDX-License-Identifier: MIT
#include "profiler/replay/trace_image.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace tarn::profiler {

namespace {

void write_all(int file, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, from, std::min<std::size_t>(bytes, 1U << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw profile_error(std::string("no memory for the replay: ") + std::strerror(errno) +
                          "; replay fewer events: --events N");
    }
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

}  // namespace

trace_image::trace_image(const trace& from) {
  descriptor_ = memfd_create("tarn-replay", 0);
  if (descriptor_ < 0) {
    throw profile_error(std::string("cannot make shared memory: ") + std::strerror(errno) +
                        "; raise the limits on open files and memory: ulimit -n, ulimit -v");
  }
  image_header header;
  header.lanes = from.lanes.size();
  header.lanes_offset = sizeof header;
  header.places = from.places;
  header.page_bytes = from.page_bytes;
  header.routes = std::min(from.routes.size(), most_routes);
  std::copy_n(from.routes.begin(), header.routes, header.route);
  std::vector<image_lane> lanes;
  std::uint64_t offset = sizeof header + from.lanes.size() * sizeof(image_lane);
  for (const replay_lane& lane : from.lanes) {
    lanes.push_back({offset, lane.ops.size()});
    offset += lane.ops.size() * sizeof(replay_op);
  }
  header.bytes = offset;
  try {
    write_all(descriptor_, &header, sizeof header);
    write_all(descriptor_, lanes.data(), lanes.size() * sizeof(image_lane));
    for (const replay_lane& lane : from.lanes)
      write_all(descriptor_, lane.ops.data(), lane.ops.size() * sizeof(replay_op));
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

trace_image::~trace_image() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace tarn::profiler
