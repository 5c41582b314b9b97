// SPDX-License-Identifier: MIT
#include "profiler/analyze/elf_module.hpp"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tarn::profiler {

namespace {

bool has_section(Elf* elf, std::string_view wanted) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return false;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && wanted == name) return true;
  }
  return false;
}

bool has_debug_information(Elf* elf) {
  return has_section(elf, ".debug_info") || has_section(elf, ".zdebug_info");
}

// The file that was at `path`, by its build-id; null: it is nowhere.
std::unique_ptr<opened_elf> find_file(const std::string& path, const std::string& build_id,
                                      debug_files& debug) {
  std::vector<std::string> places = debug.file_candidates(build_id);
  for (bool has_fetched = false;; has_fetched = true) {
    for (const std::string& place : places) {
      auto file = opened_elf::at(place);
      if (file && file->build_id() == build_id) return file;
    }
    if (has_fetched) return nullptr;
    places = {debug.fetched_file(path, build_id)};
  }
}

}  // namespace

std::unique_ptr<elf_module> elf_module::open(const std::string& path, std::string_view build_id,
                                             debug_files& debug, std::string& problem) {
  auto file = opened_elf::at(path);
  const bool is_other = file && !build_id.empty() && file->build_id() != build_id;
  if (!file) problem = errno == ENOENT ? "the file does not exist any more" : std::strerror(errno);
  if (is_other) problem = "the file has been replaced (its build-id differs)";
  if (!file || is_other) file = find_file(path, std::string(build_id), debug);
  if (!file) return nullptr;
  problem.clear();
  return std::unique_ptr<elf_module>(new elf_module(path, std::move(file), debug));
}

elf_module::elf_module(std::string path, std::unique_ptr<opened_elf> file, debug_files& debug)
    : path_(std::move(path)), build_id_(file->build_id()), debug_files_(debug), file_(std::move(file)) {
  read_segments();
}

elf_module::~elf_module() {
  if (debug_ != nullptr) dwarf_end(debug_);
}

void elf_module::read_segments() {
  GElf_Ehdr about;
  if (gelf_getehdr(file_->elf, &about) != nullptr) machine_ = about.e_machine;
  for (const GElf_Phdr& header : file_->segments(PT_LOAD))
    segments_.push_back({header.p_offset, header.p_filesz, header.p_vaddr});
}

std::optional<std::uint64_t> elf_module::address_at(std::uint64_t file_offset) const {
  for (const segment& each : segments_) {
    if (file_offset - each.offset < each.size) return each.address + (file_offset - each.offset);
  }
  return std::nullopt;
}

std::vector<std::uint8_t> elf_module::code_at(std::uint64_t address, std::size_t count) const {
  for (const segment& each : segments_) {
    const std::uint64_t into = address - each.address;
    if (into >= each.size) continue;
    std::vector<std::uint8_t> bytes(
        static_cast<std::size_t>(std::min<std::uint64_t>(count, each.size - into)));
    const ssize_t got =
        pread(file_->file, bytes.data(), bytes.size(), static_cast<off_t>(each.offset + into));
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  return {};
}

void elf_module::read_symbols() {
  symbols_read_ = true;
  symbols_ = file_->functions(SHT_SYMTAB);
  if (symbols_.empty()) {
    debug_information();  // which finds the file that may have them
    if (debug_file_) symbols_ = debug_file_->functions(SHT_SYMTAB);
    const std::vector<elf_symbol> exported = file_->functions(SHT_DYNSYM);
    symbols_.insert(symbols_.end(), exported.begin(), exported.end());
  }
  // Of several symbols at one address the longest is last; equal ones are sorted by name, so that the result is
  // always the same.
  std::sort(symbols_.begin(), symbols_.end(), [](const elf_symbol& a, const elf_symbol& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.size != b.size) return a.size < b.size;
    return std::strcmp(a.name, b.name) > 0;
  });
}

const elf_symbol* elf_module::function_at(std::uint64_t address) {
  if (!symbols_read_) read_symbols();
  auto next =
      std::upper_bound(symbols_.begin(), symbols_.end(), address,
                       [](std::uint64_t value, const elf_symbol& each) { return value < each.start; });
  if (next == symbols_.begin()) return nullptr;
  const elf_symbol& found = *(next - 1);
  // A symbol without a size extends to the next one.
  const bool inside = found.size != 0 ? address - found.start < found.size : true;
  return inside ? &found : nullptr;
}

const elf_symbol* elf_module::function_from(std::uint64_t address) {
  const elf_symbol* found = function_at(address);
  return found != nullptr && found->start == address ? found : nullptr;
}

std::unique_ptr<opened_elf> elf_module::find_debug_file() {
  // Accepted if the build-id matches; without a build-id, the name in the link must suffice.
  const auto usable = [this](const std::string& path) {
    auto file = opened_elf::at(path);
    return file && file->build_id() == build_id_ ? std::move(file) : nullptr;
  };
  GElf_Word check = 0;
  const char* link = dwelf_elf_gnu_debuglink(file_->elf, &check);
  for (const std::string& path : debug_files_.candidates(path_, build_id_, link)) {
    if (auto file = usable(path)) return file;
  }
  const std::string fetched = debug_files_.fetched(path_, build_id_);
  return fetched.empty() ? nullptr : usable(fetched);
}

Dwarf* elf_module::debug_information() {
  if (debug_looked_for_) return debug_;
  debug_looked_for_ = true;
  Elf* holder = file_->elf;
  if (!has_debug_information(holder)) {
    debug_file_ = find_debug_file();
    holder = debug_file_ ? debug_file_->elf : nullptr;
  }
  if (holder != nullptr && has_debug_information(holder))
    debug_ = dwarf_begin_elf(holder, DWARF_C_READ, nullptr);
  return debug_;
}

}  // namespace tarn::profiler
