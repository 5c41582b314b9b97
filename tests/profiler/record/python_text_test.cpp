// SPDX-License-Identifier: MIT
// Strings and code objects in CPython's layout, made by hand.
#include "profiler/record/python_text.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace tarn::profiler;

python_layout layout_312() {
  return {.code_lines = 136, .code_first_line = 68, .code_bytes = 192, .ascii_begin = 40, .text_begin = 56};
}

template <class letter>
std::vector<std::uint8_t> text_object(const std::basic_string<letter>& text, bool ascii) {
  std::vector<std::uint8_t> object((ascii ? 40 : 56) + text.size() * sizeof(letter));
  const std::size_t length = text.size();
  const auto state = static_cast<std::uint32_t>(sizeof(letter) << 2 | 1U << 5 | (ascii ? 1U << 6 : 0U));
  std::memcpy(object.data() + 16, &length, sizeof length);
  std::memcpy(object.data() + 32, &state, sizeof state);
  std::memcpy(object.data() + (ascii ? 40 : 56), text.data(), text.size() * sizeof(letter));
  return object;
}

template <class letter>
std::string utf8(const std::basic_string<letter>& text, bool ascii, std::size_t room = 100) {
  const std::vector<std::uint8_t> object = text_object(text, ascii);
  guarded_reader from(false);
  std::string out(room, '?');
  out.resize(
      python_text(layout_312(), from, reinterpret_cast<std::uintptr_t>(object.data()), out.data(), room));
  return out;
}

TEST(python_text, letters_of_every_width) {
  EXPECT_EQ(utf8(std::string("rows.py"), true), "rows.py");
  EXPECT_EQ(utf8(std::string("\xe4"), false), "\xc3\xa4");
  EXPECT_EQ(utf8(std::u16string(u"a\u20ac"), false), "a\xe2\x82\xac");
  EXPECT_EQ(utf8(std::u32string(U"\U0001f40d"), false), "\xf0\x9f\x90\x8d");
  EXPECT_EQ(utf8(std::u16string(u"aa\u20ac"), false, 4), "aa") << "cut between letters";
}

TEST(python_text, memory_that_is_not_there_gives_nothing) {
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  for (const auto address :
       {reinterpret_cast<std::uintptr_t>(page), std::uintptr_t{8}, ~std::uintptr_t{0} - 100}) {
    guarded_reader from(false);
    char out[16];
    EXPECT_EQ(python_text(layout_312(), from, address, out, sizeof out), 0U);
    EXPECT_TRUE(from.failed());
    guarded_reader again(false);
    EXPECT_EQ(python_line(layout_312(), again, address, address + 200), 0U);
  }
  munmap(page, 4096);
}

TEST(python_text, lines_by_the_table) {
  // The line table of a code object. Units 0 to 2: two lines on; unit 3: the next line; unit 4: no line; unit 5: 100
  // lines back.
  const std::vector<std::uint8_t> table = {0x80 | 13 << 3 | 2, 2 << 1,         0x80 | 11 << 3,    0,       0,
                                           0x80 | 15 << 3,     0x80 | 13 << 3, 0x40 | (201 & 63), 201 >> 6};
  std::vector<std::uint8_t> bytes(32);
  const std::size_t size = table.size();
  std::memcpy(bytes.data() + 16, &size, sizeof size);
  bytes.insert(bytes.end(), table.begin(), table.end());
  std::vector<std::uint8_t> code(192 + 16);
  const std::uint32_t first_line = 200;
  const auto lines = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::memcpy(code.data() + 68, &first_line, sizeof first_line);
  std::memcpy(code.data() + 136, &lines, sizeof lines);
  const auto at = reinterpret_cast<std::uintptr_t>(code.data());
  const auto line = [at](unsigned unit) {
    guarded_reader from(true);
    return python_line(layout_312(), from, at, at + 192 + 2 * unit);
  };
  EXPECT_EQ(line(0), 202U);
  EXPECT_EQ(line(2), 202U);
  EXPECT_EQ(line(3), 203U);
  EXPECT_EQ(line(4), 200U) << "the function's first line";
  EXPECT_EQ(line(5), 103U);
  EXPECT_EQ(line(7), 200U);
}

}  // namespace
