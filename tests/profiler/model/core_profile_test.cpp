// SPDX-License-Identifier: MIT
// core_profile: what a made-up core file says, and files that are cut off, damaged or absurd. tests/cli/core_file_test.py has real
// ones.
#include "profiler/model/core_profile.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/procfs.h>

#include <csignal>
#include <cstring>
#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"
#include "samples/followed/core_root.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

template <class T>
void put(std::vector<std::uint8_t>& bytes, std::size_t at, const T& value) {
  if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T* at_address(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

// A core file of a process with two modules: one's data, at `data`, has the root, two sites and their paths; the other has code.
struct made_core {
  static constexpr std::uint64_t data = 0x7f0000001000;
  static constexpr std::uint64_t code = 0x550000000000;
  static constexpr std::uint64_t site_bytes = sizeof(tarn::call_site);
  // Where what lies, from `data` on.
  static constexpr std::uint64_t mean_at = 256, count_at = 264, table_pointer_at = 272, other_at = 512,
                                 first_at = 1024, second_at = 1536, table_at = 2048, frames_at = 2304;

  std::vector<std::uint8_t> bytes;
  static constexpr std::size_t notes_at = 512;
  static constexpr std::size_t data_at = 4096;

  made_core() {
    put_notes();
    put_head();
    put_data();
  }

  void put_head() {
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_type = ET_CORE;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = 2;
    put(bytes, 0, head);
    Elf64_Phdr part{};
    part.p_type = PT_NOTE;
    part.p_offset = notes_at;
    part.p_filesz = notes_end_ - notes_at;
    put(bytes, sizeof head, part);
    part = {};
    part.p_type = PT_LOAD;
    part.p_flags = PF_R | PF_W;
    part.p_vaddr = data;
    part.p_offset = data_at;
    part.p_filesz = part.p_memsz = 4096;
    put(bytes, sizeof head + sizeof part, part);
    bytes.resize(data_at + 4096);
  }

  void put_note(std::uint32_t type, const std::string& content) {
    const Elf64_Nhdr head{5, static_cast<Elf64_Word>(content.size()), type};
    put(bytes, notes_end_, head);
    notes_end_ += sizeof head;
    const char name[8] = "CORE";
    put(bytes, notes_end_, name);
    notes_end_ += sizeof name;
    for (const char one : content) put(bytes, notes_end_++, one);
    while (notes_end_ % 4 != 0) put(bytes, notes_end_++, '\0');
  }

  void put_notes() {
    prstatus_t status{};
    status.pr_cursig = SIGSEGV;
    put_note(NT_PRSTATUS, {reinterpret_cast<const char*>(&status), sizeof status});
    prpsinfo_t about{};
    about.pr_pid = 4711;
    std::strcpy(about.pr_fname, "service");
    std::strcpy(about.pr_psargs, "service --now");
    put_note(NT_PRPSINFO, {reinterpret_cast<const char*>(&about), sizeof about});
    const std::uint64_t files[] = {2, 4096, code, code + 0x1000, 3, data, data + 4096, 0};
    put_note(NT_FILE, std::string(reinterpret_cast<const char*>(files), sizeof files) +
                          std::string("/bin/service (deleted)\0/lib/libtarn.so.1\0", 42));
  }

  void put_site(std::uint64_t at, std::uint32_t count, std::uint64_t live, std::uint64_t frames) {
    tarn::call_site site;
    site.figures.samples = 9;
    site.figures.live_samples = 3;
    site.figures.blocks = 100 << 12;
    site.figures.live_blocks = 10 << 12;
    site.figures.bytes = 10 * live;
    site.figures.live_bytes = live;
    site.count = count;
    site.frames = at_address<const std::uintptr_t>(data + frames);
    put(bytes, data_at + at, site);
  }

  void put_data() {
    const tarn::core_root root{
        tarn::core_magic,
        at_address<const tarn::core_root>(data),
        sizeof root,
        site_bytes,
        "9.8.7",
        at_address<const std::atomic<std::size_t>>(data + mean_at),
        {at_address<tarn::call_site* const* const>(data + table_pointer_at),
         at_address<const std::size_t>(data + count_at), at_address<const tarn::call_site>(data + other_at)}};
    put(bytes, data_at, root);
    put(bytes, data_at + mean_at, std::uint64_t{1000});
    put(bytes, data_at + count_at, std::uint64_t{2});
    put(bytes, data_at + table_pointer_at, std::uint64_t{data + table_at});
    put(bytes, data_at + table_at, std::uint64_t{data + first_at});
    put(bytes, data_at + table_at + 8, std::uint64_t{data + second_at});
    put_site(first_at, 2, 5000, frames_at);
    put_site(second_at, 1, 700, frames_at + 8);
    put(bytes, data_at + frames_at, std::uint64_t{code + 0x10});
    put(bytes, data_at + frames_at + 8, std::uint64_t{code + 0x20});
  }

  profile load() const {
    scratch_file file;
    file.set(bytes);
    return profile_of_core(file.path());
  }

  // What load() refuses with.
  std::string refusal() const {
    try {
      load();
      return "";
    } catch (const profile_error& error) {
      return error.what();
    }
  }

 private:
  std::size_t notes_end_ = notes_at;
};

TEST(core_profile, what_lived_by_path) {
  const profile p = made_core().load();
  ASSERT_EQ(p.sites.size(), 2U);
  EXPECT_EQ(p.sites[0].figures.live_bytes, 5000);
  EXPECT_EQ(p.sites[0].figures.live, 10);
  EXPECT_EQ(p.sites[1].figures.live_bytes, 700);
  EXPECT_EQ(p.damage, "");
  EXPECT_EQ(number_in(p.meta, "pid"), 4711);
  EXPECT_EQ(text_in(p.meta, "program"), "service");
  EXPECT_EQ(number_in(p.meta["exit"], "signal"), SIGSEGV);
  EXPECT_GE(number_in(p.meta, "sample_bytes"), 1000);
  ASSERT_EQ(p.modules.size(), 1U);
  EXPECT_EQ(p.modules[0].path, "/bin/service");
  EXPECT_EQ(p.modules[0].file_offset, 3U * 4096);
  const stack_node& inner = p.stacks[p.sites[0].stack];
  EXPECT_EQ(inner.address, made_core::code + 0x10);
  EXPECT_EQ(p.stacks[inner.parent].address, made_core::code + 0x20);
}

TEST(core_profile, other_processes_are_refused_with_what_to_do) {
  made_core other;
  put(other.bytes, made_core::data_at + 14, '\2');
  EXPECT_NE(other.refusal().find("read it with that version"), std::string::npos) << other.refusal();
  EXPECT_NE(other.refusal().find("9.8.7"), std::string::npos);
  made_core elsewhere;  // a copy of a root, as a reader of core files may have
  put(elsewhere.bytes, made_core::data_at + 16, made_core::data + 4096);
  EXPECT_NE(elsewhere.refusal().find("coredump_filter"), std::string::npos) << elsewhere.refusal();
  made_core off;
  put(off.bytes, made_core::data_at + made_core::count_at, std::uint64_t{0});
  EXPECT_NE(off.refusal().find("too little"), std::string::npos) << off.refusal();
  put(off.bytes, made_core::data_at + made_core::mean_at, std::uint64_t{0});
  EXPECT_NE(off.refusal().find("TARN_PROFILE=on"), std::string::npos) << off.refusal();
  made_core narrow;
  narrow.bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_NE(narrow.refusal().find("32 bits"), std::string::npos) << narrow.refusal();
}

TEST(core_profile, what_is_missing_or_cannot_be_is_damage) {
  made_core missing;
  put(missing.bytes, made_core::data_at + made_core::table_at, std::uint64_t{64});
  EXPECT_NE(missing.load().damage.find("1 of 2 call paths lie in memory that it does not have"),
            std::string::npos);
  EXPECT_EQ(missing.load().sites.size(), 1U);
  made_core absurd;
  absurd.put_site(made_core::first_at, 2, std::uint64_t{1} << 50, made_core::frames_at);
  EXPECT_NE(absurd.load().damage.find("1 call paths have figures that cannot be"), std::string::npos);
  absurd.put_site(made_core::second_at, 65, 700, made_core::frames_at);
  EXPECT_NE(absurd.refusal().find("damaged"), std::string::npos);
  made_core many;
  put(many.bytes, made_core::data_at + made_core::count_at, std::uint64_t{1} << 60);
  EXPECT_NE(many.refusal().find("damaged"), std::string::npos);
}

TEST(core_profile, absurd_tables_take_no_time) {
  // All of them claim more than any process has.
  made_core segments;
  segments.bytes.resize(std::size_t{1} << 20);
  Elf64_Ehdr head{};
  std::memcpy(&head, segments.bytes.data(), sizeof head);
  head.e_phnum = PN_XNUM;
  head.e_shoff = 8192;
  put(segments.bytes, 0, head);
  Elf64_Shdr first{};
  first.sh_info = 0xffffffff;
  put(segments.bytes, 8192, first);
  EXPECT_NE(segments.refusal().find("cut off"), std::string::npos) << segments.refusal();
  // A root at each place where one may lie, and each of them with its own address.
  made_core roots;
  for (std::uint64_t at = 0; at + sizeof(tarn::core_root) < 4096; at += 80) {
    tarn::core_root root{};
    std::memcpy(static_cast<void*>(&root), roots.bytes.data() + made_core::data_at, sizeof root);
    root.self = at_address<const tarn::core_root>(made_core::data + at);
    if (at > 0) put(roots.bytes, made_core::data_at + at, root);
  }
  roots.refusal();
}

TEST(core_profile, any_file_is_read_or_refused) {
  const made_core whole;
  for (std::size_t length = 0; length < whole.bytes.size(); length += length < 1024 ? 1 : 61) {
    made_core cut = whole;
    cut.bytes.resize(length);
    try {
      const profile p = cut.load();
      EXPECT_TRUE(p.sites.size() == 2 || !p.damage.empty()) << length;
    } catch (const profile_error& error) {
      EXPECT_NE(std::string(error.what()).find("cut off"), std::string::npos) << length << error.what();
    }
  }
  mutator chance(1);
  for (int round = 0; round < 3000; ++round) {
    made_core changed = whole;
    if (round % 2 == 0) {
      chance.mutate(changed.bytes);
    } else {  // in what is read: the head, the notes, and the data
      const std::size_t from[] = {0, made_core::notes_at, made_core::data_at};
      const std::size_t room[] = {200, 900, 2400};
      const std::size_t which = chance.below(3);
      for (int times = 0; times < 3; ++times)
        changed.bytes[from[which] + chance.below(room[which])] ^=
            static_cast<std::uint8_t>(1U << chance.below(8));
    }
    changed.refusal();
  }
}

}  // namespace
}  // namespace tarn::profiler
