// SPDX-License-Identifier: MIT
// local_pool: one thread parses expressions such as 1+2*3. The nodes of each tree come from a pool that belongs to the
// parser alone, so creating a node takes five instructions and no lock. live() shows that none was forgotten.
#include <tarn/pool.hpp>

#include <cctype>
#include <cstdio>
#include <string_view>

namespace {

struct node {
  char operation = 0;  // '+', '*', or 0 for a number
  long number = 0;
  node* left = nullptr;
  node* right = nullptr;
};

class calculator {
 public:
  long evaluate(std::string_view text) {
    rest_ = text;
    node* const tree = sum();
    const long result = value_of(tree);
    destroy(tree);
    return result;
  }
  std::size_t live_nodes() const { return nodes_.live(); }

 private:
  node* sum() {
    node* left = product();
    while (take('+')) left = nodes_.create('+', 0L, left, product());
    return left;
  }
  node* product() {
    node* left = number();
    while (take('*')) left = nodes_.create('*', 0L, left, number());
    return left;
  }
  node* number() {
    long value = 0;
    for (; !rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0])) != 0; rest_.remove_prefix(1))
      value = value * 10 + (rest_[0] - '0');
    return nodes_.create('\0', value, nullptr, nullptr);
  }
  bool take(char wanted) {
    if (rest_.empty() || rest_[0] != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  static long value_of(const node* at) {
    if (at->operation == '+') return value_of(at->left) + value_of(at->right);
    if (at->operation == '*') return value_of(at->left) * value_of(at->right);
    return at->number;
  }
  void destroy(node* at) {
    if (at->left != nullptr) destroy(at->left);
    if (at->right != nullptr) destroy(at->right);
    nodes_.destroy(at);
  }

  std::string_view rest_;
  tarn::local_pool<node> nodes_;
};

}  // namespace

int main() {
  calculator c;
  long last = 0;
  for (int round = 0; round < 100'000; ++round) last = c.evaluate("1+2*3+4*5*6");
  std::printf("1+2*3+4*5*6 = %ld\n", last);
  std::printf("nodes still live: %zu\n", c.live_nodes());
}
