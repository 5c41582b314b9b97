// SPDX-License-Identifier: MIT
#include "observe/loaded_modules.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "../../system_probes.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

namespace fs = std::filesystem;

const std::size_t page_bytes = os::system_page_size();

std::uintptr_t address_in(const char* name, void* handle = RTLD_DEFAULT) {
  return reinterpret_cast<std::uintptr_t>(dlsym(handle, name));
}

const loaded_segment* segment_of(const loaded_modules& modules, std::uintptr_t address) {
  const std::size_t i = modules.index_of(address);
  return i < modules.count() ? &modules[i] : nullptr;
}

const loaded_segment* segment_named(const loaded_modules& modules, const std::string& path) {
  for (std::size_t i = 0; i < modules.count(); ++i) {
    if (modules[i].path == path) return &modules[i];
  }
  return nullptr;
}

std::string build_id_of(const loaded_segment& s) {
  return {reinterpret_cast<const char*>(s.build_id), s.build_id_length};
}

// What the dynamic linker says of the executable segment at an address.
struct linkers_answer {
  std::uintptr_t address;
  std::uintptr_t start = 0;
  std::uint64_t file_offset = 0;
  std::string build_id = {};
};

int ask_linker(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  auto& out = *static_cast<linkers_answer*>(context);
  bool here = false;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || out.address < start || out.address - start >= part.p_memsz) continue;
    here = true;
    out.start = start;
    out.file_offset = part.p_offset;
  }
  for (unsigned i = 0; here && i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const std::string notes(reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr), part.p_memsz);
    const std::size_t at = notes.find(std::string("\3\0\0\0GNU\0", 8));
    std::uint32_t length = 0;
    if (at == std::string::npos || at < 8) continue;
    std::memcpy(&length, notes.data() + at - 4, sizeof length);
    out.build_id = notes.substr(at + 8, length);
  }
  return here ? 1 : 0;
}

class loaded_modules_test : public testing::Test {
 protected:
  loaded_modules_test() {
    char name[] = "/tmp/tarn modules XXXXXX";
    folder = mkdtemp(name);
  }
  void SetUp() override {
    if (!system_probes::memory_map_is_own()) GTEST_SKIP() << system_probes::foreign_map;
  }
  ~loaded_modules_test() override { fs::remove_all(folder); }

  // A mapping of a file as code.
  void* map(const std::string& path, std::size_t bytes) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    close(file);
    return memory;
  }

  std::string folder;
};

TEST_F(loaded_modules_test, agree_with_the_dynamic_linker) {
  const loaded_modules modules;
  ASSERT_TRUE(modules.valid());
  for (const std::uintptr_t address :
       {reinterpret_cast<std::uintptr_t>(&ask_linker), address_in("getppid"), address_in("cos")}) {
    linkers_answer wanted{address};
    dl_iterate_phdr(ask_linker, &wanted);
    const loaded_segment* const found = segment_of(modules, address);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->start, wanted.start & ~(page_bytes - 1)) << found->path;
    EXPECT_EQ(found->file_offset, wanted.file_offset & ~(page_bytes - 1)) << found->path;
    EXPECT_EQ(build_id_of(*found), wanted.build_id) << found->path;
    EXPECT_TRUE(fs::exists(found->path)) << found->path;
  }
}

TEST_F(loaded_modules_test, begin_with_the_program) {
  const loaded_modules modules;
  ASSERT_GE(modules.count(), 2U);
  EXPECT_EQ(modules[0].path, fs::read_symlink("/proc/self/exe").string());
}

TEST_F(loaded_modules_test, have_the_kernels_own) {
  const loaded_modules modules;
  const loaded_segment* const vdso = segment_named(modules, "[vdso]");
  if (vdso == nullptr) GTEST_SKIP() << "the system maps no vDSO";
  linkers_answer wanted{vdso->start};
  dl_iterate_phdr(ask_linker, &wanted);
  EXPECT_EQ(build_id_of(*vdso), wanted.build_id);
}

// The control thread is none of libc's, so libc's lock does not exclude it.
TEST_F(loaded_modules_test, do_not_wait_for_the_dynamic_linker) {
  static std::atomic<int> state{0};
  std::thread holder([] {
    dl_iterate_phdr(
        [](dl_phdr_info*, std::size_t, void*) {
          state = 1;
          for (int i = 0; i < 2000 && state != 2; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return state == 2 ? 1 : 2;
        },
        nullptr);
    state = 3;
  });
  while (state == 0) std::this_thread::yield();
  {
    const loaded_modules modules;
    EXPECT_EQ(state, 1) << "the linker's lock was waited for";
    EXPECT_TRUE(modules.valid());
  }
  state = 2;
  holder.join();
}

TEST_F(loaded_modules_test, know_a_library_whose_file_was_removed) {
  const std::string path = folder + "/removed.so";
  fs::copy_file(segment_of(loaded_modules(), address_in("cos"))->path, path);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  fs::remove(path);
  const loaded_modules modules;
  const loaded_segment* const found = segment_of(modules, address_in("cos", library));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->path, path);
  EXPECT_NE(found->build_id_length, 0U);
  dlclose(library);
  EXPECT_EQ(segment_named(loaded_modules(), path), nullptr);
}

