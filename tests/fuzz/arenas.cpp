// SPDX-License-Identifier: MIT
#ifndef TARN_FUZZ_MAKE_ARENAS
#undef TARN_CHECKED_POOLS
#define TARN_CHECKED_POOLS 0
#define TARN_FUZZ_MAKE_ARENAS make_arenas
#endif
#include "arenas.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tarn/arena.hpp"

namespace tarn::fuzz {
namespace {

// Sizes up to 4 MiB, of which most are small, so that arenas begin with a large request as often as not.
std::size_t some_bytes(input& in) {
  const std::size_t bytes = in.bytes();
  return in.byte() % 2 == 0 ? bytes : bytes % 5000;
}

// An object of which the arena runs the destructor: newest first, and none that is older than the marker.
class ledger {
 public:
  void begins(std::uint64_t number) { live_.push_back(number); }
  void ends(std::uint64_t number) {
    require(live_.size() > kept_, "an object that is older than the marker has ended");
    require(live_.back() == number, "objects do not end newest first");
    live_.pop_back();
  }
  // All objects but the oldest `kept` may end until the next call.
  void allow_ends(std::size_t kept) { kept_ = kept; }
  void allow_none() { kept_ = live_.size(); }
  void require_left(std::size_t kept) const { require(live_.size() == kept, "an object has not ended"); }
  [[nodiscard]] std::size_t size() const { return live_.size(); }

 private:
  std::vector<std::uint64_t> live_;
  std::size_t kept_ = 0;
};

template <std::size_t Bytes>
struct entry {
  entry(ledger& in, std::uint64_t its_number) : all(&in), number(its_number) {
    all->begins(number);
    all->allow_none();
  }
  entry(const entry&) = delete;
  entry& operator=(const entry&) = delete;
  ~entry() { all->ends(number); }
  ledger* all;
  std::uint64_t number;
  unsigned char bytes[Bytes];
};

// Uses a scratch arena in its destructor.
struct late_user {
  explicit late_user(std::size_t its_bytes) : bytes(its_bytes) {}
  late_user(const late_user&) = delete;
  late_user& operator=(const late_user&) = delete;
  ~late_user() {
    const std::size_t before = bytes;
    {
      const scratch_arena scratch;
      std::memset(scratch->allocate(bytes), 0x77, bytes);
    }
    require(bytes == before, "an object has changed within its own destructor", this);
  }
  std::size_t bytes;
};

class arena_model final : public arenas {
 public:
  explicit arena_model(range_map& ranges) : ranges_(ranges), pieces_(ranges) {}

  void change(input& in) override {
    switch (in.byte() % 10) {
      case 0:
      case 1:
      case 2: return take(in);
      case 3: return create(in);
      case 4:
        if (marks_.size() < 20) marks_.push_back({arena_.mark(), pieces_.size(), objects_.size()});
        return;
      case 5:
      case 6: return rewind(in);
      case 7: return take_back();
      case 8: return use_scratch(in, 3);
      default: return change_all(in);
    }
  }
  void check() const override { pieces_.check(); }
  void empty() override {
    forget(0);
    marks_.clear();
    objects_.allow_ends(0);
    arena_.release();
    objects_.require_left(0);
  }

 private:
  static constexpr std::size_t most_pieces = 300;
  static constexpr std::size_t most_bytes = std::size_t{24} << 20;
  struct mark {
    arena::marker place;
    std::size_t pieces;
    std::size_t objects;
  };

  void take(input& in) {
    const std::size_t bytes = some_bytes(in);
    const std::size_t alignment = std::size_t{1} << in.byte() % 14;
    if (pieces_.size() == most_pieces || arena_.bytes_used() + bytes > most_bytes) return;
    pieces_.add(arena_.allocate(bytes, alignment), bytes, alignment, ++number_);
    is_object_.push_back(false);
  }
  void create(input& in) {
    if (pieces_.size() == most_pieces || arena_.bytes_used() > most_bytes) return;
    const unsigned kind = in.byte() % 4;
    if (kind == 0) return hold(arena_.create<entry<700000>>(objects_, ++number_));
    if (kind == 1) return hold(arena_.create<entry<9000>>(objects_, ++number_));
    hold(arena_.create<entry<40>>(objects_, ++number_));
  }
  template <class Entry>
  void hold(Entry* one) {
    pieces_.add(one->bytes, sizeof one->bytes, 1, ++number_);
    is_object_.push_back(true);
  }
  // The newest piece; a marker behind it then lies before it.
  void take_back() {
    if (pieces_.empty() || is_object_.back()) return;
    const held one = pieces_.take(pieces_.size() - 1);
    is_object_.pop_back();
    for (mark& m : marks_) m.pieces = std::min(m.pieces, pieces_.size());
    arena_.deallocate(one.bytes, one.size);
  }
  void rewind(input& in) {
    if (marks_.empty()) return;
    const std::size_t index = in.byte() % marks_.size();
    const mark to = marks_[index];
    forget(to.pieces);
    marks_.erase(marks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, marks_.end());
    objects_.allow_ends(to.objects);
    arena_.rewind(to.place);
    objects_.require_left(to.objects);
    objects_.allow_none();
    check();
  }
  void change_all(input& in) {
    const unsigned how = in.byte() % 4;
    if (how == 0) {
      arena other = std::move(arena_);
      arena_ = std::move(other);
      return;
    }
    if (how == 1 && arena_.bytes_used() < most_bytes) return arena_.reserve(in.bytes() % 2000000);
    forget(0);
    marks_.clear();
    objects_.allow_ends(0);
    how == 2 ? arena_.reset() : arena_.release();
    objects_.require_left(0);
    if (how == 3) arena_ = in.byte() % 2 == 0 ? arena() : arena(buffer_, in.below(sizeof buffer_));
  }
  void forget(std::size_t kept) {
    while (pieces_.size() > kept) static_cast<void>(pieces_.take(pieces_.size() - 1));
    is_object_.resize(kept);
  }

  // What an outer scope holds, an inner one does not change.
  void use_scratch(input& in, unsigned depth) {
    const scratch_arena scratch;
    live_set mine(ranges_);
    for (unsigned count = in.byte() % 5; count != 0; --count) {
      const unsigned what = in.byte() % 6;
      if (what == 0 && depth != 0) {
        use_scratch(in, depth - 1);
      } else if (what == 1) {
        static_cast<void>(scratch->create<late_user>(some_bytes(in)));
      } else {
        const std::size_t bytes = some_bytes(in);
        mine.add(scratch->allocate(bytes, 1), bytes, 1, ++number_);
      }
      mine.check();
    }
    while (!mine.empty()) static_cast<void>(mine.take(mine.size() - 1));
  }

  range_map& ranges_;
  live_set pieces_;
  std::vector<bool> is_object_;  // of each piece
  std::vector<mark> marks_;
  ledger objects_;
  std::uint64_t number_ = std::uint64_t{TARN_CHECKED_POOLS + 1} << 32;
  unsigned char buffer_[20000];
  arena arena_;  // ends before what its objects refer to
};

}  // namespace

std::unique_ptr<arenas> TARN_FUZZ_MAKE_ARENAS(range_map& ranges) {
  return std::make_unique<arena_model>(ranges);
}

}  // namespace tarn::fuzz
