// SPDX-License-Identifier: MIT
// The table "proof" of a profile: the results of tarn prove.
#include "profiler/model/proof.hpp"

#include <gtest/gtest.h>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

TEST(proof, is_appended_to_an_existing_file_and_read_back) {
  const scratch_file file;
  table_writer(file.path()).append_json("meta", R"({"program":"p"})");
  proof what{.start = 1000, .rounds = 12, .seconds = 34.5, .limit_seconds = 40, .load = "load"};
  proof_way way;
  way.name = "jemalloc";
  way.kind = "another malloc";
  way.library = "/lib/j.so";
  way.variables = {{"A", "b"}};
  way.decision = proof_decision::no_gain;
  way.rounds = 7;
  way.layer_seconds = 0.25;
  way.layered_ratio = 0.9;
  way.of(proof_metric::cpu) = {1.5, 0.8, 0.7, 0.9, 0.95, proof_outcome::less};
  what.ways = {way, way};
  what.ways[1].failure = "exit status 1";
  table_writer(file.path(), table_writer::start::go_on).append_json("proof", as_json(what).dump());
  const profile p = load_profile(file.path());
  EXPECT_EQ(p.damage, "");
  EXPECT_EQ(p.meta.at("program"), "p");
  EXPECT_EQ(as_json(p.proven), as_json(what));
  EXPECT_EQ(p.proven.ways[0].decision, proof_decision::no_gain);
}

TEST(proof, nothing_is_added_to_a_damaged_file) {
  const scratch_file file;
  {
    table_writer out(file.path());
    out.append_json("meta", "{}");
  }
  {
    FILE* end = std::fopen(file.path().c_str(), "ab");
    std::fputs("TCHK", end);
    std::fclose(end);
  }
  EXPECT_THROW(table_writer(file.path(), table_writer::start::go_on), profile_error);
  EXPECT_THROW(table_writer("/nonexistent/p", table_writer::start::go_on), profile_error);
}

TEST(proof, a_later_one_keeps_what_it_did_not_measure) {
  const auto named = [](const char* name, int rounds) {
    proof_way way;
    way.name = name;
    way.rounds = rounds;
    return way;
  };
  proof earlier;
  earlier.ways = {named("tarn", 5), named("keep-memory", 5)};
  proof now;
  now.ways = {named("keep-memory", 2)};
  const proof both = joined(earlier, now);
  ASSERT_EQ(both.ways.size(), 2U);
  EXPECT_EQ(both.ways[0].rounds, 2);
  EXPECT_EQ(both.ways[1].name, "tarn");
  now.load = "ab";
  EXPECT_EQ(joined(earlier, now).ways.size(), 1U) << "another load";
}

TEST(proof, invalid_members_are_left_out) {
  for (
      const char* text :
      {R"([])", R"({"rounds":-1,"ways":5})", R"({"ways":[{"decision":"sure","rounds":-3}]})",
       R"({"rounds":1e300,"ways":[5,{"figures":[]},{"figures":{"cpu_time":7}}]})",
       R"({"ways":[{"name":5,"variables":[1],"figures":{"cpu_time":{"ratio":"x","low":-5,"high":1e99,"outcome":3}}}]})"}) {
    const proof what = read_proof(nlohmann::json::parse(text));
    EXPECT_GE(what.rounds, 0) << text;
    for (const proof_way& way : what.ways) {
      const proven_figure& cpu = way.of(proof_metric::cpu);
      EXPECT_LE(cpu.low, cpu.ratio) << text;
      EXPECT_GE(cpu.high, cpu.ratio) << text;
    }
  }
  proof_way way;
  way.name = "a\x1b[2J";
  proof what;
  what.ways = {way};
  EXPECT_EQ(read_proof(as_json(what)).ways[0].name, "a\\x1b[2J");
}

}  // namespace
}  // namespace tarn::profiler
