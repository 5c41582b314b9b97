// SPDX-License-Identifier: MIT
// The fields of pprof's message, read back by a small reader of protocol buffers.
#include <gtest/gtest.h>

#include <map>

#include "profiler/export/exports.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "unpacked.hpp"

namespace tarn::profiler {
namespace {

// A message's fields, by their numbers: numbers as they are, nested messages and texts as bytes.
struct read_message {
  std::map<unsigned, std::vector<std::uint64_t>> numbers;
  std::map<unsigned, std::vector<std::string>> texts;

  std::uint64_t number(unsigned field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second.at(0);
  }
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 127U} << shift;
    if (byte < 128) break;
  }
  return value;
}

std::vector<std::uint64_t> varints(std::string_view bytes) {
  std::vector<std::uint64_t> values;
  while (!bytes.empty()) values.push_back(take_varint(bytes));
  return values;
}

read_message parsed(std::string_view bytes) {
  read_message found;
  while (!bytes.empty()) {
    const std::uint64_t tag = take_varint(bytes);
    const auto field = static_cast<unsigned>(tag >> 3);
    if ((tag & 7) == 0) {
      found.numbers[field].push_back(take_varint(bytes));
    } else {
      const std::uint64_t size = take_varint(bytes);
      EXPECT_LE(size, bytes.size());
      found.texts[field].emplace_back(bytes.substr(0, size));
      bytes.remove_prefix(std::min<std::size_t>(size, bytes.size()));
    }
  }
  return found;
}

read_message exported(const profile& p) { return parsed(unpacked(export_pprof(p))); }

// The fields of profile.proto.
constexpr unsigned sample_type = 1, sample = 2, mapping = 3, location = 4, function = 5, strings = 6,
                   duration = 10, period = 12, comment = 13, default_type = 14;

