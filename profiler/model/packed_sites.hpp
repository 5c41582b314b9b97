// SPDX-License-Identifier: MIT
// packed_sites: the tables sites, site_sizes, site_lifetimes and site_threads, made of sites that come part by part
// and are not kept: the tables hold them compressed until they are written. Not thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "profiler/format/chunk_packer.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class packed_sites {
 public:
  // `with_processes`: the sites are those of a merged profile.
  explicit packed_sites(bool with_processes) : with_processes_(with_processes) {}

  // Appends sites, of any number, and keeps no more memory than the packed rows take. `ends`: no more follow. Throws
  // profile_error if they are more than a profile may hold.
  void add(std::span<const site> sites, bool ends = false);
  // Writes all tables. May be called once.
  void write(table_writer& out);

 private:
  void add_part(std::span<const site> sites, bool ends);

  bool with_processes_;
  std::size_t sites_added_ = 0;
  bool has_ended_ = false;
  chunk_packer sites_;
  chunk_packer sizes_;
  chunk_packer lifetimes_;
  chunk_packer threads_;
};

}  // namespace tarn::profiler
