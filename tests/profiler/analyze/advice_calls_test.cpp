// SPDX-License-Identifier: MIT
// The rules about the time in malloc and free, one by one.
#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/model/script_address.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

// What the rule says about the program's only group.
template <class Rule>
auto of_group(Rule rule, const small_program& program) {
  const advice_facts facts = facts_of(program.p);
  return rule(facts, facts.groups.at(0));
}

TEST(advice_calls, a_pool_is_written_as_the_type_allows) {
  small_program program;
  site& one = program.add({"insert()"}, 72, 1e6);
  EXPECT_EQ(
      of_group(advise_pool, program)->change,
      "#include <tarn/pool.hpp>\n"
      "T* one = tarn::pool_of<T>().create(…);  tarn::pool_of<T>().destroy(one);  // T: the struct of 72 B made "
      "here");
  one.type = "std::_Rb_tree_node<std::pair<const long, order> >";
  EXPECT_EQ(of_group(advise_pool, program)->change,
            "#include <tarn/pooled.hpp>\n"
            "give the container tarn::pooled_allocator<value_type> as its allocator");
  one.type = "order";
  EXPECT_EQ(of_group(advise_pool, program)->headline, "A typed pool for order");
  one.figures.foreign_frees = 0.05 * one.figures.frees;
  EXPECT_EQ(of_group(advise_pool, program)->headline, "An object pool for order");
}

TEST(advice_calls, a_pool_needs_many_blocks_of_one_size_that_are_freed) {
  const auto advised = [](const auto& change) {
    small_program program;
    change(program.add({"insert()"}, 64, 10000));
    return of_group(advise_pool, program).has_value();
  };
  EXPECT_TRUE(advised([](site&) {}));
  EXPECT_FALSE(advised([](site& one) { one.figures.allocations = 9999; }));
  EXPECT_FALSE(advised([](site& one) { one.figures.frees = 4999; }));
  EXPECT_FALSE(advised([](site& one) { one.sizes = {{64, 7999, true}, {65, 2001, true}}; }));
  EXPECT_TRUE(advised([](site& one) { one.sizes = {{64, 8000, true}, {65, 2000, true}}; }));
  EXPECT_FALSE(advised([](site& one) { one.sizes = {{64, 10000, false}}; })) << "64 to 127 bytes";
  EXPECT_FALSE(advised([](site& one) { one.sizes = {{8193, 10000, true}}; }));
  EXPECT_FALSE(advised([](site& one) { one.sizes.clear(); }));
}

TEST(advice_calls, the_places_of_one_file_share_an_arena) {
  small_program program;
  for (const char* function : {"parse_value()", "parse_array()"}) {
    site& one = program.add({function}, 48, 1e6);
    one.figures.batch_frees = 0.8 * one.figures.frees;
    one.type = function;
  }
  const std::vector<advice> arenas = advise_arenas(facts_of(program.p));
  ASSERT_EQ(arenas.size(), 1U);
  EXPECT_EQ(arenas[0].sites.size(), 2U);
  EXPECT_EQ(arenas[0].type, "") << "several types";
  EXPECT_DOUBLE_EQ(arenas[0].counted_ns, 2e6 * 10);
  program.p.sites[0].figures.batch_frees -= 1;
  program.p.sites[1].figures.foreign_frees = 0.05 * program.p.sites[1].figures.frees;
  EXPECT_TRUE(advise_arenas(facts_of(program.p)).empty());
}

TEST(advice_calls, blocks_that_realloc_enlarges_are_reserved) {
  small_program program;
  site& one = program.add({"append()"}, 4096, 2000);
  one.figures.reallocs = 1000;
  one.figures.realloc_bytes = 4096 * 1000;
  const auto advised = of_group(advise_reserve, program);
  ASSERT_TRUE(advised);
  EXPECT_EQ(advised->reason, "realloc enlarges the same blocks again and again.");
  EXPECT_EQ(advised->evidence[0], "1,000 growing reallocs of 2,000 allocations");
  EXPECT_DOUBLE_EQ(advised->counted_ns, 10000) << "half of the time in malloc";
  one.figures.reallocs = 999;
  EXPECT_FALSE(of_group(advise_reserve, program));
}

