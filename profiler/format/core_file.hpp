// SPDX-License-Identifier: MIT
// core_file: the memory of a process in its core file (ELF, 64 bits, little-endian), as the kernel or gcore wrote it. A file may be cut off
// anywhere, lack any memory, or be made up: what is read is checked against the file, and no more memory is taken than its tables
// need. Not thread-safe. Errors are profile_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tarn::profiler {

// A part of a file that the process had mapped, at [start, end).
struct core_mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  std::string path;
};

class core_file {
 public:
  static bool is_one(const std::string& path);

  explicit core_file(const std::string& path);
  ~core_file();
  core_file(const core_file&) = delete;
  core_file& operator=(const core_file&) = delete;

  // False: the file does not have all of it.
  bool read(std::uint64_t address, void* into, std::size_t bytes) const;
  template <class T>
  bool read(std::uint64_t address, T& into) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return read(address, static_cast<void*>(&into), sizeof into);
  }

  // Calls visit(address) wherever `text` begins, at multiples of `unit`, in memory that the process could write to: of the files
  // that it had mapped, or all of it if they are not known. At most 4 GiB are looked at, short parts first.
  void find(std::string_view text, std::size_t unit,
            const std::function<void(std::uint64_t address)>& visit) const;

  // Sorted by address.
  const std::vector<core_mapping>& mappings() const { return mappings_; }
  const core_mapping* mapping_at(std::uint64_t address) const;  // null: there is none
  // `part`: of mappings(). Of the ELF file that it is a part of, lower-case hexadecimal; "": the core file does not have it.
  std::string build_id_of(const core_mapping& part) const;

  std::uint32_t process() const { return process_; }
  int signal() const { return signal_; }                            // that ended it; 0: none, or not known
  const std::string& program() const { return program_; }           // its file, or at least its name
  const std::vector<std::string>& words() const { return words_; }  // its arguments, as far as known
  bool is_cut() const { return is_cut_; }                           // it is shorter than it says
  double address_bytes() const { return address_bytes_; }  // of all memory that the process had mapped

 private:
  struct segment {
    std::uint64_t start;
    std::uint64_t bytes;  // in the file
    std::uint64_t offset;
    bool is_writable;
  };

  void read_segments();
  void read_notes(std::uint64_t offset, std::uint64_t bytes);
  void take_note(std::uint32_t type, std::string_view content);
  void take_mappings(std::string_view content);
  void find_in(const segment& part, std::string_view text, std::size_t unit,
               const std::function<void(std::uint64_t)>& visit) const;
  std::size_t read_file(std::uint64_t offset, void* into, std::size_t bytes) const;
  bool overlaps_mapping(const segment& part) const;

  std::string path_;
  int file_ = -1;
  std::uint64_t file_bytes_ = 0;
  std::vector<segment> segments_;  // by address
  std::vector<core_mapping> mappings_;
  std::uint32_t process_ = 0;
  int signal_ = 0;
  bool has_thread_ = false;
  std::uint64_t entry_ = 0;
  std::string program_;
  std::vector<std::string> words_;
  bool is_cut_ = false;
  double address_bytes_ = 0;
};

}  // namespace tarn::profiler
