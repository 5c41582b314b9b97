// SPDX-License-Identifier: MIT
// arrow: a query with memory, a limit and figures of its own, whose columns lie in buffers that are used again.
// Link: arrow (and arrow_compute from version 21 on), tarn::tarn-api.
#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <cstdint>
#include <cstdio>
#include <memory>

#include "arrow.hpp"

namespace {

arrow::Result<std::int64_t> sum_of_squares(std::int64_t rows, arrow::MemoryPool* memory) {
  arrow::Int64Builder builder(memory);
  ARROW_RETURN_NOT_OK(builder.Reserve(rows));
  for (std::int64_t i = 0; i < rows; ++i) builder.UnsafeAppend(i);
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Array> column, builder.Finish());
  arrow::compute::ExecContext context(memory);
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum squares,
                        arrow::compute::CallFunction("multiply", {column, column}, &context));
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum sum, arrow::compute::CallFunction("sum", {squares}, &context));
  return sum.scalar_as<arrow::Int64Scalar>().value;
}

}  // namespace

int main() {
#if ARROW_VERSION_MAJOR >= 21
  if (!arrow::compute::Initialize().ok()) return 1;
#endif
  tarn::buffer_pool columns({.name = "columns", .limit = std::size_t{256} << 20U});
  tarn::arrow_pool memory({.large = &columns, .maximum_bytes = std::int64_t{64} << 20U});
  std::int64_t sum = 0;
  for (int query = 0; query < 100; ++query) sum = sum_of_squares(1'000'000, &memory).ValueOrDie();
  std::printf("sum of squares: %lld\n", static_cast<long long>(sum));
  const auto stats = columns.stats();
  std::printf("%s of the columns lay in memory that was there already\n",
              stats.hits * 100 >= stats.gets * 95 ? "at least 95 of 100" : "few");
  const arrow::Result<std::int64_t> refused = sum_of_squares(10'000'000, &memory);
  std::printf("a query above the limit: %s\n", refused.status().IsOutOfMemory() ? "refused" : "allowed");
  std::printf("%lld bytes are left\n", static_cast<long long>(memory.bytes_allocated()));
}
