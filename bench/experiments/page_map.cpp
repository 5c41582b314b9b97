// SPDX-License-Identifier: MIT
// page_map: what does it cost free() to find an object's size class and span? See docs/design/0002-page-map.md.
// Prints the processor time per simulated free, median [min..max], each variant in a process of its own and in random
// order; then the address space and memory that each map takes, and whether it works under limits.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "page_map_variants.hpp"

namespace {

using namespace experiment;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t span_pages = 2;
constexpr unsigned class_count = 40;
constexpr std::size_t lookups = std::size_t{1} << 20;

struct figures {
  double class_ns;
  double both_ns;
};

struct footprint {
  double address_mb;
  double resident_mb;
  int lock_error;    // errno of mlockall; 0: success
  double locked_mb;  // resident after mlockall
};

// Reserves only address space for the heap: a free touches the map, not the object.
char* heap_of(std::size_t bytes) {
  void* raw = mmap(nullptr, bytes + (std::size_t{1} << page_shift), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) die("no address space for the heap");
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  constexpr std::uintptr_t mask = (std::uintptr_t{1} << page_shift) - 1;
  return reinterpret_cast<char*>((address + mask) & ~mask);
}

template <typename map_type>
bool fill(const char* heap, std::size_t bytes) {
  if (!map_type::start()) return false;
  const std::size_t pages = bytes >> page_shift;
  auto* spans = reserve<span_header>(pages / span_pages + 1);
  if (spans == nullptr) return false;
  for (std::size_t page = 0; page < pages; ++page) {
    span_header* span = &spans[page / span_pages];
    span->size_class = static_cast<std::uint8_t>(1 + page / span_pages % class_count);
    if (!map_type::set(page_of(heap) + page, span)) return false;
  }
  return true;
}

// What a free does with the map: finds the class, then pushes to that class's magazine.
template <typename map_type, bool with_span>
double simulate(const std::vector<char*>& objects) {
  struct bin {
    std::size_t count = 0;
    const void* items[256];
  };
  static bin bins[class_count + 1];
  std::uintptr_t sum = 0;
  const double begin = cpu_ns();
  for (const char* object : objects) {
    bin& to = bins[map_type::class_of(object)];
    to.items[to.count++ % 256] = object;
    if constexpr (with_span) sum += reinterpret_cast<std::uintptr_t>(map_type::span_of(object));
  }
  const double end = cpu_ns();
  keep(sum);
  keep(&bins);
  return (end - begin) / static_cast<double>(objects.size());
}

template <typename map_type>
figures time_lookups(std::size_t heap_bytes) {
  const char* heap = heap_of(heap_bytes);
  if (!fill<map_type>(heap, heap_bytes)) die("no address space for the page map");
  std::vector<char*> objects(lookups);
  rng random(11);
  for (char*& each : objects) each = const_cast<char*>(heap) + random.below(heap_bytes / 64) * 64;
  figures best{1e9, 1e9};
  for (int pass = 0; pass < 5; ++pass) {
    best.class_ns = std::min(best.class_ns, simulate<map_type, false>(objects));
    best.both_ns = std::min(best.both_ns, simulate<map_type, true>(objects));
  }
  return best;
}

// Runs `work` in a child, which has its own maps, limits and privileges. Returns false if `work` or the child failed.
template <typename result_type, typename work_type>
bool in_child(work_type work, result_type& result) {
  int ends[2];
  if (pipe(ends) != 0) die("no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) die("no process");
  if (child == 0) {
    const bool done = work(result);
    const bool sent = done && write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  const bool received = read(ends[0], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) die("lost a child");
  return received && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct usage_now {
  double address_mb;
  double resident_mb;
  static usage_now read() {
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    unsigned long total = 0;
    unsigned long resident = 0;
    if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) die("no /proc/self/statm");
    std::fclose(file);
    const double page = static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
    return {static_cast<double>(total) * page, static_cast<double>(resident) * page};
  }
};

// mlockall makes all writable mappings resident. Not tried above 4 GB.
void lock_everything(footprint& result) {
  constexpr double largest_mb = 4000;
  result.lock_error = E2BIG;
  if (result.address_mb > largest_mb) return;
  result.lock_error = mlockall(MCL_CURRENT) == 0 ? 0 : errno;
  result.locked_mb = usage_now::read().resident_mb;
}

template <typename map_type>
bool measure_footprint(std::size_t heap_bytes, footprint& result) {
  const char* heap = heap_of(heap_bytes);
  const usage_now before = usage_now::read();
  if (!fill<map_type>(heap, heap_bytes)) return false;
  const usage_now after = usage_now::read();
  result = {after.address_mb - before.address_mb, after.resident_mb - before.resident_mb, 0, 0};
  lock_everything(result);
  return true;
}

// What mlockall makes resident in this program without a map.
double locked_without_map() {
  footprint result{};
  const auto work = [](footprint& out) {
    lock_everything(out);
    return out.lock_error == 0;
  };
  return in_child(work, result) ? result.locked_mb : 0;
}

template <typename map_type>
bool starts_below(std::size_t limit_bytes) {
  footprint unused{};
  return in_child(
      [limit_bytes](footprint&) {
        const rlimit limit{limit_bytes, limit_bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
        return fill<map_type>(heap_of(16 * mebibyte), 16 * mebibyte);
      },
      unused);
}

struct heap_case {
  const char* name;
  std::size_t bytes;
};
constexpr heap_case heaps[] = {{"64 KiB", 64 << 10}, {"100 MB", 100 * mebibyte}, {"2 GB", 2048 * mebibyte}};

template <typename map_type>
void time_one(const options& how, table& to) {
  if (std::string(map_type::name).find(how.only) == std::string::npos) return;
  for (const heap_case& heap : heaps) {
    figures result{};
    const bool done = in_child(
        [&](figures& out) {
          out = time_lookups<map_type>(heap.bytes);
          return true;
        },
        result);
    if (!done) continue;
    to.add(map_type::name, std::string(heap.name) + ": class", result.class_ns);
    to.add(map_type::name, std::string(heap.name) + ": class and span", result.both_ns);
  }
}

template <typename map_type>
void print_footprint() {
  std::printf("| %s |", map_type::name);
  for (const heap_case& heap : heaps) {
    footprint result{};
    if (!in_child([&](footprint& out) { return measure_footprint<map_type>(heap.bytes, out); }, result)) {
      std::printf(" failed |");
      continue;
    }
    std::printf(" %.1f / %.2f |", result.address_mb, result.resident_mb);
    if (heap.bytes != heaps[1].bytes) continue;
    if (result.lock_error == E2BIG) {
      std::printf(" not tried |");
    } else if (result.lock_error != 0) {
      std::printf(" %s |", std::strerror(result.lock_error));
    } else {
      std::printf(" %.1f |", result.locked_mb - locked_without_map());
    }
  }
  for (const std::size_t limit : {256 * mebibyte, 4096 * mebibyte})
    std::printf(" %s |", starts_below<map_type>(limit) ? "starts" : "cannot start");
  std::printf("\n");
}

}  // namespace

int main(int count, char** words) {
  const options how = parse(count, words);
  table times;
  times.expect({flat_map::name, two_level_test::name, two_level_distance::name, two_level_header::name,
                three_level::name, locked_hash::name},
               {});
  std::vector<void (*)(const options&, table&)> variants = {
      time_one<flat_map>,         time_one<two_level_test>, time_one<two_level_distance>,
      time_one<two_level_header>, time_one<three_level>,    time_one<locked_hash>};
  rng random(static_cast<std::uint64_t>(now_ns()));
  for (unsigned round = 0; round < how.rounds; ++round) {
    shuffle(variants, random);
    for (const auto variant : variants) variant(how, times);
  }
  times.print("processor time per simulated free, ns, median [min..max]");
  std::printf(
      "\naddress space / resident memory of map and span headers, MB\n"
      "| | 64 KiB | 100 MB | made resident by mlockall at 100 MB | 2 GB | ulimit -v 256 MiB | ulimit -v 4 GiB |\n"
      "|---|---|---|---|---|---|---|\n");
  print_footprint<flat_map>();
  print_footprint<two_level_test>();
  print_footprint<two_level_distance>();
  print_footprint<two_level_header>();
  print_footprint<three_level>();
  print_footprint<locked_hash>();
}
