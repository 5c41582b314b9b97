// SPDX-License-Identifier: MIT
// recycler: encoders with a large table and a buffer of their own are built a few times and used a hundred thousand
// times. The handle that get() returns gives the encoder back at the end of its scope.
#include <tarn/recycler.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

class encoder {
 public:
  encoder() : table_(64 * 1024) {  // expensive: this is what the recycler saves
    for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<std::uint8_t>(i * 31);
  }
  std::string_view encode(std::string_view text) {
    for (const char c : text) out_ += static_cast<char>('a' + table_[static_cast<unsigned char>(c)] % 26);
    return out_;
  }
  // What the recycler asks for: reset() is called when an encoder comes back, retained_bytes() tells what it keeps.
  void reset() { out_.clear(); }
  std::size_t retained_bytes() const { return sizeof(*this) + table_.capacity() + out_.capacity(); }

 private:
  std::vector<std::uint8_t> table_;
  std::string out_;
};

struct encoder_hooks {
  static void reset(encoder& one) { one.reset(); }
  static std::size_t retained_bytes(const encoder& one) { return one.retained_bytes(); }
};

}  // namespace

int main() {
  tarn::recycler<encoder, encoder_hooks> encoders([] { return encoder(); },
                                                  {.limit = 8 << 20, .name = "encoders"});
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&encoders] {
      for (int i = 0; i < 50'000; ++i) {
        const auto one = encoders.get();
        if (one->encode("a message of some length").size() != 24)
          std::printf("an encoder came back unclean\n");
      }
    });
  }
  for (std::thread& one : threads) one.join();

  const tarn::recycler_stats stats = encoders.stats();
  std::printf("%llu uses, %s\n", static_cast<unsigned long long>(stats.gets),
              stats.misses + stats.at_random < stats.gets ? "most of them without building an encoder"
                                                          : "all built anew");
}
