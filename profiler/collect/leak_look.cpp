// SPDX-License-Identifier: MIT
#include "profiler/collect/leak_look.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "profiler/collect/memory_splitter.hpp"
#include "profiler/collect/process_reader.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t red_zone = 128;  // bytes below the stack pointer that a leaf function may use
constexpr double most_searched_bytes = 8e9;

bool is_root_file(const mapping& one) {
  if (!one.is_file() || !one.readable || one.name.starts_with("/memfd:tarn-")) return false;
  return one.shared ? one.writable : one.anonymous_bytes > 0;
}

// Marks the pieces that hold a block as malloc's.
void mark_heap(std::vector<memory_piece>& pieces, const process_model& model) {
  model.for_each_living([&pieces](const living_block& block, double /*weight*/) {
    memory_piece* piece = piece_at(pieces, block.address);
    if (piece != nullptr && piece->use != memory_use::mapped) piece->use = memory_use::heap;
  });
}

bool is_root(const memory_piece& piece) {
  switch (piece.use) {
    case memory_use::heap:
    case memory_use::stack:  // live stacks are added separately, from their stack pointers up
      return false;
    case memory_use::recorder:
      // its static data holds blocks that it handed out before the program's malloc was known
      return !piece.name.empty();
    case memory_use::other:
    case memory_use::mapped:
    case memory_use::written: break;
  }
  return true;
}

}  // namespace

std::vector<root_range> roots_of(const std::vector<mapping>& mappings, const process_model& model,
                                 const std::vector<stopped_process::thread>& threads,
                                 std::uint64_t allocator) {
  // The file is found by an address of its code: the dynamic linker's name for it may be a symbolic link.
  const auto code = std::find_if(mappings.begin(), mappings.end(), [allocator](const mapping& one) {
    return allocator >= one.start && allocator < one.end;
  });
  const std::string malloc_file = code == mappings.end() ? "" : code->name;
  std::vector<memory_piece> pieces = pieces_of(mappings, model, {});
  mark_heap(pieces, model);
  std::vector<root_range> roots;
  std::set<const memory_piece*> stacks;
  for (const stopped_process::thread& each : threads) {
    const memory_piece* piece = piece_at(pieces, each.stack_pointer);
    // a stack inside a malloc block is scanned when that block is reached
    if (piece == nullptr || piece->use == memory_use::heap) continue;
    stacks.insert(piece);
    std::uint64_t end = piece->end;
    // A stack of a thread that has ended may have ended within this one.
    for (const memory_piece* next = piece + 1; next < pieces.data() + pieces.size() && next->start == end &&
                                               piece->use == memory_use::stack && next->use == piece->use;
         ++next)
      end = next->end;
    roots.push_back({std::max(piece->start, each.stack_pointer - red_zone), end, false});
  }
  for (const memory_piece& piece : pieces) {
    const mapping& whole = mappings[piece.whole];
    if (!is_root(piece) || stacks.contains(&piece) || !whole.readable || whole.resident_bytes <= 0) continue;
    roots.push_back({piece.start, piece.end, !malloc_file.empty() && piece.name == malloc_file});
  }
  for (const mapping& one : mappings) {
    const bool is_shared =
        one.shared && one.writable && one.readable && !one.name.starts_with("/memfd:tarn-");
    if (is_root_file(one) || (is_shared && one.resident_bytes > 0))
      roots.push_back({one.start, one.end, !malloc_file.empty() && one.name == malloc_file});
  }
  return roots;
}

namespace {

std::vector<searched_block> blocks_of(const process_model& model) {
  std::vector<searched_block> blocks;
  model.for_each_living([&blocks](const living_block& block, double /*weight*/) {
    blocks.push_back({block.address, block.size, block.site});
  });
  std::sort(blocks.begin(), blocks.end(), [](const searched_block& left, const searched_block& right) {
    return left.address < right.address;
  });
  return blocks;
}

// The dynamic linker's own blocks never count as lost, as in LeakSanitizer: what it keeps for a thread is
// referenced only from the thread's descriptor, which lies on the thread's stack. The stack of an ended thread is
// kept for reuse, and is no root.
void reach_blocks_of_linker(leak_search& search, const std::vector<mapping>& mappings,
                            const process_model& model) {
  std::vector<const mapping*> linker;
  for (const mapping& one : mappings) {
    const std::size_t slash = one.name.rfind('/');
    if (slash != std::string::npos && one.name.substr(slash + 1).starts_with("ld-linux"))
      linker.push_back(&one);
  }
  for (const searched_block& block : search.blocks()) {
    const std::uint64_t caller = model.caller_of(block.site);
    const auto holds = [caller](const mapping* one) { return caller >= one->start && caller < one->end; };
    if (std::any_of(linker.begin(), linker.end(), holds)) search.add_root_word(block.address);
  }
}

std::vector<lost_blocks> sums_of(const leak_search& search) {
  std::map<std::uint32_t, lost_blocks> by_site;
  for (std::size_t index = 0; index < search.blocks().size(); ++index) {
    const searched_block& block = search.blocks()[index];
    lost_blocks& sum = by_site[block.site];
    sum.site = block.site;
    const auto bytes = static_cast<double>(block.size);
    if (search.state(index) == reach::lost) {
      sum.lost += 1;
      sum.lost_bytes += bytes;
    } else if (search.state(index) == reach::indirect) {
      sum.indirect += 1;
      sum.indirect_bytes += bytes;
    }
  }
  std::vector<lost_blocks> sums;
  for (const auto& [site, sum] : by_site) sums.push_back(sum);
  return sums;
}

// Why the memory is not searched; empty: it is.
std::string refusal_of(const std::optional<std::vector<mapping>>& mappings, const process_reader& memory) {
  const int error = memory.problem() != 0 ? memory.problem() : EACCES;
  if (!mappings || memory.problem() != 0)
    return std::string("its memory may not be read (") + std::strerror(error) + ")";
  double resident = 0;
  for (const mapping& one : *mappings) resident += one.resident_bytes;
  return resident > most_searched_bytes ? "it has more memory than is looked through" : "";
}

}  // namespace

leak_answer look_for_leaks(const leak_question& question, const process_model& model,
                           const stopped_process& stopped) {
  leak_answer answer;
  answer.problem = stopped.problem();
  if (!answer.problem.empty()) return answer;
  answer.threads = static_cast<double>(stopped.threads().size()) - 1;
  const auto mappings = read_mappings(question.process);
  process_reader memory(question.process, question.progress);
  answer.problem = refusal_of(mappings, memory);
  if (!answer.problem.empty()) return answer;
  leak_search search(blocks_of(model),
                     [&memory](std::uint64_t address, std::size_t words, std::size_t& count) {
                       return memory.words_at(address, words, count);
                     });
  for (const root_range& root : roots_of(*mappings, model, stopped.threads(), question.allocator))
    search.add_root(root);
  for (const stopped_process::thread& each : stopped.threads()) {
    for (const std::uint64_t word : each.registers) search.add_root_word(word);
  }
  reach_blocks_of_linker(search, *mappings, model);
  search.finish();
  answer.scanned_bytes = search.scanned_bytes();
  answer.lost = sums_of(search);
  return answer;
}

}  // namespace tarn::profiler
