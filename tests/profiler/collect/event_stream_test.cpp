// SPDX-License-Identifier: MIT
// The recorded program can overwrite its ring, so the reader must survive any content.
#include "profiler/collect/event_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "profiler/model/script_address.hpp"

namespace {

using namespace tarn::profiler;

constexpr std::uint64_t ring_words = 4096;

class modules_seen final : public module_sink {
 public:
  void loaded(loaded_elf library) override {
    EXPECT_LE(library.path.size(), most_text_bytes);
    last = library.path;
    last_id = library.build_id;
    ++count;
  }
  void add_script_line(std::uint64_t address, const source_frame& line) override {
    EXPECT_TRUE(is_script_address(address));
    lines[address] = line;
  }
  std::map<std::uint64_t, source_frame> lines;
  std::string last;
  std::string last_id;
  int count = 0;
};

// A ring, what a stream makes of it, and the stream.
struct ring {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(ring_words);
  std::uint64_t head = 0;
  tick_clock clock{tick_source::system_clock};
  process_model model{model_settings{}};
  modules_seen modules;
  event_stream stream;

  ring() { stream.reset(words.data(), ring_words, &model, &clock, &modules, 0); }
  void put(std::uint64_t word) { words[head++ % ring_words] = word; }
  void drain() {
    stream.extend(head);
    std::uint64_t time = 0;
    while (stream.peek(time)) stream.take();
  }
};

TEST(event_stream, reads_what_a_recorder_writes) {
  ring r;
  r.put(static_cast<std::uint64_t>(word_kind::time) | 1000U << kind_bits);
  r.put(static_cast<std::uint64_t>(word_kind::thread) | std::uint64_t{42} << 32);
  r.put(static_cast<std::uint64_t>(word_kind::text) | 2U << 4 | 9U << 16);
  r.put(0x2f782f7a2f792f78);
  r.put('q');
  r.put(0x1000);
  r.put(0x1000);
  r.put(0x2000);
  r.put(static_cast<std::uint64_t>(word_kind::node));
  r.put(0x1234);
  r.put(note_word(note_kind::size, std::uint64_t{5} << 32));
  r.put(address_word(word_kind::malloc, 10, 0x7f0000000010));
  r.put(1 | std::uint64_t{size_elsewhere} << 32);
  r.put(address_word(word_kind::free, 5, 0x7f0000000010));
  r.drain();
  EXPECT_FALSE(r.stream.is_broken());
  EXPECT_EQ(r.stream.position(), r.head);
  EXPECT_EQ(r.modules.last, "x/y/z/x/q");
  EXPECT_EQ(r.modules.last_id, "");
  EXPECT_EQ(r.model.allocations(), 1);
  EXPECT_EQ(r.model.requested_bytes(), static_cast<double>(std::uint64_t{5} << 32));
  EXPECT_EQ(r.model.frees(), 1);
  ASSERT_EQ(r.model.stacks().size(), 2U);
  EXPECT_EQ(r.model.stacks()[1].address, 0x1234U);
}

TEST(event_stream, blocks_are_weighed_by_the_distance_that_the_ring_told_last) {
  ring r;
  model_settings settings{.full = false, .sample_bytes = 32000};
  r.model = process_model(settings);
  const auto put_block = [&r](std::uint64_t address) {
    r.put(address_word(word_kind::malloc, 1, address));
    r.put(std::uint64_t{100} << 32);
  };
  r.put(static_cast<std::uint64_t>(word_kind::thread) | std::uint64_t{42} << 32);
  r.put(note_word(note_kind::halvings, 5));
  put_block(0x10000);
  put_block(0x20000);
  r.put(note_word(note_kind::halvings, 0));
  put_block(0x30000);
  r.put(note_word(note_kind::halvings, ~std::uint64_t{0} >> 12));  // the program has written it
  put_block(0x40000);
  r.drain();
  const auto weight = [](double distance) {
    return 1 / (1 - std::exp(-static_cast<double>(countdown_of(100)) / distance));
  };
  EXPECT_NEAR(r.model.allocations(), 2 * weight(1000) + weight(32000) + 1, 1e-6);
}

TEST(event_stream, an_unmap_that_was_refused_did_not_happen) {
  ring r;
  r.put(static_cast<std::uint64_t>(word_kind::thread) | std::uint64_t{42} << 32);
  r.put(address_word(word_kind::map, 1, 0x100000));
  r.put(0x10000);
  r.put(0);
  r.put(address_word(word_kind::unmap, 1, 0x100000));
  r.put(0x10000);
  r.put(note_word(note_kind::unmap_refused, 0x100000 >> 3));
  r.drain();
  std::uint64_t bytes = 0;
  r.model.for_each_region(
      [&](std::uint64_t start, std::uint64_t end, std::uint32_t) { bytes += end - start; });
  EXPECT_EQ(bytes, 0x10000U);
}

TEST(event_stream, nodes_may_be_counted_anew) {
  ring r;
  for (const std::uint64_t address : {0x1000, 0x2000}) {
    r.put(note_word(note_kind::nodes_anew, 0));
    r.put(static_cast<std::uint64_t>(word_kind::node));
    r.put(address);
    r.put(address_word(word_kind::malloc, 1, address << 8));
    r.put(1 | std::uint64_t{100} << 32);
  }
  r.drain();
  EXPECT_FALSE(r.stream.is_broken());
  std::vector<std::uint64_t> callers;
  r.model.for_each_living(
      [&](const living_block& block, double) { callers.push_back(r.model.caller_of(block.site)); });
  std::sort(callers.begin(), callers.end());
  EXPECT_EQ(callers, (std::vector<std::uint64_t>{0x1000, 0x2000}));
}

TEST(event_stream, lines_of_scripts_have_addresses_of_their_own) {
  ring r;
  const std::uint64_t address = script_address("f", "a.py", 7);
  for (const std::uint64_t told : {address, std::uint64_t{0x1234}}) {
    r.put(static_cast<std::uint64_t>(word_kind::text) | 3U << 4 | 5U << 16);
    r.put(0x79702e6166);  // "fa.py"
    r.put(told);
    r.put(7 | std::uint64_t{1} << 32);
  }
  r.drain();
  EXPECT_FALSE(r.stream.is_broken());
  ASSERT_EQ(r.modules.lines.size(), 1U) << "a process may name lines of scripts only, not native code";
  EXPECT_EQ(r.modules.lines[address].function, "f");
  EXPECT_EQ(r.modules.lines[address].file, "a.py");
  EXPECT_EQ(r.modules.lines[address].line, 7U);
}

TEST(event_stream, an_incomplete_event_ends_the_stream) {
  ring r;
  r.put(address_word(word_kind::malloc, 10, 0x1000));
  r.drain();
  EXPECT_TRUE(r.stream.is_broken());
  EXPECT_EQ(r.model.allocations(), 0);
}

TEST(event_stream, random_words_are_read_without_harm) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    ring r;
    for (int burst = 0; burst < 20; ++burst) {
      for (std::uint64_t left = random() % 400; left > 0; --left) {
        // Mostly known kinds of words, with operands of all lengths.
        r.put(random() >> (random() % 64) << 4 | random() % 16);
      }
      r.drain();
      ASSERT_EQ(r.stream.position(), r.head);
    }
    profile p;
    r.model.finish_events();
    r.model.fill(p);
  }
}

// The recorded process may change an event between peek() and take().
TEST(event_stream, an_event_that_changes_while_it_is_read_is_not_read_past_the_end) {
  ring r;
  r.put(address_word(word_kind::unmap, 1, 0x7f0000000000));
  r.put(4096);
  r.stream.extend(r.head);
  std::uint64_t time = 0;
  ASSERT_TRUE(r.stream.peek(time));
  r.words[0] = address_word(word_kind::map, 1, 0x7f0000000000);  // an event that has one word more
  r.stream.take();
  EXPECT_EQ(r.stream.position(), r.head);
  EXPECT_FALSE(r.stream.is_broken());
}

}  // namespace
