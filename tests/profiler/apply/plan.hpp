// SPDX-License-Identifier: MIT
// Plans for tests of libtarn_apply: frames of this program, and the sites of a plan.
#pragma once

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "profiler/apply/apply_sites.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {

inline std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%lx", static_cast<unsigned long>(value));
  return text;
}

// A frame at this address of this program, by the name of its file.
inline std::string frame_at(std::uintptr_t address) {
  struct search {
    std::uintptr_t address;
    std::uint64_t offset = 0;
  } wanted{address};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        auto& found = *static_cast<search*>(data);
        for (int index = 0; index < module->dlpi_phnum; ++index) {
          const ElfW(Phdr)& segment = module->dlpi_phdr[index];
          const std::uintptr_t into = found.address - module->dlpi_addr - segment.p_vaddr;
          if (segment.p_type == PT_LOAD && into < segment.p_filesz) found.offset = segment.p_offset + into;
        }
        return 1;  // the program is the first
      },
      &wanted);
  char path[1024] = {};
  EXPECT_GT(readlink("/proc/self/exe", path, sizeof path - 1), 0);
  const std::string name = std::string(path).substr(std::string(path).rfind('/') + 1);
  std::string text = "n";
  for (const char letter : name) text += hexadecimal(static_cast<unsigned char>(letter));
  return text + ":" + hexadecimal(wanted.offset);
}

struct loaded_plan {
  explicit loaded_plan(const std::string& text) {
    scratch_file file;
    file.set(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
    good = sites->load(file.path().c_str());
  }
  std::unique_ptr<apply_sites> sites = std::make_unique<apply_sites>();
  bool good = false;
};

}  // namespace tarn::profiler