TEST(pprof, a_sample_is_its_path_innermost_first_with_all_metrics) {
  profile p;
  p.meta = {{"duration_ns", 5e9}, {"sample_bytes", 1024}};
  p.modules = {{"/bin/p", "ab", 0x1000, 0x2000, 0x500}};
  p.stacks = {{}, {0, 0x1010}, {1, 0x1020}};
  p.symbols[0x1020] = {{"inlined", "a.cpp", 3, true}, {"f", "a.cpp", 9, false}};
  p.sites.resize(1);
  p.sites[0].stack = 2;
  p.sites[0].type = "order";
  p.sites[0].figures.allocations = 7;
  p.sites[0].figures.bytes = 700;
  const read_message all = exported(p);
  const std::vector<std::string>& text = all.texts.at(strings);
  EXPECT_EQ(text.at(0), "");
  EXPECT_EQ(all.number(duration), 5000000000U);
  EXPECT_EQ(all.number(period), 1024U);
  EXPECT_EQ(text.at(all.number(default_type)), "cost");
  std::string types;
  for (const std::string& each : all.texts.at(sample_type))
    types += text.at(parsed(each).number(1)) + "/" + text.at(parsed(each).number(2)) + " ";
  EXPECT_EQ(
      types,
      "cost/nanoseconds malloc/nanoseconds hidden/nanoseconds faults/count allocations/count bytes/bytes "
      "live/count live_bytes/bytes peak/bytes ");
  ASSERT_EQ(all.texts.at(sample).size(), 1U);
  const read_message one = parsed(all.texts.at(sample)[0]);
  EXPECT_EQ(varints(one.texts.at(1).at(0)), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(varints(one.texts.at(2).at(0)), (std::vector<std::uint64_t>{0, 0, 0, 0, 7, 700, 0, 0, 0}));
  EXPECT_EQ(text.at(parsed(one.texts.at(3).at(0)).number(1)), "type");
  EXPECT_EQ(text.at(parsed(one.texts.at(3).at(0)).number(2)), "order");

  const read_message inner = parsed(all.texts.at(location).at(0));
  EXPECT_EQ(inner.number(1), 1U);
  EXPECT_EQ(inner.number(2), 1U) << "the module's number";
  EXPECT_EQ(inner.number(3), 0x1020U);
  ASSERT_EQ(inner.texts.at(4).size(), 2U) << "a line for each function inlined there";
  EXPECT_EQ(parsed(inner.texts.at(4)[0]).number(2), 3U);
  const auto name_of = [&](const std::string& line) {
    return text.at(parsed(all.texts.at(function).at(parsed(line).number(1) - 1)).number(2));
  };
  EXPECT_EQ(name_of(inner.texts.at(4)[0]), "inlined");
  EXPECT_EQ(name_of(inner.texts.at(4)[1]), "f");
  EXPECT_EQ(name_of(parsed(all.texts.at(location).at(1)).texts.at(4).at(0)), "?? (p+0x510)");

  const read_message module = parsed(all.texts.at(mapping).at(0));
  EXPECT_EQ(module.number(2), 0x1000U);
  EXPECT_EQ(module.number(4), 0x500U);
  EXPECT_EQ(text.at(module.number(5)), "/bin/p");
  EXPECT_EQ(text.at(module.number(6)), "ab");
}

TEST(pprof, can_be_read_again) {
  profile p;
  p.meta = {{"sample_bytes", 1024}};
  p.modules = {{"/bin/p", "ab", 0x1000, 0x2000, 0x500}};
  p.stacks = {{}, {0, 0x1010}};
  p.symbols[0x1010] = {{"f", "a.cpp", 9, false}};
  p.sites.resize(1);
  p.sites[0].stack = 1;
  p.sites[0].figures.allocations = 7;
  p.sites[0].figures.bytes = 700;
  p.sites[0].figures.live = 3;
  p.sites[0].figures.live_bytes = 300;
  const std::string text = export_pprof(p);
  scratch_file file;
  file.set({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  const profile again = load_profile(file.path());
  ASSERT_EQ(again.sites.size(), 1U);
  EXPECT_EQ(again.sites[0].figures.live_bytes, 300);
  EXPECT_EQ(again.sites[0].figures.live, 3);
  EXPECT_EQ(again.sites[0].figures.bytes, 700);
  EXPECT_EQ(again.sites[0].figures.allocations, 7);
  EXPECT_EQ(again.meta["sample_bytes"], 1024);
  p.meta["sample_bytes"] = 0;
  const std::string exact = export_pprof(p);
  file.set({reinterpret_cast<const std::uint8_t*>(exact.data()), exact.size()});
  EXPECT_EQ(load_profile(file.path()).meta["sample_bytes"], 0);
  EXPECT_EQ(frames_of(again, again.sites[0].stack)[0].function, "f");
}

TEST(pprof, what_has_no_call_path_has_a_location_without_an_address) {
  profile p{.other_faults = 3, .damage = "the file ends too early"};
  const read_message all = exported(p);
  const read_message place = parsed(all.texts.at(location).at(0));
  EXPECT_EQ(place.number(2), 0U);
  EXPECT_EQ(place.number(3), 0U);
  EXPECT_EQ(all.texts.at(strings).at(parsed(all.texts.at(function).at(0)).number(2)),
            "[faults outside of allocated memory]");
  EXPECT_EQ(all.texts.at(strings).at(all.number(comment)), "damaged: the file ends too early");
  EXPECT_EQ(all.number(period), 1U);
}

TEST(pprof, figures_stay_within_their_type) {
  profile p;
  p.meta = {{"start", 1e300}, {"duration_ns", -5}, {"sample_bytes", "many"}};
  p.sites.resize(1);
  p.sites[0].figures.bytes = 1e300;
  const read_message all = exported(p);
  EXPECT_EQ(all.number(9), 0U);
  EXPECT_EQ(all.number(duration), 0U);
  EXPECT_EQ(varints(parsed(all.texts.at(sample).at(0)).texts.at(2).at(0)).at(5), 9000000000000000000U);
}

}  // namespace
}  // namespace tarn::profiler