TEST_F(loaded_modules_test, take_any_file_that_is_mapped_as_code) {
  const std::string header = std::string(ELFMAG, SELFMAG) + std::string("\2\1\1", 3);
  const auto with = [&](std::uint16_t count, std::uint64_t table) {
    ElfW(Ehdr) head{};
    std::memcpy(&head, header.data(), header.size());
    head.e_phentsize = sizeof(ElfW(Phdr));
    head.e_phnum = count;
    head.e_phoff = table;
    return std::string(reinterpret_cast<const char*>(&head), sizeof head);
  };
  std::string endless = with(2, sizeof(ElfW(Ehdr)));
  ElfW(Phdr) part{};
  part.p_type = PT_LOAD;
  endless.append(reinterpret_cast<const char*>(&part), sizeof part);
  part.p_type = PT_NOTE;
  part.p_memsz = ~0UL;
  part.p_vaddr = page_bytes - 24;
  endless.append(reinterpret_cast<const char*>(&part), sizeof part);
  endless.resize(page_bytes - 24);
  endless.append("\4\0\0\0\xff\xff\xff\xff\3\0\0\0GNU\0", 16);
  int number = 0;
  for (const std::string& content :
       {std::string("text"), header, with(0xffff, 64), with(3, ~0UL - 7), endless}) {
    const std::string path = folder + "/no library " + std::to_string(number++) + ":(deleted)x";
    std::ofstream(path) << content;
    void* const memory = map(path, 2 * page_bytes);
    ASSERT_NE(memory, MAP_FAILED);
    const loaded_modules modules;
    const loaded_segment* const found = segment_named(modules, path);
    ASSERT_NE(found, nullptr) << path;
    EXPECT_EQ(found->start, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_EQ(found->build_id_length, 0U) << path;
    munmap(memory, 2 * page_bytes);
  }
}

TEST_F(loaded_modules_test, join_what_is_adjacent_and_keep_the_end_of_a_line_out) {
  const std::string path = folder + "/two\nlines";
  std::ofstream(path) << std::string(3 * page_bytes, 'x');
  auto* const memory = static_cast<char*>(map(path, 3 * page_bytes));
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory + page_bytes, page_bytes, MADV_DONTDUMP);  // the kernel has three mappings then
  const loaded_modules modules;
  const loaded_segment* const found =
      segment_of(modules, reinterpret_cast<std::uintptr_t>(memory) + 2 * page_bytes);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->path, folder + "/two\\012lines");
  EXPECT_EQ(found->end - found->start, 3 * page_bytes);
  EXPECT_EQ(found->file_offset, 0U);
  munmap(memory, 3 * page_bytes);
}

TEST_F(loaded_modules_test, take_any_list) {
  const std::string list = folder + "/maps";
  const std::string name = "/" + std::string(9000, 'y');
  std::ofstream(list) << "\n-\nx y z\n1000-2000 r-xp\n1000-2000 r-xp 0 0:0 0\n1000-2000 r--p 0 0:0 7 /data\n"
                      << "3000-5000 r-xp 00001000 fd:01 12   /lib/a b (deleted)\n"
                      << "6000-7000 rwxp 0 0:0 0\n8000-9000 r-xp 0 0:0 0 [stack]\n"
                      << "a000-b000 r-xp 0 fd:01 3 " << name << "\nc000-d000 r-xp 0 fd:01 4 /last";
  const loaded_modules modules(list.c_str());
  ASSERT_EQ(modules.count(), 3U);
  EXPECT_STREQ(modules[0].path, "/lib/a b");
  EXPECT_EQ(modules[0].start, 0x3000U);
  EXPECT_EQ(modules[0].end, 0x5000U);
  EXPECT_EQ(modules[0].file_offset, 0x1000U);
  EXPECT_EQ(modules[1].path, name.substr(0, 4095));
  EXPECT_STREQ(modules[2].path, "/last");
  const loaded_modules none((folder + "/nothing").c_str());
  EXPECT_TRUE(none.valid());
  EXPECT_EQ(none.count(), 0U);
}

TEST_F(loaded_modules_test, are_read_beside_a_thread_that_loads_libraries) {
  const std::string path = folder + "/often.so";
  fs::copy_file(segment_of(loaded_modules(), address_in("cos"))->path, path);
  std::atomic<bool> ends{false};
  std::thread loader([&] {
    while (!ends) {
      void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) dlclose(library);
    }
  });
  const std::uintptr_t known = address_in("getppid");
  for (int i = 0; i < 300; ++i) {
    const loaded_modules modules;
    ASSERT_TRUE(modules.valid());
    const loaded_segment* const found = segment_of(modules, known);
    ASSERT_NE(found, nullptr);
    EXPECT_NE(found->build_id_length, 0U);
  }
  ends = true;
  loader.join();
}

}  // namespace
}  // namespace tarn
