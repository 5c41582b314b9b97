// SPDX-License-Identifier: MIT
// Text is passed on in pieces of about a mebibyte.
#include "profiler/export/packer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tarn::profiler {
namespace {

TEST(piece_writer, a_piece_is_passed_on_once_it_is_longer_than_a_mebibyte) {
  std::vector<std::size_t> pieces;
  piece_writer out([&pieces](std::string_view piece) { pieces.push_back(piece.size()); });
  const std::string most(std::size_t{1} << 20, 'x');
  out.flush();
  out.write("");
  out.write(most);
  EXPECT_TRUE(pieces.empty());
  out.write("y");
  EXPECT_EQ(pieces, (std::vector<std::size_t>{most.size() + 1}));
  out.write("ab");
  out.write("c");
  out.flush();
  out.flush();
  EXPECT_EQ(pieces, (std::vector<std::size_t>{most.size() + 1, 3}));
}

}  // namespace
}  // namespace tarn::profiler
