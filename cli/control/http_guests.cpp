// SPDX-License-Identifier: MIT
#include "cli/control/http_guests.hpp"

#include <algorithm>

namespace tarn::cli {

std::size_t http_guests::stays(const std::string& address) const {
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [&](const auto& each) {
    return each.second.now != state::goes && each.second.address == address;
  }));
}

std::size_t http_guests::stays() const {
  return static_cast<std::size_t>(std::count_if(
      all_.begin(), all_.end(), [](const auto& each) { return each.second.now != state::goes; }));
}

// Of those that may be ended; -1: there is none.
int http_guests::oldest_of(const std::string& address) const {
  int found = -1;
  double since = 0;
  for (const auto& [connection, one] : all_) {
    const bool may_go = one.now == state::asks || one.now == state::takes;
    if (!may_go || one.address != address || (found >= 0 && one.since >= since)) continue;
    found = connection;
    since = one.since;
  }
  return found;
}

// Among addresses that have a connection which may be ended.
std::string http_guests::fullest_address() const {
  std::string found;
  std::size_t most_there = 0;
  for (const auto& [connection, one] : all_) {
    if (oldest_of(one.address) < 0 || stays(one.address) <= most_there) continue;
    found = one.address;
    most_there = stays(one.address);
  }
  return found;
}

std::vector<int> http_guests::came(int connection, const std::string& address, double now) {
  all_[connection] = {address, state::asks, now};
  const bool is_full = stays() > most;
  if (!is_full && stays(address) <= most_of_address) return {};
  const int ended = oldest_of(is_full ? fullest_address() : address);
  all_[ended].now = state::goes;  // there is at least the new one
  return {ended};
}

void http_guests::asked(int connection) {
  const auto found = all_.find(connection);
  if (found != all_.end() && found->second.now != state::goes) found->second.now = state::is_being_answered;
}

void http_guests::answered(int connection, double now) {
  const auto found = all_.find(connection);
  if (found != all_.end() && found->second.now != state::goes)
    found->second = {found->second.address, state::takes, now};
}

void http_guests::waits(int connection, double now) {
  const auto found = all_.find(connection);
  if (found != all_.end() && found->second.now != state::goes)
    found->second = {found->second.address, state::asks, now};
}

void http_guests::left(int connection) { all_.erase(connection); }

std::vector<int> http_guests::late(double now) {
  std::vector<int> ended;
  for (auto& [connection, one] : all_) {
    const bool is_late = (one.now == state::asks && now - one.since >= request_seconds) ||
                         (one.now == state::takes && now - one.since >= answer_seconds);
    if (!is_late) continue;
    one.now = state::goes;
    ended.push_back(connection);
  }
  return ended;
}

}  // namespace tarn::cli
