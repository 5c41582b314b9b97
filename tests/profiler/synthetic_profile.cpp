// SPDX-License-Identifier: MIT
#include "tests/profiler/synthetic_profile.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "profiler/model/store_profile.hpp"

namespace tarn::profiler {

namespace {

std::uint64_t mix(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t value = state;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

constexpr double second = 1e9;

struct module_plan {
  const char* path;
  const char* build_id;
};

constexpr std::array<module_plan, 12> module_plans = {{
    {"/opt/exchange/bin/order_server", "5f3c1d2e9a80417bb1c40d6e7a2f9c3355e8d001"},
    {"/usr/lib/x86_64-linux-gnu/libc.so.6", "81daba31ee66dbd63efdc4252a872949d874d136"},
    {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "bb0a2f9c3c3d1f2b7e8a9d6c5b4a39281706f5e4"},
    {"/usr/lib/x86_64-linux-gnu/libssl.so.3", "1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f70819203"},
    {"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7081920314"},
    {"/usr/lib/x86_64-linux-gnu/libz.so.1", "3e4f5a6b7c8d9e0f1a2b3c4d5e6f708192031425"},
    {"/opt/exchange/lib/libmatching.so", "4f5a6b7c8d9e0f1a2b3c4d5e6f70819203142536"},
    {"/opt/exchange/lib/libjson.so", "5a6b7c8d9e0f1a2b3c4d5e6f7081920314253647"},
    {"/opt/exchange/lib/libimage.so", "6b7c8d9e0f1a2b3c4d5e6f708192031425364758"},
    {"/opt/exchange/lib/liblog.so", "7c8d9e0f1a2b3c4d5e6f70819203142536475869"},
    {"/opt/exchange/plugins/risk limits.so", "8d9e0f1a2b3c4d5e6f7081920314253647586970"},
    {"/opt/vendor/libclosed.so", ""},  // no build-id and no symbols
}};

constexpr std::uint64_t module_spacing = 0x10000000;
constexpr std::uint64_t first_address = 0x555500000000;
constexpr std::uint64_t module_size = 0x200000;

// How the blocks of a site live. For each manner there is a piece of advice, except for the last.
enum class manner : std::uint8_t {
  large_refaulted,
  typed_same_thread,
  typed_across_threads,
  costly_objects,
  batch,
  untouched,
  growing,
  leaking,
  ordinary,
};

struct site_plan {
  manner how;
  const char* function;  // the caller of malloc
  const char* file;
  std::size_t module;
  const char* type;
  std::uint64_t size;
};

constexpr std::array<site_plan, 14> site_plans = {{
    {manner::large_refaulted, "image::decoder::decode(std::span<const std::byte>)", "image/decoder.cpp", 8,
     "", 8 << 20},
    {manner::large_refaulted, "frame_buffer::frame_buffer(int, int)", "image/frame_buffer.cpp", 8,
     "unsigned char", 3 << 20},
    {manner::typed_same_thread, "book::level::add(order const&)", "matching/book.cpp", 6,
     "std::_Rb_tree_node<std::pair<const long, order> >", 72},
    {manner::typed_same_thread, "book::insert(order&&)", "matching/book.cpp", 6, "order", 64},
    {manner::typed_across_threads, "session::on_message(buffer&)", "server/session.cpp", 0, "message", 192},
    {manner::typed_across_threads, "gateway::dispatch(request)", "server/gateway.cpp", 0, "request", 320},
    {manner::costly_objects, "connection_pool::open(endpoint const&)", "server/connection.cpp", 0,
     "tls_connection", 4096},
    {manner::batch, "json::parser::parse_value()", "json/parser.cpp", 7, "json::node", 48},
    {manner::batch, "json::parser::parse_array()", "json/parser.cpp", 7, "json::node*", 128},
    {manner::untouched, "cache::reserve(unsigned long)", "server/cache.cpp", 0, "cache_entry", 64 << 20},
    {manner::growing, "log::line::append(std::string_view)", "log/line.cpp", 9, "char", 64},
    {manner::growing, "report::rows::push_back(row&&)", "server/report.cpp", 0, "row", 48},
    {manner::leaking, "risk::limits::remember(account const&)", "risk/limits.cpp", 10,
     "std::_List_node<limit>", 40},
    {manner::ordinary, "handler_%", "server/handlers.cpp", 0, "std::string", 32},
}};

// The frames of call paths to the sites, outermost first.
struct frame_plan {
  const char* function;
  const char* file;
  std::size_t module;
};
constexpr std::array<frame_plan, 4> roots = {{
    {"_start", "", 0},
    {"__libc_start_main", "", 1},
    {"main", "server/main.cpp", 0},
    {"server::run(configuration const&)", "server/server.cpp", 0},
}};
constexpr std::array<frame_plan, 3> worker_roots = {{
    {"clone3", "", 1},
    {"start_thread", "", 1},
    {"std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (worker::*)(), worker*> > >::_M_run()",
     "thread:244", 0},
}};
constexpr std::array<frame_plan, 5> middles = {{
    {"event_loop::turn()", "server/event_loop.cpp", 0},
    {"session::read_some()", "server/session.cpp", 0},
    {"handle_request(request const&, response&)", "server/handlers.cpp", 0},
    {"matching::engine::apply(command const&)", "matching/engine.cpp", 6},
    {"closed_callback", "", 11},
}};

class maker {
 public:
  explicit maker(const synthetic_options& options) : options_(options), state_(options.seed) {
    p_.stacks.emplace_back();
  }

  profile run() {
    make_modules();
    make_threads();
    for (std::size_t index = 0; index < options_.sites; ++index) make_site(index);
    make_meta();
    make_counters();
    make_memory();
    if (!options_.symbols) p_.symbols.clear();
    if (options_.hostile) make_hostile();
    return std::move(p_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return mix(state_) % bound; }

  // Appends to each name: an escape sequence that sets the terminal's title, a forged row, bytes that are not UTF-8, a
  // control character of two bytes, characters that change the direction of text or end a line, and what has a meaning
  // in markup, in labels and in call paths.
  static std::string hostile_ending() {
    return "\x1b]0;title\x07\nforged 9.9 s\r\t\xff\xfe\xc2\x9b"
           "31m\xe2\x80\xae\xe2\x80\xa8\xef\xbb\xbf\x7f</script><!--<script>alert(1)//\"'\\&;{}\\";
  }

  static nlohmann::json hostile_meta(const nlohmann::json& value) {
    if (value.is_string()) return value.get<std::string>() + hostile_ending();
    if (!value.is_structured()) return value;
    nlohmann::json out = value.is_object() ? nlohmann::json::object() : nlohmann::json::array();
    for (const auto& [key, member] : value.items()) {
      if (!value.is_object()) out.push_back(hostile_meta(member));
      if (value.is_object()) out[key] = key == "mode" ? member : hostile_meta(member);
    }
    return out;
  }

  void make_hostile() {
    const std::string ending = hostile_ending();
    for (auto& [address, frames] : p_.symbols) {
      for (source_frame& frame : frames) {
        frame.function += ending;
        frame.file += ending;
      }
    }
    for (module_info& each : p_.modules) each.path += ending;
    for (thread_info& each : p_.threads) each.name += ending;
    for (memory_part& each : p_.memory.parts) each.name += each.name.empty() ? "" : ending;
    for (site& each : p_.sites) each.type += ending;
    p_.meta["command"] = "server";
    p_.meta["symbol_notes"] = {"a file has no symbols"};
    p_.meta = hostile_meta(p_.meta);
    p_.meta["of_another_version" + ending] = ending;
  }

  void make_modules() {
    std::uint64_t start = first_address;
    for (const module_plan& plan : module_plans) {
      p_.modules.push_back({plan.path, plan.build_id, start, start + module_size, 0x1000});
      start += module_spacing;
    }
  }

  void make_threads() {
    const auto end = static_cast<std::uint64_t>(static_cast<double>(options_.seconds) * second);
    p_.threads.push_back({4711, "order_server", 0, 0});
    for (std::uint64_t index = 1; index <= 6; ++index) {
      p_.threads.push_back({4711 + index, "worker-" + std::to_string(index), index * 1000000, 0});
    }
    p_.threads.push_back({4720, "log writer", 2000000, 0});
    p_.threads.push_back({4721, "reload", end / 3, end / 2});  // has ended
  }

  // A return address in the function: one for each function and line, so that paths share nodes.
  std::uint64_t address_of(const std::string& function, const std::string& file, std::size_t module,
                           std::uint32_t line, bool inlines) {
    const std::string key = function + ":" + std::to_string(line);
    const auto found = addresses_.find(key);
    if (found != addresses_.end()) return found->second;
    const std::uint64_t address = p_.modules[module].start + 0x1000 + 0x20 * ++last_offset_[module] + 5;
    addresses_.emplace(key, address);
    if (module == 11) return address;  // without symbols
    std::vector<source_frame> frames;
    if (inlines) {
      frames.push_back({"std::__new_allocator<T>::allocate(unsigned long, void const*)",
                        "/usr/include/c++/12/bits/new_allocator.h", 137, true});
      frames.push_back(
          {"std::vector<T>::_M_realloc_insert(T&&)", "/usr/include/c++/12/bits/vector.tcc", 440, true});
    }
    frames.push_back({function, file.empty() ? "" : "/src/exchange/" + file, line, false});
    p_.symbols.emplace(address, std::move(frames));
    return address;
  }

  std::uint32_t child(std::uint32_t parent, std::uint64_t address) {
    const auto [found, is_new] =
        nodes_.try_emplace({parent, address}, static_cast<std::uint32_t>(p_.stacks.size()));
    if (is_new) p_.stacks.push_back({parent, address});
    return found->second;
  }

  std::uint32_t push(std::uint32_t parent, const frame_plan& frame, std::uint32_t line) {
    return child(parent, address_of(frame.function, frame.file, frame.module, line, false));
  }

  std::uint32_t make_path(const site_plan& plan, std::size_t index) {
    std::uint32_t node = 0;
    constexpr std::size_t few = 512;
    const std::size_t number_of_path = index;
    if (options_.depth != 0) index %= few;
    const auto salt = static_cast<std::uint32_t>(index);
    if (index % 3 == 0) {
      for (const frame_plan& frame : roots) node = push(node, frame, 40);
    } else {
      for (const frame_plan& frame : worker_roots) node = push(node, frame, 60);
    }
    const std::size_t depth = 1 + below(middles.size());
    for (std::size_t level = 0; level < depth; ++level) node = push(node, middles[level], 100 + salt % 7);
    // The path's number in digits of 8, one for each frame, the last digit innermost.
    constexpr std::array<const char*, 8> visits = {"visit_0(tree*)", "visit_1(tree*)", "visit_2(tree*)",
                                                   "visit_3(tree*)", "visit_4(tree*)", "visit_5(tree*)",
                                                   "visit_6(tree*)", "visit_7(tree*)"};
    for (std::size_t frame = options_.depth; frame-- > 0;) {
      const std::size_t digit = frame < 20 ? number_of_path >> (3 * frame) & 7 : frame % 8;
      node = push(node, {visits[digit], "compiler/pass.cpp", 6}, 300);
    }
    // A parser recurses, to different depths.
    if (plan.how == manner::batch) {
      const std::uint64_t rounds = 1 + index % 12;
      for (std::uint64_t round = 0; round < rounds; ++round) {
        node = push(node, {"json::parser::parse_value()", "json/parser.cpp", 7}, 88);
        node = push(node, {"json::parser::parse_array()", "json/parser.cpp", 7}, 131);
      }
    }
    std::string function = plan.function;
    const std::size_t mark = function.find('%');
    if (mark != std::string::npos) {
      function = "handler_" + std::to_string(index) + "::operator()(request const&) const";
    }
    const bool inlines = plan.how == manner::growing || plan.how == manner::typed_same_thread;
    return child(node, address_of(function, plan.file, plan.module, 10 + salt, inlines));
  }

  void make_site(std::size_t index) {
    // One site of each notable plan first; then every seventh site has a notable plan, the others the ordinary one.
    const std::size_t notable = site_plans.size() - 1;
    const bool chosen = index < notable || index % 7 == 0;
    const site_plan& plan = site_plans[chosen ? index % notable : notable];
    site one;
    one.stack = make_path(plan, index);
    one.type = plan.type;
    one.evidence = *plan.type == 0 ? type_evidence::none
                                   : (index % 5 == 4 ? type_evidence::constructor : type_evidence::allocator);
    if (index % 11 == 10 && !one.type.empty()) one.evidence = type_evidence::vtable;
    fill(one, plan, index < notable ? 1.0 : 0.02 + 0.3 / static_cast<double>(index));
    p_.sites.push_back(std::move(one));
  }

  // Sets the figures of a site. `weight`: factor of the plan's rate of allocations.
  void fill(site& one, const site_plan& plan, double weight) {
    site_figures& f = one.figures;
    const double seconds = static_cast<double>(options_.seconds);
    const double rate = rate_of(plan.how) * weight;
    f.allocations = std::max(1.0, std::floor(rate * seconds));
    f.samples = options_.mode == profile_mode::sample ? std::max(1.0, std::floor(f.allocations / 1000))
                                                      : f.allocations;
    const double kept = kept_of(plan.how);
    f.frees = std::floor(f.allocations * (1 - kept));
    f.live = f.allocations - f.frees;
    make_sizes(one, plan);
    f.freed_bytes = std::floor(f.bytes * (f.frees / f.allocations));
    f.live_bytes = f.bytes - f.freed_bytes;
    f.usable_bytes = std::floor(f.bytes * 1.06 + 8 * f.allocations);
    const double middle = f.bytes / f.allocations;
    f.bytes_at_peak = std::min(f.bytes, f.live_bytes * 0.9 + 3 * std::floor(middle));
    f.peak_bytes = std::max(f.bytes_at_peak, f.live_bytes) + std::floor(middle);
    if (f.peak_bytes > f.bytes) f.peak_bytes = f.bytes;
    if (plan.size >= 65536) {
      f.large = f.allocations;
      f.large_bytes = f.bytes;
    }
    make_manner(one, plan);
    make_faults(f, plan);
    make_lifetimes(one, plan);
    make_threads_of(one, plan);
    f.malloc_ns = std::floor(f.allocations * (plan.size >= 65536 ? 900 : 21) + f.frees * 9);
  }

  static double rate_of(manner how) {
    constexpr std::array<double, 9> rates = {30,   90000, 40000, 50, 60000,
                                             0.05, 20000, 700,   900};  // by manner
    return rates[static_cast<std::size_t>(how)];
  }

  static double kept_of(manner how) {
    if (how == manner::leaking) return 1;
    return how == manner::typed_same_thread ? 0.004 : 0.0002;
  }

  // One exact size; for sites that grow or are ordinary up to six sizes, the fourth and fifth as powers of two.
  void make_sizes(site& one, const site_plan& plan) {
    site_figures& f = one.figures;
    double left = f.allocations;
    const bool varied = plan.how == manner::growing || plan.how == manner::ordinary;
    std::uint64_t size = plan.size;
    while (varied && left > 4 && one.sizes.size() < 5) {
      const double count = std::floor(left / 2);
      const bool exact = one.sizes.size() < 3;
      one.sizes.push_back({exact ? size : std::bit_floor(size), count, exact});
      f.bytes += count * static_cast<double>(size);
      left -= count;
      size *= 2;
    }
    one.sizes.push_back({size, left, true});
    f.bytes += left * static_cast<double>(size);
    std::stable_sort(one.sizes.begin(), one.sizes.end(),
                     [](const size_count& a, const size_count& b) { return a.count > b.count; });
  }

  static void make_manner(site& one, const site_plan& plan) {
    site_figures& f = one.figures;
    switch (plan.how) {
      case manner::typed_same_thread: f.lifo_frees = std::floor(f.frees * 0.7); break;
      case manner::batch: f.batch_frees = std::floor(f.frees * 0.93); break;
      case manner::typed_across_threads: f.foreign_frees = std::floor(f.frees * 0.96); break;
      case manner::growing:
        f.reallocs = std::floor(f.allocations * 0.6);
        f.realloc_bytes = std::floor(f.bytes * 0.4);
        break;
      case manner::untouched:
        f.callocs = f.allocations;
        f.calloc_bytes = f.bytes;
        break;
      case manner::large_refaulted:
        f.maps = 2;
        f.mapped_bytes = 2.0 * static_cast<double>(plan.size);
        break;
      default: f.lifo_frees = std::floor(f.frees * 0.3); break;
    }
  }

  static void make_faults(site_figures& f, const site_plan& plan) {
    switch (plan.how) {
      case manner::large_refaulted:
        f.faults = f.allocations * static_cast<double>(plan.size / 4096);
        f.fault_pages = f.faults;
        f.kernel_faults = std::floor(f.faults * 0.1);
        break;
      case manner::untouched:
        f.faults = f.allocations * 70;
        f.fault_pages = f.faults + 511 * f.allocations;  // one huge page of each block
        break;
      default:
        f.faults = std::ceil(f.peak_bytes / 4096);
        f.fault_pages = f.faults;
        break;
    }
    if (plan.size >= 65536) {
      f.checked_bytes = f.bytes;
      f.resident_bytes = plan.how == manner::untouched ? std::floor(f.bytes * 0.03) : f.bytes;
    }
  }

  // A bell-shaped distribution over five powers of two, around a middle that depends on the manner.
  static void make_lifetimes(site& one, const site_plan& plan) {
    const site_figures& f = one.figures;
    if (f.frees <= 0) return;
    int middle = 14;
    if (plan.how == manner::typed_same_thread) middle = 11;
    if (plan.how == manner::batch) middle = 19;
    if (plan.how == manner::large_refaulted) middle = 24;
    if (plan.how == manner::costly_objects) middle = 33;
    constexpr std::array<double, 5> shares = {0.05, 0.2, 0.45, 0.2, 0};
    double left = f.frees;
    double left_bytes = f.freed_bytes;
    double sum = 0;
    for (std::size_t index = 0; index < shares.size() && left > 0; ++index) {
      const bool last = index + 1 == shares.size();
      const double count = last ? left : std::floor(f.frees * shares[index]);
      if (count <= 0) continue;
      const double bytes = last ? left_bytes : std::floor(f.freed_bytes * (count / f.frees));
      const int power = middle - 2 + static_cast<int>(index);
      one.lifetimes.push_back({static_cast<std::uint8_t>(power),
                               static_cast<std::uint8_t>(std::bit_width(plan.size) - 1), count, bytes});
      sum += count * std::ldexp(1.4, power);
      left -= count;
      left_bytes -= bytes;
    }
    one.figures.lifetime_ns = std::floor(sum);
  }

  void make_threads_of(site& one, const site_plan& plan) {
    const site_figures& f = one.figures;
    if (f.frees <= 0) return;
    const double foreign = std::min(f.foreign_frees, f.frees);
    const auto from = static_cast<std::uint32_t>(1 + below(3));
    const auto to = static_cast<std::uint32_t>(4 + below(3));
    const double foreign_bytes = std::floor(f.freed_bytes * (foreign / f.frees));
    if (foreign > 0) one.threads.push_back({from, to, foreign, foreign_bytes});
    const std::uint32_t own = plan.how == manner::growing ? 7 : from;
    if (f.frees > foreign)
      one.threads.push_back({own, own, f.frees - foreign, f.freed_bytes - foreign_bytes});
  }

  void make_meta() {
    p_.mode = options_.mode;
    p_.prices = {850, 78000, 7100, 75, 210, 19};
    p_.other_faults = 5321;
    p_.unseen_faults = 1200;
    p_.unwind_checked = 40000;
    p_.unwind_error_rate = 0.00125;
    p_.meta = {{"program", "/opt/exchange/bin/order_server"},
               {"arguments", {"order_server", "--port", "8080"}},
               {"pid", 4711},
               {"parent", 4700},
               {"start", 1700000000},
               {"duration_ns", static_cast<double>(options_.seconds) * second},
               {"mode", mode_name(options_.mode)},
               {"sample_bytes", options_.mode == profile_mode::sample ? 524288 : 0},
               {"fault_period", options_.mode == profile_mode::sample ? 16 : 1},
               {"page_bytes", 4096},
               {"kernel", "6.1.0"},
               {"thp", "madvise"},
               {"allocator", "glibc 2.36"},
               {"privilege", "user, perf_event_paranoid 2"},
               {"refused", {"hardware counters are not there: a virtual machine"}},
               {"tarn_version", "0.1.0"},
               {"exit", 0}};
  }

  void make_counters() {
    counter_row end;
    end.time_ns = static_cast<std::uint64_t>(static_cast<double>(options_.seconds) * second);
    double at_peak = 0;
    for (const site& one : p_.sites) {
      end.live_bytes += one.figures.live_bytes;
      end.live += one.figures.live;
      end.allocations += one.figures.allocations;
      end.frees += one.figures.frees;
      end.faults += one.figures.faults;
      at_peak += one.figures.bytes_at_peak;
    }
    end.seen_faults = end.faults + p_.other_faults;
    end.faults = end.seen_faults + p_.unseen_faults;
    end.resident_bytes = end.live_bytes * 1.3 + (60 << 20);
    end.user_ns = static_cast<double>(options_.seconds) * 2.1 * second;
    end.system_ns = static_cast<double>(options_.seconds) * 0.6 * second;
    const std::size_t peak_row = options_.seconds * 2 / 3;
    for (std::size_t row = 1; row <= options_.seconds; ++row) {
      counter_row now = end;
      if (row < options_.seconds) {
        const double share = static_cast<double>(row) / static_cast<double>(options_.seconds);
        for (double counter_row::*member :
             {&counter_row::allocations, &counter_row::frees, &counter_row::faults, &counter_row::seen_faults,
              &counter_row::user_ns, &counter_row::system_ns, &counter_row::live}) {
          now.*member = std::floor(end.*member * share);
        }
        const double wave = 0.6 + 0.2 * std::sin(static_cast<double>(row) / 9);
        now.live_bytes = row == peak_row ? at_peak : std::floor(at_peak * std::min(1.0, 3 * share) * wave);
        now.resident_bytes = std::floor(now.live_bytes * 1.25) + (40 << 20);
        now.time_ns = static_cast<std::uint64_t>(row) * 1000000000U + below(2000000);
        now.major_faults = row < 5 ? static_cast<double>(row) : 5;
      } else {
        now.major_faults = 5;
      }
      p_.counters.push_back(now);
    }
  }

  // One row of memory for every tenth row of counters; parts for the row with most memory and for the last.
  void make_memory() {
    if (options_.mode == profile_mode::faults) return;
    for (std::size_t index = 9; index < p_.counters.size(); index += 10) {
      memory_row row;
      row.time_ns = p_.counters[index].time_ns;
      row.live = std::floor(p_.counters[index].live_bytes * 0.9);
      row.live_variance = options_.mode == profile_mode::sample ? row.live * 1e5 : 0;
      row.rounding = std::floor(row.live * 0.06);
      row.kept = std::floor(row.live * 0.1);
      row.mapped = 8 << 20;
      row.files = 12 << 20;
      row.written = 2 << 20;
      row.stacks = 1 << 20;
      row.recorder = 1 << 20;
      row.resident_bytes = row.sum();
      p_.memory.rows.push_back(row);
    }
    if (p_.memory.rows.empty()) return;
    const memory_row most = *p_.memory.highest();
    for (const memory_row& row : {most, p_.memory.rows.back()}) {
      const std::size_t named = std::min<std::size_t>(20, p_.sites.size());
      for (std::size_t site = 0; site < named; ++site) {
        const double bytes = row.live / static_cast<double>(named + 1);
        p_.memory.parts.push_back(
            {row.time_ns, "live", "", static_cast<std::uint32_t>(site + 1), bytes, row.live_variance / 25});
      }
      p_.memory.parts.push_back({row.time_ns, "files", p_.modules[0].path, 0, row.files * 0.7, 0});
      p_.memory.parts.push_back({row.time_ns, "files", p_.modules[1].path, 0, row.files * 0.3, 0});
    }
  }

  const synthetic_options options_;
  std::uint64_t state_;
  profile p_;
  std::map<std::string, std::uint64_t> addresses_;
  std::array<std::uint64_t, module_plans.size()> last_offset_{};
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> nodes_;
};

}  // namespace

profile synthetic_profile(const synthetic_options& options) { return maker(options).run(); }

std::uint64_t synthetic_events::random() { return mix(state_); }

table synthetic_events::next(std::size_t rows) {
  integers time, thread, kind, block, size, stack, extra;
  for (integers* each : {&time, &thread, &kind, &block, &size, &stack, &extra}) each->reserve(rows);
  constexpr std::size_t most_living = 5000;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t chance = random();
    time_ += 20 + (chance >> 8) % 180;
    time.push_back(time_);
    thread.push_back((row / 64) % 4);
    extra.push_back(0);
    const bool frees = !living_.empty() && (living_.size() > most_living || chance % 2 == 0);
    if (frees) {
      // One of the four youngest in three cases of four, otherwise any.
      const std::size_t back = (chance >> 20) % 4 != 0
                                   ? std::min<std::size_t>((chance >> 24) % 4, living_.size() - 1)
                                   : (chance >> 24) % living_.size();
      const std::size_t at = living_.size() - 1 - back;
      kind.push_back(5);
      block.push_back(living_[at]);
      size.push_back(0);
      stack.push_back(0);
      living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      const std::uint64_t place = (chance >> 30) % 40 * ((chance >> 40) % 5 + 1);
      kind.push_back(place % 3 == 0 ? 4 : 1);
      block.push_back(++block_);
      size.push_back(16 + 8 * (place % 23));
      stack.push_back(1 + place);
      living_.push_back(block_);
    }
  }
  table result;
  result.name = "events";
  result.rows = rows;
  result.columns = {{"time_ns", std::move(time)}, {"thread", std::move(thread)}, {"kind", std::move(kind)},
                    {"block", std::move(block)},  {"size", std::move(size)},     {"stack", std::move(stack)},
                    {"extra", std::move(extra)}};
  return result;
}

void write_synthetic_profile(const std::string& path, const synthetic_options& options,
                             std::size_t event_rows) {
  table_writer out(path);
  synthetic_events events(options.seed);
  constexpr std::size_t rows_each = 1 << 16;
  for (std::size_t row = 0; row < event_rows; row += rows_each) {
    out.append(events.next(std::min(rows_each, event_rows - row)));
  }
  store_profile(out, synthetic_profile(options));
}

}  // namespace tarn::profiler
