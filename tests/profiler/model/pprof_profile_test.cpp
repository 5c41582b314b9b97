// SPDX-License-Identifier: MIT
// pprof_profile: what a heap profile of pprof says is there by path and name; bytes that are none are refused, with little memory.
#include "profiler/model/pprof_profile.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/format/pprof_message.hpp"
#include "profiler/format/table_file.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

using pprof::message;

enum pprof_text : std::uint64_t {
  no_text,
  t_space,
  t_objects,
  t_bytes,
  t_keep,
  t_main,
  t_inlined,
  t_file,
  t_module,
  t_period
};

struct pprof_sample {
  std::vector<std::uint64_t> path;  // innermost first
  std::vector<std::uint64_t> values;
};

message pprof_line(std::uint64_t function, std::uint64_t line) {
  message made;
  made.number(1, function).number(2, line);
  return made;
}

// Places 1: keep, inlined into store; 2: main; 3: of the module, without a name.
std::string pprof_text(const std::vector<pprof_sample>& samples,
                       const std::vector<std::uint64_t>& types = {t_objects, t_space},
                       std::uint64_t unit = t_bytes) {
  message out;
  for (const std::uint64_t type : types) {
    message one;
    one.number(1, type).number(2, unit);
    out.nested(pprof::sample_type, one);
  }
  for (const pprof_sample& each : samples) {
    message one;
    one.numbers(1, each.path.data(), each.path.size()).numbers(2, each.values.data(), each.values.size());
    out.nested(pprof::sample, one);
  }
  message module;
  module.number(1, 1).number(2, 0x1000).number(3, 0x9000).number(4, 0x100).number(5, t_module);
  out.nested(pprof::mapping, module);
  message first, second, third;
  first.number(1, 1).number(2, 1).number(3, 0x2000);
  first.nested(4, pprof_line(1, 7));
  first.nested(4, pprof_line(2, 8));
  second.number(1, 2).number(2, 1).number(3, 0x3000);
  second.nested(4, pprof_line(3, 9));
  third.number(1, 3).number(2, 1).number(3, 0x4000);
  for (const message& each : {first, second, third}) out.nested(pprof::location, each);
  for (const auto& [id, name] : {std::pair{1, t_keep}, std::pair{2, t_inlined}, std::pair{3, t_main}}) {
    message function;
    function.number(1, static_cast<std::uint64_t>(id)).number(2, name).number(4, t_file);
    out.nested(pprof::function, function);
  }
  for (const char* const text : {"", "inuse_space", "inuse_objects", "bytes", "keep", "main", "store",
                                 "shop.cpp", "/bin/shop", "space"})
    out.text(pprof::string_table, text);
  message period;
  period.number(1, t_period).number(2, t_bytes);
  out.nested(pprof::period_type, period);
  out.number(pprof::period, 1000);
  return out.take();
}

