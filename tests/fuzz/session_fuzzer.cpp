// SPDX-License-Identifier: MIT
// libFuzzer over the code by which the collector reads recorded processes: the words of their rings, which a process
// may overwrite while they are read, and the ELF files that a process claims to have loaded. If the first byte is a
// multiple of 4, the bytes after it are an ELF file. Otherwise they are the words of a ring, which the collector takes
// in pieces; some words change after the collector has looked at an event and before it takes the event. The model that
// results must make a profile that can be stored and loaded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/script_address.hpp"
#include "profiler/model/store_profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace {

using namespace tarn::profiler;

constexpr std::uint64_t ring_words = 1024;

class module_sizes final : public module_sink {
 public:
  void loaded(loaded_elf library) override {
    if (library.path.size() + library.build_id.size() / 2 > most_text_bytes) std::abort();
    regions_.note(library.start, library.end, library.path);
    if (regions_.at(library.start).size() > most_text_bytes) std::abort();
  }
  void add_script_line(std::uint64_t address, const source_frame& line) override {
    if (!is_script_address(address) || line.function.size() + line.file.size() > most_text_bytes)
      std::abort();
  }

 private:
  memory_regions regions_;
};

void read_elf(const std::uint8_t* data, std::size_t size) {
  static scratch_file file;
  file.set({data, size});
  for (const module_info& each : modules_of({file.path(), "", 0x10000, 0x10000, 0x20000})) {
    if (each.build_id.size() > 128) std::abort();
  }
}

model_settings settings_of(unsigned choice) {
  return {.full = choice % 2 == 0,
          .sample_bytes = 524288,
          .join_faults = choice / 2 % 2 == 0,
          .most_events = 100000};
}

void store_and_load(process_model& model) {
  static scratch_file file;
  profile p;
  p.meta = {{"program", "fuzz"}};
  model.finish_events();
  model.fill(p);
  {
    table_writer out(file.path());
    out.append(model.take_events());
    store_profile(out, p);
  }
  if (load_profile(file.path()).sites.size() != p.sites.size()) std::abort();
}

void read_ring(unsigned choice, const std::uint8_t* data, std::size_t size) {
  static const tick_clock clock(tick_source::system_clock);
  std::vector<std::uint64_t> words(ring_words);
  process_model model(settings_of(choice));
  module_sizes modules;
  event_stream stream;
  stream.reset(words.data(), ring_words, &model, &clock, &modules, 0);
  std::uint64_t head = 0;
  std::uint64_t time = 0;
  unsigned events = 0;
  for (std::size_t at = 0; at + 8 <= size;) {
    // A whole ring, or seven words at a time.
    const std::uint64_t room = choice % 3 == 0 ? ring_words : 7;
    for (std::uint64_t count = 0; count < room && at + 8 <= size; ++count, at += 8) {
      std::memcpy(&words[head++ % ring_words], data + at, 8);
    }
    stream.extend(head);
    while (stream.peek(time)) {
      if (++events % 5 == 0) words[stream.position() % ring_words] ^= 1U << events % 4;
      model.fault({time, words[0] >> 16, 0, 1, 1, false});
      stream.take();
      if (stream.position() > head) std::abort();
    }
  }
  store_and_load(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] % 4 == 0) {
    read_elf(data + 1, size - 1);
  } else {
    read_ring(data[0] >> 2, data + 1, size - 1);
  }
  return 0;
}
