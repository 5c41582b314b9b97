// SPDX-License-Identifier: MIT
// Sorts the advice of all rules, and adds the advice on what to leave unchanged.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/advice_rules.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_remarks = 3;

const kind_facts& facts_about(advice_kind kind) { return advice_kinds[static_cast<std::size_t>(kind)]; }

void add(std::vector<advice>& to, std::optional<advice>&& one) {
  if (one) to.push_back(std::move(*one));
}

void add(std::vector<advice>& to, std::vector<advice>&& more) {
  for (advice& one : more) to.push_back(std::move(one));
}

std::vector<advice> collect(const advice_facts& facts) {
  std::vector<advice> all;
  std::apply([&](auto... rule) { (add(all, rule(facts)), ...); }, program_rules);
  for (const site_group& group : facts.groups)
    std::apply([&](auto... rule) { (add(all, rule(facts, group)), ...); }, group_rules);
  return all;
}

// Whether both concern the same kind of cost at the same sites. No sites: the whole program.
bool overlap(const advice& a, const advice& b) {
  if (a.grade == advice_grade::refuted || b.grade == advice_grade::refuted) return false;
  if ((facts_about(a.kind).costs & facts_about(b.kind).costs) == 0) return false;
  if (a.sites.empty() || b.sites.empty()) return true;
  const std::set<std::uint32_t> sites(a.sites.begin(), a.sites.end());
  return std::any_of(b.sites.begin(), b.sites.end(),
                     [&sites](std::uint32_t site) { return sites.contains(site); });
}

void mark_alternatives(std::vector<advice>& actions) {
  for (std::size_t index = 0; index < actions.size(); ++index) {
    for (std::size_t earlier = 0; earlier < index && actions[index].instead_of < 0; ++earlier) {
      if (actions[earlier].instead_of < 0 && overlap(actions[earlier], actions[index])) {
        actions[index].instead_of = static_cast<int>(earlier);
      }
    }
  }
}

std::string say_total(const advice_facts& facts, const cost& all) {
  return "memory allocation costs " + say_time(all.total()) + ", " + say_of_cpu(facts, all.total()) + ": " +
         say_time(all.malloc_ns) + " in malloc and free, " + say_time(all.hidden()) +
         " in page faults and giving memory back";
}

constexpr double much_cost = 0.05;  // of the CPU time

advice leave_everything(const advice_facts& facts, const advice_settings& settings) {
  advice one;
  one.headline = "Leave it: no change of memory allocation is worth the effort here";
  const std::vector<proof_way>& ways = facts.p.proven.ways;
  const bool is_decided = std::none_of(ways.begin(), ways.end(), [](const proof_way& way) {
    return way.decision == proof_decision::undecided || way.decision == proof_decision::behind ||
           !way.failure.empty();
  });
  if (facts.p.proven.rounds > 0) {
    one.reason =
        is_decided
            ? "None of the changes that were measured saves time."
            : "None of the changes that were measured has been shown to save time; some are undecided.";
  } else if (facts.p.mode == profile_mode::faults) {
    one.headline = "No advice: which blocks the page faults belong to is not known";
    one.reason =
        "The profile holds page faults alone. Record the calls as well, where the program permits it: "
        "tarn profile -- PROGRAM ARG...";
  } else {
    if (!facts.groups.empty() && cost_of_all(facts.p).total() >= much_cost * facts.cpu_ns)
      one.headline = "Leave how it allocates: only fewer blocks, or less memory at once, would save time";
    one.reason = "No change concerns a cost of " + say_share(settings.least_share) +
                 " of the program's CPU time or more, and few small blocks live at once.";
  }
  one.evidence = {say_total(facts, cost_of_all(facts.p))};
  return one;
}

advice leave_the_rest(const advice_facts& facts, const std::vector<advice>& actions) {
  std::set<std::uint32_t> covered;
  for (const advice& one : actions) {
    if (one.kind != advice_kind::allocator && one.grade != advice_grade::refuted)
      covered.insert(one.sites.begin(), one.sites.end());
  }
  std::size_t places = 0;
  double rest = 0;
  double largest = 0;
  for (const site_group& group : facts.groups) {
    if (covered.contains(group.sites.front())) continue;
    ++places;
    rest += group.charged.total();
    largest = std::max(largest, group.charged.total());
  }
  advice one;
  one.headline = "Leave all other places as they are";
  if (places == 0) {
    one.reason = "There is no other place that allocates.";
  } else if (places == 1) {
    one.reason = "The other place costs " + say_of_cpu(facts, rest) + ".";
  } else {
    one.reason = "The other " + say_count(static_cast<double>(places)) + " places cost " +
                 say_of_cpu(facts, rest) + " together, the most expensive of them " +
                 say_share(largest / facts.cpu_ns) + ".";
  }
  one.evidence = {say_total(facts, cost_of_all(facts.p))};
  return one;
}

void name_mallocs(std::vector<advice>& candidates, const advice_settings& settings) {
  if (settings.mallocs.empty()) return;
  std::string names;
  for (const std::string& name : settings.mallocs) names += (names.empty() ? "" : ", ") + name;
  for (advice& one : candidates) {
    if (one.kind != advice_kind::allocator || one.grade != advice_grade::counted) continue;
    one.evidence.push_back("installed here: " + names + "; which of them is best, only a run can tell");
  }
}

// Where a piece of advice stands in the list; within an order by figures.
enum class position : unsigned char { measured, counted, open, of_packages, refuted };

position position_of(const advice& one) {
  if (one.grade == advice_grade::measured) return position::measured;
  if (one.grade == advice_grade::refuted) return position::refuted;
  if (one.reach == advice_reach::package) return position::of_packages;
  return one.grade == advice_grade::open ? position::open : position::counted;
}