// The text so many times.
std::string packed(const std::string& text, std::size_t times = 1) {
  std::string out;
  z_stream stream = {};
  deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  for (std::size_t time = 0; time < times; ++time) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    do {
      const std::size_t before = out.size();
      out.resize(before + (1 << 16));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream.avail_out = 1 << 16;
      deflate(&stream, time + 1 == times ? Z_FINISH : Z_NO_FLUSH);
      out.resize(out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return out;
}

profile read_text(const std::string& text) {
  scratch_file file;
  file.set({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return load_profile(file.path());
}

std::string problem_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const profile_error& error) {
    return error.what();
  }
  return "none";
}

TEST(pprof_profile, figures_and_names) {
  const std::string text = pprof_text({{{1, 2}, {100, 5000}}, {{1, 2}, {20, 1000}}, {{3}, {1, 64}}});
  for (const std::string& each : {text, packed(text)}) {
    const profile p = read_text(each);
    ASSERT_EQ(p.sites.size(), 2U);
    EXPECT_FALSE(has_costs(p));
    const site& kept = p.sites[p.sites[0].figures.live > 1 ? 0 : 1];
    const site& other = p.sites[p.sites[0].figures.live > 1 ? 1 : 0];
    EXPECT_EQ(kept.figures.live, 120);
    EXPECT_EQ(kept.figures.live_bytes, 6000);
    EXPECT_EQ(kept.figures.bytes, 6000);
    const auto frames = frames_of(p, kept.stack);
    ASSERT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames[0].function, "keep");
    EXPECT_EQ(frames[0].file, "shop.cpp");
    EXPECT_EQ(frames[0].line, 7U);
    EXPECT_TRUE(frames[0].inlined);
    EXPECT_EQ(frames[1].function, "store");
    EXPECT_EQ(frames[2].function, "main");
    EXPECT_FALSE(frames[2].inlined);
    EXPECT_EQ(frames_of(p, other.stack)[0].function, "?? (shop+0x3100)");
  }
}

// As of V8 and jemalloc: nothing but what lived.
TEST(pprof_profile, the_short_name_is_of_live_memory) {
  EXPECT_EQ(read_text(pprof_text({{{1}, {5000}}}, {t_period})).sites.at(0).figures.live_bytes, 5000);
}

TEST(pprof_profile, a_packed_file_may_have_parts_and_has_one_profile) {
  message time;
  time.number(pprof::time_nanos, 5);
  const std::string text = pprof_text({{{1}, {1, 5000}}}) + time.take();
  const std::string parts = packed(text.substr(0, 50)) + packed(text.substr(50));
  EXPECT_EQ(read_text(parts).sites.at(0).figures.live_bytes, 5000);
  EXPECT_NE(problem_of(packed(text) + packed(text)).find("several profiles"), std::string::npos);
  EXPECT_NE(problem_of(packed(text) + "rest").find("damaged"), std::string::npos);
}

// 120 blocks of 50 bytes, of which each is a sample with 1 - exp(-50 / 1000).
TEST(pprof_profile, variances_are_those_of_samples) {
  const site_figures f = read_text(pprof_text({{{1}, {120, 6000}}})).sites.at(0).figures;
  const double chance = 1 - std::exp(-0.05);
  EXPECT_NEAR(f.samples, 120 * chance, 1e-6);
  EXPECT_NEAR(f.bytes_variance, 120 * (1 - chance) / chance * 2500, 1);
}

// A large block is a sample for sure, and does not make the small ones of its site less certain.
TEST(pprof_profile, each_size_has_its_own_variance) {
  const site_figures f = read_text(pprof_text({{{1}, {120, 6000}}, {{1}, {1, 900000}}})).sites.at(0).figures;
  const double chance = 1 - std::exp(-0.05);
  EXPECT_EQ(f.live_bytes, 906000);
  EXPECT_NEAR(f.live_bytes_variance, 120 * (1 - chance) / chance * 2500, 1);
}

// As the runtime of Go writes it since 1.23.
TEST(pprof_profile, the_type_of_the_period_may_come_first) {
  message period;
  period.number(1, t_space).number(2, t_bytes);
  message first;
  first.nested(pprof::period_type, period);
  const std::string text = first.take() + pprof_text({{{1}, {1, 5000}}});
  EXPECT_EQ(read_text(text).sites.at(0).figures.live_bytes, 5000);
  EXPECT_EQ(read_text(packed(text)).sites.at(0).figures.live_bytes, 5000);
}

TEST(pprof_profile, messages_may_come_in_any_order) {
  const std::string text = pprof_text({{{2}, {1, 5000}}});
  pprof::message_reader fields(text);
  message types, others;
  for (pprof::message_field each; fields.next(each);) {
    if (each.bytes.data() == nullptr)
      others.number(each.number, each.value);
    else
      (each.number == pprof::sample_type ? types : others).text(each.number, each.bytes);
  }
  EXPECT_EQ(read_text(others.whole() + types.whole()).sites.at(0).figures.live_bytes, 5000);
  EXPECT_EQ(read_text(packed(others.whole() + types.whole())).sites.at(0).figures.live_bytes, 5000);
}

TEST(pprof_profile, a_function_may_have_its_system_name_alone) {
  std::string text = pprof_text({{{2}, {1, 5000}}});
  message function, same;
  function.number(1, 3).number(2, t_main).number(4, t_file);
  same.number(1, 3).number(3, t_main).number(4, t_file);
  text.replace(text.find(function.whole()), function.whole().size(), same.whole());
  const profile p = read_text(text);
  EXPECT_EQ(frames_of(p, p.sites.at(0).stack).at(0).function, "main");
}

TEST(pprof_profile, what_is_none_is_refused) {
  message of_processor;
  of_processor.number(pprof::time_nanos, 1'800'000'000'000'000'000);
  EXPECT_NE(problem_of(packed(of_processor.take() + pprof_text({}, {t_keep}))).find("inuse_space"),
            std::string::npos);
  EXPECT_NE(problem_of(packed("")).find("empty"), std::string::npos);
  EXPECT_NE(problem_of(pprof_text({}, {t_objects})).find("inuse_space"), std::string::npos);
  EXPECT_NE(problem_of(pprof_text({{{1}, {1, ~std::uint64_t{0}}}})).find("below zero"), std::string::npos);
  EXPECT_NE(problem_of(pprof_text({{{7}, {1, 1}}})).find("damaged"), std::string::npos);
  EXPECT_NE(problem_of(pprof_text({{{1}, {1, 1}}}, {t_objects, t_space}, t_keep)).find("not bytes"),
            std::string::npos);
  EXPECT_NE(problem_of(pprof_text({{{1}, {1}}})).find("damaged"), std::string::npos);
  const std::string whole = packed(pprof_text({{{1}, {1, 1}}}));
  EXPECT_NE(problem_of(whole.substr(0, whole.size() - 20)).find("damaged"), std::string::npos);
  EXPECT_NE(problem_of("\x1f\x8bnothing").find("damaged"), std::string::npos);
}

// Between two fields, too, as when a packed file is cut and packed again: up to the last text, the rest has defaults.
TEST(pprof_profile, what_is_cut_off_is_refused) {
  const std::string text = pprof_text({{{1, 2, 3}, {1, 1}}});
  const std::size_t needed = text.rfind("space") - 2;
  for (std::size_t size = 0; size < needed; ++size)
    EXPECT_NE(problem_of(text.substr(0, size)), "none") << size;
}

// What unpacks to more than any profile, and few bytes that say much, end early.
TEST(pprof_profile, memory_is_bounded) {
  const std::string name(std::size_t{1} << 20, 'x');
  message out;
  message type;
  type.number(1, 1).number(2, 2);
  message many;
  many.nested(pprof::sample_type, type);
  EXPECT_NE(problem_of(packed(many.take() + std::string(1 << 20, '\x0a'), 300)).find("256 MiB"),
            std::string::npos);
  out.nested(pprof::sample_type, type);
  for (const char* const text : {"", "inuse_space", "bytes"}) out.text(pprof::string_table, text);
  out.text(pprof::string_table, name);
  message function;
  function.number(1, 1).number(2, 3);
  out.nested(pprof::function, function);
  message place;
  place.number(1, 1);
  for (int line = 0; line < 5000; ++line) place.nested(4, pprof_line(1, 1));
  out.nested(pprof::location, place);
  EXPECT_NE(problem_of(packed(out.whole())).find("more than any process"), std::string::npos);
}

// The name of the module stands in that of each place that has no function, and lies behind all files.
TEST(pprof_profile, memory_of_places_without_names_is_bounded) {
  message out;
  message type;
  type.number(1, 1).number(2, 2);
  out.nested(pprof::sample_type, type);
  for (const char* const text : {"", "inuse_space", "bytes"}) out.text(pprof::string_table, text);
  out.text(pprof::string_table, std::string(std::size_t{1} << 20, 'x'));
  message module;
  module.number(1, 1).number(5, 3);
  out.nested(pprof::mapping, module);
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    message place;
    place.number(1, id).number(2, 1).number(3, std::uint64_t{1} << 40U);
    out.nested(pprof::location, place);
  }
  EXPECT_NE(problem_of(packed(out.whole())).find("more than any process"), std::string::npos);
}

