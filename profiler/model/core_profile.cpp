// SPDX-License-Identifier: MIT
#include "profiler/model/core_profile.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/format/core_file.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/box_profile.hpp"
#include "samples/followed/core_root.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* turn_on =
    "start it with TARN_PROFILE=on (about 1 % of its time), or with tarn run --black-box DIR";
constexpr const char* fill =
    "bit 0 of /proc/PID/coredump_filter must be set, as in 0x33, which is the default";
constexpr const char* allow_more =
    "allow more where it was made: ulimit -c unlimited, and ProcessSizeMax and ExternalSizeMax of systemd-coredump";
// More than one process has.
constexpr std::size_t most_roots = 8;
constexpr std::size_t most_modules = 4096;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class core_reader {
 public:
  explicit core_reader(const std::string& path) : path_(path), core_(path) {}

  profile run() {
    find_roots();
    if (roots_.empty()) refuse_without_root();
    for (const tarn::core_root& root : roots_) take_sites(root);
    if (box_.sites.empty()) refuse_without_sites();
    add_modules();
    box_.is_of_core = true;
    box_.process = core_.process();
    box_.program = core_.program();
    box_.arguments = core_.words();
    box_.signal = core_.signal();
    profile p = profile_of(box_);
    if (missing_ > 0 || damaged_ > 0) p.damage = what_is_missing();
    if (core_.mappings().empty()) {
      nlohmann::json meta = p.meta;
      meta["refused"].push_back(
          "names of functions: the core file does not say which files were mapped (NT_FILE)");
      set_meta(p, std::move(meta));
    }
    if (without_build_id_ > 0) {
      nlohmann::json meta = p.meta;
      meta["refused"].push_back(
          "the build-ids of " + std::to_string(without_build_id_) +
          " files, which the core file does not have: names are those of the files that lie there "
          "now");
      set_meta(p, std::move(meta));
    }
    return p;
  }

 private:
  // All that one process may have: a program that is linked with the archive can load a library that is linked with it, too.
  void find_roots() {
    // The last character tells layouts apart.
    const std::string_view magic(tarn::core_magic.data(), tarn::core_magic.size() - 2);
    core_.find(magic, tarn::core_root::unit, [this](std::uint64_t address) {
      tarn::core_root root{};
      if (!core_.read(address, root) || address_of(root.self) != address) return;
      if (root.magic != tarn::core_magic || root.root_bytes != sizeof root ||
          root.site_bytes != sizeof(tarn::call_site)) {
        other_version_.assign(root.version, strnlen(root.version, sizeof root.version));
        return;
      }
      // A damaged core may have a part of memory twice.
      const bool is_known = std::any_of(roots_.begin(), roots_.end(), [&root](const tarn::core_root& each) {
        return each.self == root.self;
      });
      if (!is_known && roots_.size() < most_roots) roots_.push_back(root);
    });
  }

  [[noreturn]] void refuse(const std::string& why, const std::string& what_to_do) const {
    throw profile_error("there is no heap profile in the core file " + path_ + ": " + why + "; " +
                        what_to_do);
  }

  [[noreturn]] void refuse_without_root() const {
    if (!other_version_.empty())
      refuse("the process had tarn " + other_version_ + ", of another layout", "read it with that version");
    if (core_.is_cut()) refuse("it is cut off, and the data of tarn is not in what is left", allow_more);
    const auto& files = core_.mappings();
    const auto library = std::find_if(files.begin(), files.end(), [](const core_mapping& each) {
      return std::string_view(each.path).substr(each.path.rfind('/') + 1).starts_with("libtarn");
    });
    if (library == files.end()) refuse("the process had no tarn in it, or an older one", turn_on);
    refuse("it lacks the data of " + library->path + ", or that is of an older tarn", fill);
  }

  [[noreturn]] void refuse_without_sites() const {
    if (damaged_ > 0)
      refuse("its table of call paths is damaged", "take another one, with gcore PID or at the next crash");
    if (missing_ > 0 && core_.is_cut())
      refuse("it is cut off, and the call paths are not in what is left", allow_more);
    if (missing_ > 0) refuse("it lacks the memory of the call paths", fill);
    if (mean_ == 0) refuse("the profile was off when it was made", turn_on);
    refuse("the profile was on, but the process had allocated too little for a sample (one in " +
               std::to_string(mean_) + " bytes)",
           "TARN_PROFILE=64K takes more of them");
  }

  std::string what_is_missing() const {
    std::string text;
    if (missing_ > 0)
      text = std::to_string(missing_) + " of " + std::to_string(missing_ + damaged_ + box_.sites.size()) +
             " call paths lie in memory that it does not have" + (core_.is_cut() ? ", as it is cut off" : "");
    if (damaged_ > 0)
      text +=
          (text.empty() ? "" : "; ") + std::to_string(damaged_) + " call paths have figures that cannot be";
    return text + ": what they hold is missing in all sums";
  }

  void take_sites(const tarn::core_root& root) {
    std::size_t mean = 0;
    if (core_.read(address_of(root.mean), mean)) {
      mean_ = std::max(mean_, mean);
      box_.sample_bytes = std::max(box_.sample_bytes, static_cast<double>(mean));
    }
    take_site(address_of(root.sites.other));
    std::uint64_t count = 0;
    std::uint64_t table = 0;
    if (!core_.read(address_of(root.sites.count), count) ||
        !core_.read(address_of(root.sites.in_order), table)) {
      ++missing_;
      return;
    }
    if (count > tarn::call_site::most) {
      ++damaged_;
      return;
    }
    for (std::size_t index = 0; index < count; ++index) {
      std::uint64_t site = 0;
      if (core_.read(table + index * sizeof site, site))
        take_site(site);
      else
        ++missing_;
    }
  }

  void take_site(std::uint64_t address) {
    tarn::call_site site{};
    if (!core_.read(address, site)) {
      ++missing_;
      return;
    }
    const tarn::site_figures& f = site.figures;
    // What lives lies in the process's memory; a sample may stand for some more than there is.
    constexpr double doubt = 4;
    if (site.count > tarn::call_site::most_frames ||
        static_cast<double>(f.live_bytes) > doubt * core_.address_bytes()) {
      ++damaged_;
      return;
    }
    boxed_site one{
        {f.blocks, f.bytes, f.live_blocks, f.live_bytes, f.samples, f.live_samples, f.blocks_variance,
         f.bytes_variance, f.live_bytes_variance, f.lifetime_seconds, site.number, site.count},
        std::vector<std::uint64_t>(site.count)};
    const std::size_t bytes = site.count * sizeof(std::uint64_t);
    if (!core_.read(address_of(site.frames), static_cast<void*>(one.frames.data()), bytes)) {
      ++missing_;
      return;
    }
    if (f.samples > 0) box_.add(std::move(one));
  }

  // Of the files whose code is on a path.
  void add_modules() {
    std::vector<const core_mapping*> used;
    for (const boxed_site& one : box_.sites) {
      for (const std::uint64_t frame : one.frames) {
        const core_mapping* const part = core_.mapping_at(frame - 1);
        if (part != nullptr) used.push_back(part);
      }
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    used.resize(std::min(used.size(), most_modules));
    for (const core_mapping* const part : used) {
      module_info one;
      one.path = part->path;
      one.build_id = core_.build_id_of(*part);
      one.start = part->start;
      one.end = part->end;
      one.file_offset = part->offset;
      if (one.build_id.empty()) ++without_build_id_;
      box_.modules.push_back(std::move(one));
    }
  }

  const std::string& path_;
  core_file core_;
  std::vector<tarn::core_root> roots_;
  std::string other_version_;
  box_content box_;
  std::size_t mean_ = 0;
  std::size_t missing_ = 0;
  std::size_t damaged_ = 0;
  std::size_t without_build_id_ = 0;
};

}  // namespace

profile profile_of_core(const std::string& path) { return core_reader(path).run(); }

}  // namespace tarn::profiler