TEST(advice_calls, long_lived_objects_are_not_recycled) {
  small_program program;
  program.add({"ns::parser::parser(int)", "serve()"}, 4096, 1e4);
  program.add({"ns::parser::parser(int)", "serve()"}, 512, 1e4);
  EXPECT_EQ(advise_recyclers(facts_of(program.p)).size(), 1U);
  for (site& one : program.p.sites) one.figures.lifetime_ns = one.figures.frees * 0.06 * 1e9;
  EXPECT_TRUE(advise_recyclers(facts_of(program.p)).empty());
}

TEST(advice_calls, another_malloc_is_advised_for_time_in_malloc_alone) {
  small_program program;
  site& one = program.add({"work()"}, 64, 1e6);
  EXPECT_DOUBLE_EQ(advise_allocator(facts_of(program.p))->counted_ns, 1e7);
  one.figures.malloc_ns = 0;
  EXPECT_FALSE(advise_allocator(facts_of(program.p)));
  EXPECT_FALSE(advise_allocator(facts_of(small_program().p)));
}

// A program of one place, whose objects a pool, an arena and a buffer pool suit.
small_program program_in(const char* function, const char* file, std::uint64_t size, bool is_script) {
  small_program program;
  site& one = program.add({function}, size, 5e6);
  one.figures.batch_frees = one.figures.frees;
  one.figures.peak_bytes = one.figures.bytes_at_peak = static_cast<double>(size);
  if (size >= 65536) one.figures.faults = one.figures.fault_pages = one.figures.bytes / 4096;
  const std::uint64_t address = is_script ? script_address(function, file, 3) : 0x1000;
  program.p.stacks[one.stack].address = address;
  program.p.symbols = {{address, {{function, file, 3, false}}}};
  return program;
}

TEST(advice_calls, other_languages_get_no_lines_of_cpp) {
  for (const auto& [function, file, is_script] : {std::tuple{"work()", "/home/me/a.cpp", false},
                                                  {"app::work", "/home/me/a.rs", false},
                                                  {"app::work", "", false},
                                                  {"main.work", "/home/me/a.go", false},
                                                  {"work", "/home/me/a.lua", true},
                                                  {"work", "a.py", true}}) {
    for (const std::uint64_t size : {std::uint64_t{64}, std::uint64_t{1} << 20}) {
      bool is_cpp = false;
      std::size_t places = 0;
      for (const advice& one : advise(program_in(function, file, size, is_script).p)) {
        is_cpp = is_cpp || (one.change + one.reason + one.headline).find("pool") != std::string::npos;
        is_cpp = is_cpp || one.change.find("tarn/") != std::string::npos;
        places += one.place.empty() ? 0 : 1;
      }
      EXPECT_EQ(is_cpp, std::string_view(file).ends_with(".cpp")) << file << function;
      EXPECT_GE(places, 1U) << file << ": it is not without advice";
    }
  }
}

TEST(advice_calls, a_script_is_the_readers_unless_it_is_installed) {
  for (const auto& [file, reach] :
       {std::pair{"/home/me/a.lua", advice_reach::own_code},
        {"a.py", advice_reach::own_code},
        {"/usr/share/lua/5.4/x.lua", advice_reach::package},
        {"/home/me/venv/lib/python3.11/site-packages/x.py", advice_reach::package}}) {
    const small_program program = program_in("work", file, 64, true);
    const advice_facts facts = facts_of(program.p);
    ASSERT_EQ(facts.groups.size(), 1U);
    EXPECT_EQ(reach_of(program.p, facts.groups[0].place), reach) << file;
  }
}

}  // namespace
}  // namespace tarn::profiler
