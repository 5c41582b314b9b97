// SPDX-License-Identifier: MIT
// Which connections of an HTTP server are ended, so that nobody keeps others out; and by which names it is reached.
#include "cli/control/http_guests.hpp"

#include <gtest/gtest.h>

#include "cli/control/http_server.hpp"

namespace tarn::cli {
namespace {

constexpr int most = static_cast<int>(http_guests::most);
constexpr int most_of_address = static_cast<int>(http_guests::most_of_address);
using numbers = std::vector<int>;

TEST(http_guests, a_request_and_the_taking_of_its_answer_have_a_time) {
  http_guests guests;
  EXPECT_EQ(guests.came(1, "a", 0), numbers{});
  EXPECT_EQ(guests.came(2, "a", 0), numbers{});
  guests.asked(2);
  EXPECT_EQ(guests.late(9.9), numbers{});
  EXPECT_EQ(guests.late(10), numbers{1}) << "however many bytes it has sent";
  EXPECT_EQ(guests.late(11), numbers{}) << "once";
  EXPECT_EQ(guests.late(1000), numbers{}) << "an answer takes its time";
  guests.answered(2, 1000);
  EXPECT_EQ(guests.late(1059), numbers{});
  guests.waits(2, 1059);
  EXPECT_EQ(guests.late(1060), numbers{}) << "its answer was taken";
  EXPECT_EQ(guests.late(1069), numbers{2}) << "and no other request came";
  guests.left(1);
  guests.left(2);
  EXPECT_EQ(guests.count(), 0U);
}

TEST(http_guests, an_answer_that_is_not_taken) {
  http_guests guests;
  guests.came(1, "a", 0);
  guests.asked(1);
  guests.answered(1, 5);
  EXPECT_EQ(guests.late(65), numbers{1});
}

TEST(http_guests, an_address_has_a_part) {
  http_guests guests;
  for (int i = 0; i < most_of_address; ++i) EXPECT_EQ(guests.came(i, "a", i), numbers{});
  guests.asked(0);
  EXPECT_EQ(guests.came(100, "a", 100), numbers{1}) << "the oldest that is not being answered";
  EXPECT_EQ(guests.came(101, "b", 101), numbers{});
}

TEST(http_guests, when_all_places_are_taken_who_has_most_gives_one) {
  http_guests guests;
  for (int i = 0; i < most_of_address; ++i) guests.came(i, "a", i);
  for (int i = 0; i < most - most_of_address; ++i) guests.came(50 + i, "b" + std::to_string(i), 0);
  EXPECT_EQ(guests.came(100, "c", 100), numbers{0});
  EXPECT_EQ(guests.came(101, "c", 101), numbers{1});
}

TEST(http_guests, while_all_are_being_answered_the_new_one_goes) {
  http_guests guests;
  for (int i = 0; i < most; ++i) {
    guests.came(i, "a" + std::to_string(i), 0);
    guests.asked(i);
  }
  EXPECT_EQ(guests.came(100, "c", 1), numbers{100});
}

TEST(http_server, names_of_its_own) {
  const std::vector<std::string> names = {"Metrics.example"};
  for (const char* const own : {"", "localhost", "localhost:80", "127.0.0.1", "127.0.0.1:9464", "10.1.2.3:1",
                                "[::1]", "[::1]:80", "metrics.example", "METRICS.example:9464"})
    EXPECT_TRUE(is_own_host(own, names)) << own;
  for (const char* const other :
       {"attacker.example", "attacker.example:9464", "127.0.0.1.attacker.example", "metrics.example.org",
        "localhost.attacker.example", "1.2.3", "[attacker]", "0x7f000001"})
    EXPECT_FALSE(is_own_host(other, names)) << other;
}

}  // namespace
}  // namespace tarn::cli