// Of what is counted, or not decided, a setting comes before an edit that concerns four times its cost.
double rank_of(const advice& one) {
  constexpr double setting_weight = 4;
  if (one.grade == advice_grade::measured) return one.share;
  return one.share * facts_about(one.kind).weight * (one.reach == advice_reach::setting ? setting_weight : 1);
}

// What is worth showing, in order.
std::vector<advice> sorted_advice(std::vector<advice> candidates, const advice_settings& settings) {
  std::erase_if(candidates, [&settings](const advice& one) {
    return one.grade == advice_grade::counted && one.share < settings.least_share;
  });
  std::stable_sort(candidates.begin(), candidates.end(), [](const advice& a, const advice& b) {
    if (position_of(a) != position_of(b)) return position_of(a) < position_of(b);
    return rank_of(a) > rank_of(b);
  });
  std::vector<advice> sorted;
  std::array<std::size_t, 5> counts = {};
  for (advice& one : candidates) {
    const position at = position_of(one);
    const std::size_t most = at == position::open ? most_remarks : settings.most;
    if (counts[static_cast<std::size_t>(at)]++ < most) sorted.push_back(std::move(one));
  }
  return sorted;
}

std::string say_more_memory(const advice& one) {
  return one.memory_bytes >= 1 ? "; " + say_bytes(one.memory_bytes) + " more resident at the peak" : "";
}

// "took 21 % less CPU time (4.2 % more to 43 % less); undecided".
std::string say_undecided(const advice& one) {
  const auto change = [&one](double ns) {
    return say_share(one.share * std::abs(ns) / one.saving_ns) + (ns < 0 ? " more" : " less");
  };
  return "took " + say_share(one.share) + " less CPU time (" + change(one.low_ns) + " to " +
         change(one.high_ns) + "); " + grade_name(one.grade) + say_more_memory(one);
}

}  // namespace

bool is_remark(const advice& one) {
  return one.kind != advice_kind::leave_it && facts_about(one.kind).weight == 0;
}

namespace {

std::vector<advice> arrange(const advice_facts& facts, std::vector<advice> candidates,
                            const advice_settings& settings) {
  std::vector<advice> result = sorted_advice(std::move(candidates), settings);
  const bool is_nothing = std::all_of(result.begin(), result.end(),
                                      [](const advice& one) { return one.grade == advice_grade::refuted; });
  result.insert(is_nothing ? result.begin() : result.end(),
                is_nothing ? leave_everything(facts, settings) : leave_the_rest(facts, result));
  mark_alternatives(result);
  return result;
}

}  // namespace

std::vector<advice> arrange_advice(const profile& p, std::vector<advice> candidates,
                                   const advice_settings& settings) {
  return arrange(facts_of(p), std::move(candidates), settings);
}

std::vector<advice> advise(const profile& p, const advice_settings& settings) {
  const advice_facts facts = facts_of(p);
  std::vector<advice> candidates = collect(facts);
  apply_proof(p, candidates);
  name_mallocs(candidates, settings);
  return arrange(facts, std::move(candidates), settings);
}

const char* kind_name(advice_kind kind) { return facts_about(kind).name; }

const char* grade_name(advice_grade grade) {
  constexpr const char* names[] = {"counted", "measured", "refuted", "undecided", "only a run can tell"};
  return names[static_cast<std::size_t>(grade)];
}

const char* reach_name(advice_reach reach) {
  constexpr const char* names[] = {"a setting", "your code", "a package's code"};
  return names[static_cast<std::size_t>(reach)];
}

std::string say_figures(const advice& one) {
  if (one.kind == advice_kind::leave_it) return "";
  if (one.grade == advice_grade::open) return grade_name(one.grade);
  if (one.grade == advice_grade::refuted)
    return one.fails ? "the program fails with it; measured" : "no gain; measured";
  if (one.grade == advice_grade::undecided) return say_undecided(one);
  const double margin = margin_of(one.counted_variance);
  const double of_share =
      one.grade == advice_grade::counted && one.counted_ns > 0 ? one.share * margin / one.counted_ns : 0;
  const std::string share = say_share(one.share, 1, of_share) + " of CPU time; " + grade_name(one.grade);
  if (one.grade == advice_grade::measured) {
    return "saves " + say_time(one.saving_ns) + " (" + say_time(one.low_ns) + " to " + say_time(one.high_ns) +
           "), " + share + say_more_memory(one);
  }
  return "costs " + say_estimate(base_unit::ns, one.counted_ns, margin) + " now, " + share;
}

nlohmann::json as_json(const advice& one) {
  nlohmann::json variables = nlohmann::json::object();
  for (const environment_variable& each : one.variables) variables[each.name] = each.value;
  return {{"kind", kind_name(one.kind)},
          {"grade", grade_name(one.grade)},
          {"reach", reach_name(one.reach)},
          {"site", one.site},
          {"sites", one.sites},
          {"type", one.type},
          {"place", one.place},
          {"headline", one.headline},
          {"reason", one.reason},
          {"change", one.change},
          {"evidence", one.evidence},
          {"variables", variables},
          {"library", one.library},
          {"counted_ns", one.counted_ns},
          {"counted_margin_ns", margin_of(one.counted_variance)},
          {"saving_ns", one.saving_ns},
          {"low_ns", one.low_ns},
          {"high_ns", one.high_ns},
          {"share", one.share},
          {"memory_bytes", one.memory_bytes},
          {"instead_of", one.instead_of}};
}

}  // namespace tarn::profiler
