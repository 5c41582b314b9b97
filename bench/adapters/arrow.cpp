// SPDX-License-Identifier: MIT
// adapter_arrow POOL [ROWS [ROUNDS]]: (a + b) * a of two columns of 64-bit integers, then the rows where the result is odd,
// each step with a result of its own, ROUNDS times; and a column that grows by appending. POOL: default (Arrow's own choice),
// system (malloc), tarn, tarn_buffers.
// Known to favour: pools that keep freed columns backed by memory; the work of a row is small.
// Method: the same functions of Arrow on one thread with each pool; the first round is not counted.
// Output: one JSON object: time, page faults; allocations as the pool counts them; peak of the pool, resident KiB.
#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <memory>
#include <string_view>
#include <vector>

#include "tarn/adapters/arrow.hpp"
#include "usage.hpp"

namespace {

using column = std::shared_ptr<arrow::Array>;

column make_column(std::int64_t rows, std::int64_t factor, arrow::MemoryPool* memory) {
  arrow::Int64Builder builder(memory);
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!builder.Append(i * factor).ok()) std::exit(1);
  }
  return builder.Finish().ValueOrDie();
}

std::int64_t compute(const column& a, const column& b, arrow::compute::ExecContext& context) {
  const auto call = [&context](const char* name, const std::vector<arrow::Datum>& arguments) {
    return arrow::compute::CallFunction(name, arguments, &context).ValueOrDie();
  };
  const arrow::Datum sums = call("add", {a, b});
  const arrow::Datum products = call("multiply", {sums, a});
  const arrow::Datum bits = call("bit_wise_and", {products, arrow::Datum(std::int64_t{1})});
  const arrow::Datum odd = call("equal", {bits, arrow::Datum(std::int64_t{1})});
  return call("filter", {products, odd}).length();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const std::int64_t rows = count > 2 ? std::atoll(arguments[2]) : 2'000'000;
  const int rounds = count > 3 ? std::atoi(arguments[3]) : 30;
  tarn::buffer_pool buffers({.name = "columns"});
  tarn::arrow_pool tarn_pool;
  tarn::arrow_pool tarn_buffers({.large = &buffers});
  arrow::MemoryPool* memory = nullptr;
  if (mode == "default") memory = arrow::default_memory_pool();
  if (mode == "system") memory = arrow::system_memory_pool();
  if (mode == "tarn") memory = &tarn_pool;
  if (mode == "tarn_buffers") memory = &tarn_buffers;
  if (memory == nullptr || rows <= 0) {
    std::fprintf(stderr, "usage: adapter_arrow default|system|tarn|tarn_buffers [ROWS [ROUNDS]]\n");
    return 2;
  }
#if ARROW_VERSION_MAJOR >= 21
  if (!arrow::compute::Initialize().ok()) return 1;
#endif
  std::printf("{\"mode\": \"%s\", \"backend\": \"%s\", ", arguments[1], memory->backend_name().c_str());
  {
    arrow::compute::ExecContext context(memory);
    context.set_use_threads(false);
    column a = make_column(rows, 3, memory);
    const column b = make_column(rows, 4, memory);
    std::int64_t kept = compute(a, b, context);
    const std::int64_t before = memory->num_allocations();
    const bench::usage steps;
    for (int round = 0; round < rounds; ++round) kept = compute(a, b, context);
    steps.print("compute");
    std::printf("\"compute_allocations\": %lld, \"rows_kept\": %lld, ",
                static_cast<long long>(memory->num_allocations() - before), static_cast<long long>(kept));
    const bench::usage growth;
    for (int round = 0; round < rounds / 3; ++round) a = make_column(rows, 3, memory);
    growth.print("append");
  }
  std::printf("\"peak_bytes\": %lld, \"left_bytes\": %lld, \"resident_kib\": %ld}\n",
              static_cast<long long>(memory->max_memory()), static_cast<long long>(memory->bytes_allocated()),
              bench::usage::resident_kib());
}
