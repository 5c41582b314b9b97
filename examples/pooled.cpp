// SPDX-License-Identifier: MIT
// pooled: one base class gives every `new shape` and `delete` of a program a pool. The code that creates and deletes
// the shapes is ordinary C++ and does not change.
#include <tarn/pooled.hpp>
#include <tarn/process.hpp>

#include <cstdio>
#include <memory>
#include <vector>

namespace {

// The only line that mentions tarn. circle has the same size as shape and uses its pool; polygon is larger, so its
// objects come from malloc as before.
class shape : public tarn::pooled<shape> {
 public:
  explicit shape(double size) : size_(size) {}
  virtual ~shape() = default;
  virtual double area() const { return size_ * size_; }

 protected:
  double size() const { return size_; }

 private:
  double size_;
};

class circle final : public shape {
 public:
  using shape::shape;
  double area() const override { return 3 * size() * size(); }
};

class polygon final : public shape {
 public:
  explicit polygon(double size) : shape(size), corners_(6) {}
  double area() const override { return size() * size() * static_cast<double>(corners_) / 4; }

 private:
  std::size_t corners_;
};

}  // namespace

int main() {
  double total = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::unique_ptr<shape>> shapes;
    for (int i = 0; i < 300; ++i) {
      if (i % 3 == 0) shapes.push_back(std::make_unique<shape>(1));
      if (i % 3 == 1) shapes.push_back(std::make_unique<circle>(1));
      if (i % 3 == 2) shapes.push_back(std::make_unique<polygon>(2));
    }
    for (const auto& one : shapes) total += one->area();
  }
  std::printf("total area %.0f\n", total);
  for (const tarn::named_pool_stats& pool : tarn::pools())
    std::printf("a pool of objects of %zu bytes, live %zu\n", pool.stats.object_bytes, pool.stats.live);
}