TEST(pprof_profile, a_sample_is_bounded) {
  constexpr std::size_t most = std::size_t{1} << 20;
  const auto deep = [](std::size_t depth) {
    return pprof_text({{std::vector<std::uint64_t>(depth, 2), {1, 5000}}});
  };
  EXPECT_EQ(read_text(deep(most)).sites.at(0).figures.live_bytes, 5000);
  EXPECT_NE(problem_of(deep(most + 1)).find("a million frames"), std::string::npos);
  EXPECT_NE(problem_of(pprof_text({{{1}, {1, 5000, 1}}})).find("damaged"), std::string::npos);
  message sample;  // a field for each number
  for (const std::uint64_t place : {1, 2}) sample.number(1, place);
  for (const std::uint64_t value : {1, 5000}) sample.number(2, value);
  message alone(pprof_text({}));
  alone.nested(pprof::sample, sample);
  EXPECT_EQ(read_text(alone.whole()).sites.at(0).figures.live_bytes, 5000);
  sample.number(2, 1);
  alone.nested(pprof::sample, sample);
  EXPECT_NE(problem_of(alone.whole()).find("damaged"), std::string::npos);
}

// Work for all that is unpacked, at each part, would take minutes.
TEST(pprof_profile, many_parts_take_little_time) {
  message out(pprof_text({{{1}, {1, 5000}}}));
  out.text(20, std::string(std::size_t{100} << 20, 'x'));  // of no known meaning
  std::string parts = packed(out.whole());
  const std::string none = packed("");
  for (int part = 0; part < 20'000; ++part) parts += none;
  EXPECT_EQ(read_text(parts).sites.at(0).figures.live_bytes, 5000);
}

TEST(pprof_profile, survives_any_bytes) {
  const std::string whole = pprof_text({{{1, 2}, {100, 5000}}, {{3}, {1, 64}}});
  mutator random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint8_t> bytes(whole.begin(), whole.end());
    random.mutate(bytes);
    const std::string text(bytes.begin(), bytes.end());
    problem_of(round % 4 == 0 ? packed(text) : text);
  }
}

}  // namespace
}  // namespace tarn::profiler
