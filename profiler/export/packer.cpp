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

void packer::pack(std::string_view piece, bool ends) {
  std::string out;
  const auto give = [&](std::size_t bytes) {
    out.resize(bytes);
    if (!out.empty()) take_(out);
    out.resize(piece_bytes);
  };
  out.resize(piece_bytes);
  if (stream_->zstd != nullptr) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      left = check(ZSTD_compressStream2(stream_->zstd, &to, &in, ends ? ZSTD_e_end : ZSTD_e_continue));
      give(to.pos);
    } while (ends ? left != 0 : in.pos < in.size);
  } else if (stream_->is_gzip) {
    z_stream& gzip = stream_->gzip;
    gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    gzip.avail_in = static_cast<uInt>(piece.size());
    int result = Z_OK;
    do {
      gzip.next_out = reinterpret_cast<Bytef*>(out.data());
      gzip.avail_out = static_cast<uInt>(out.size());
      result = deflate(&gzip, ends ? Z_FINISH : Z_NO_FLUSH);
      give(out.size() - gzip.avail_out);
    } while (ends ? result != Z_STREAM_END : gzip.avail_in != 0);
  } else if (!piece.empty()) {
    take_(std::string(piece));
  }
}

std::string gzipped(const std::string& text) {
  if (text.size() > INT32_MAX) {  // the limit of protocol buffers
    throw profile_error(
        "the profile is too large for one message of pprof; export one process, or another format: --process, "
        "--collapsed");
  }
  std::string packed;
  packer pack(".gz", [&packed](const std::string& piece) { packed += piece; });
  pack.write(text);
  pack.finish();
  return packed;
}

}  // namespace tarn::profiler
