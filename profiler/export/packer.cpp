// SPDX-License-Identifier: MIT
#include "profiler/export/packer.hpp"

#include <zlib.h>
#include <zstd.h>

#include <utility>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t piece_bytes = 1 << 18;

std::size_t check(std::size_t result) {
  if (ZSTD_isError(result) != 0)
    throw profile_error("no memory to compress the export; raise the limit on memory: ulimit -v");
  return result;
}

}  // namespace

struct packer::stream {
  ZSTD_CCtx* zstd = nullptr;
  z_stream gzip{};
  bool is_gzip = false;

  ~stream() {
    ZSTD_freeCCtx(zstd);
    if (is_gzip) deflateEnd(&gzip);
  }
};

packer::packer(std::string_view path, std::function<void(const std::string&)> take)
    : take_(std::move(take)), stream_(std::make_unique<stream>()) {
  if (path.ends_with(".zst")) {
    stream_->zstd = ZSTD_createCCtx();
    if (stream_->zstd == nullptr)
      throw profile_error("no memory to compress the export; raise the limit on memory: ulimit -v");
  } else if (path.ends_with(".gz")) {
    constexpr int with_header = 16;
    if (deflateInit2(&stream_->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + with_header, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw profile_error("no memory to compress the export; raise the limit on memory: ulimit -v");
    }
    stream_->is_gzip = true;
  }
}

packer::~packer() = default;

void packer::write(std::string_view piece) {
  std::string out;
  if (stream_->zstd != nullptr) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    while (in.pos < in.size) {
      out.resize(piece_bytes);
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      check(ZSTD_compressStream2(stream_->zstd, &to, &in, ZSTD_e_continue));
      out.resize(to.pos);
      if (!out.empty()) take_(out);
    }
  } else if (stream_->is_gzip) {
    z_stream& gzip = stream_->gzip;
    gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    gzip.avail_in = static_cast<uInt>(piece.size());
    while (gzip.avail_in != 0) {
      out.resize(piece_bytes);
      gzip.next_out = reinterpret_cast<Bytef*>(out.data());
      gzip.avail_out = static_cast<uInt>(out.size());
      deflate(&gzip, Z_NO_FLUSH);
      out.resize(out.size() - gzip.avail_out);
      if (!out.empty()) take_(out);
    }
  } else if (!piece.empty()) {
    take_(std::string(piece));
  }
}

void packer::finish() {
  std::string out;
  bool more = stream_->zstd != nullptr || stream_->is_gzip;
  while (more) {
    out.resize(piece_bytes);
    if (stream_->zstd != nullptr) {
      ZSTD_inBuffer in{nullptr, 0, 0};
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      more = check(ZSTD_compressStream2(stream_->zstd, &to, &in, ZSTD_e_end)) != 0;
      out.resize(to.pos);
    } else {
      z_stream& gzip = stream_->gzip;
      gzip.next_out = reinterpret_cast<Bytef*>(out.data());
      gzip.avail_out = static_cast<uInt>(out.size());
      more = deflate(&gzip, Z_FINISH) != Z_STREAM_END;
      out.resize(out.size() - gzip.avail_out);
    }
    if (!out.empty()) take_(out);
  }
}

}  // namespace tarn::profiler
