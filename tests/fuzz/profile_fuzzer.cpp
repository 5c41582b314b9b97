// SPDX-License-Identifier: MIT
// libFuzzer over the code that reads profiles. If the first byte of an input is odd, the bytes after it are the file.
// If it is even, they are a list of chunks (see chunks_of), of which a file with correct checksums is made. So
// mutations get past the reader's checks, into the loader, every export, the report, the difference, the advice and its
// plan.
//
// The first kind is read as the heap profile that a process sends as well.
//
// The output of exports is dropped. More than 256 MiB of it, and any exception except profile_error, is a defect.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/plan.hpp"
#include "profiler/export/call_tree.hpp"
#include "profiler/export/difference.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/export/pprof_names.hpp"
#include "profiler/format/pprof_message.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/report_data.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace tarn::profiler;

struct enough {};  // thrown when enough has been written

class drop {
 public:
  explicit drop(std::size_t most) : left_(most) {}
  void operator()(std::string_view piece) {
    written_ += piece.size();
    if (written_ > std::size_t{256} << 20) std::abort();
    if (written_ > left_) throw enough();
  }

 private:
  std::size_t left_;
  std::size_t written_ = 0;
};

// Writes 1 MiB, and everything for one input size in 32: some profiles become millions of lines in heaptrack's format.
void export_heaptrack_part(const profile& p, const std::string& path, std::size_t size) {
  try {
    export_heaptrack(p, path, drop(size % 32 == 0 ? SIZE_MAX : std::size_t{1} << 20));
  } catch (const enough&) {
  }
}

void visit(const call_tree& tree) {
  std::vector<call_node> nodes = tree.children(tree.root());
  while (!nodes.empty()) {
    const call_node node = nodes.back();
    nodes.pop_back();
    tree.frame_of(node);
    for (const call_node& child : tree.children(node)) nodes.push_back(child);
  }
}

void view(const profile& p, const std::string& path, std::size_t size) {
  for (const metric& each : metrics()) {
    export_collapsed(p, each, drop(SIZE_MAX));
    visit(call_tree::of(p, each, true));
  }
  export_json(p, drop(SIZE_MAX));
  export_pprof(p);
  export_prometheus(p);
  export_heaptrack_part(p, path, size);
  const std::vector<advice> all = advise(p);
  for (const advice& one : all) as_json(one);
  read_plan(write_plan(plan_of(p, all)), "plan");
  report_data(p, all);
  difference::between(p, profile());
}

// In an input, a chunk is: the number of its name (1 byte), flags (1), rows (2), length (2), and the payload.
constexpr const char* names[] = {"meta",     "modules",    "stacks",         "threads",
                                 "sites",    "site_sizes", "site_lifetimes", "site_threads",
                                 "counters", "symbols",    "events",         "unknown"};
constexpr std::size_t head_bytes = 6;

std::vector<plain_chunk> chunks_of(const std::uint8_t* data, std::size_t size) {
  std::vector<plain_chunk> chunks;
  while (size >= head_bytes) {
    plain_chunk& one = chunks.emplace_back();
    one.name = names[data[0] % std::size(names)];
    one.flags = data[1] % 8 & ~2;  // not compressed
    one.rows = data[2] | std::uint32_t{data[3]} << 8;
    const std::size_t length = std::min<std::size_t>(data[4] | std::size_t{data[5]} << 8, size - head_bytes);
    one.payload.assign(data + head_bytes, data + head_bytes + length);
    data += head_bytes + length;
    size -= head_bytes + length;
  }
  return chunks;
}

std::vector<std::uint8_t> input_of(const std::vector<plain_chunk>& chunks) {
  std::vector<std::uint8_t> bytes(1);
  for (const plain_chunk& one : chunks) {
    const auto name = std::find(std::begin(names), std::end(names), one.name) - std::begin(names);
    const std::size_t length = std::min<std::size_t>(one.payload.size(), 65535);
    for (const std::size_t each :
         {static_cast<std::size_t>(name), std::size_t{one.flags}, std::size_t{one.rows & 255},
          std::size_t{one.rows >> 8 & 255}, length & 255, length >> 8}) {
      bytes.push_back(static_cast<std::uint8_t>(each));
    }
    bytes.insert(bytes.end(), one.payload.begin(), one.payload.begin() + static_cast<std::ptrdiff_t>(length));
  }
  return bytes;
}

}  // namespace

// The bytes as what a process says is its heap profile: they become a message with printable texts, or an error.
static void read_as_answer(std::string_view text) {
  std::string named;
  try {
    named = pprof_names(static_cast<std::uint32_t>(getpid()), {{}, false, {}}).add(text);
  } catch (const profile_error&) {
    return;
  }
  pprof::message_reader reader(named);
  for (pprof::message_field field; reader.next(field);)
    if (field.number == pprof::string_table && printable(field.bytes) != field.bytes) std::abort();
  if (reader.is_broken() || named.size() > 16 * text.size() + (std::size_t{1} << 20)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static scratch_file file;
  if (data[0] % 2 == 1) {
    file.set({data + 1, size - 1});
    read_as_answer({reinterpret_cast<const char*>(data + 1), size - 1});
  } else {
    file.set(put_together(chunks_of(data + 1, size - 1)));
  }
  try {
    view(load_profile(file.path()), file.path(), size);
  } catch (const profile_error&) {
  }
  return 0;
}

// Changes one chunk's payload, or repeats, moves or removes a chunk.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  if (size == 0 || data[0] % 2 == 1) return LLVMFuzzerMutate(data, size, most);
  std::vector<plain_chunk> chunks = chunks_of(data + 1, size - 1);
  if (chunks.empty()) return LLVMFuzzerMutate(data, size, most);
  mutator random(seed + 1);
  const std::size_t index = random.below(chunks.size());
  const auto at = chunks.begin() + static_cast<std::ptrdiff_t>(index);
  switch (random.below(16)) {
    case 0: chunks.push_back(chunks[index]); break;
    case 1: chunks.erase(at); break;
    case 2: std::swap(chunks[index], chunks.back()); break;
    case 3: chunks[index].rows = static_cast<std::uint32_t>(random.below(65536)); break;
    case 4: chunks[index].flags = static_cast<std::uint8_t>(random.below(8)); break;
    default: {
      std::vector<std::uint8_t>& payload = chunks[index].payload;
      const std::size_t before = payload.size();
      payload.resize(before + 64);
      payload.resize(LLVMFuzzerMutate(payload.data(), before, payload.size()));
    }
  }
  const std::vector<std::uint8_t> whole = input_of(chunks);
  if (whole.size() > most) return size;
  std::copy(whole.begin(), whole.end(), data);
  return whole.size();
}
