// SPDX-License-Identifier: MIT
// Sorts the advice of all rules, and adds the advice on what to leave unchanged.
#include <algorithm>
#include <set>

#include "profiler/analyze/advice_proof.hpp"
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

// Whether both would save the same kind of cost at the same sites. No sites: the whole program.
bool overlap(const advice& a, const advice& b) {
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

advice leave_everything(const advice_facts& facts, const std::vector<advice>& candidates,
                        const advice_settings& settings) {
  const cost all = cost_of_all(facts.p);
  advice one;
  one.headline = "Leave it: no change of memory allocation is worth the effort here";
  one.share = 0;
  if (candidates.empty()) {
    if (facts.p.proven.rounds > 0) {
      one.reason = "Everything that needs no change of code was measured; none of it saves time.";
    } else if (facts.p.mode == profile_mode::faults) {
      one.headline = "No advice: which blocks the page faults belong to is not known";
      one.reason =
          "The profile holds page faults alone. Record the calls as well, where the program permits it: "
          "tarn profile -- PROGRAM ARG...";
    } else {
      one.reason = "No rule finds a change that would save time.";
    }
  } else {
    const advice& best = candidates.front();
    one.reason = std::string("The largest possible saving is ") + kind_name(best.kind) +
                 (best.place.empty() ? "" : " at " + best.place) + ": " + say_of_cpu(facts, best.saving_ns) +
                 ", below the " + say_share(settings.least_share) + " that a change must save to be advised.";
  }
  one.evidence = {say_total(facts, all)};
  return one;
}

advice leave_the_rest(const advice_facts& facts, const std::vector<advice>& actions) {
  std::set<std::uint32_t> covered;
  double saved_share = 0;  // measured savings are shares of another run's time
  for (const advice& one : actions) {
    if (one.kind != advice_kind::allocator) covered.insert(one.sites.begin(), one.sites.end());
    if (one.instead_of < 0) saved_share += one.share;
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
  const cost all = cost_of_all(facts.p);
  one.evidence = {say_total(facts, all),
                  "the advice above, without counting alternatives twice, would save " +
                      say_share(std::min(1.0, saved_share)) + " of the program's CPU time"};
  return one;
}

}  // namespace

bool is_remark(const advice& one) {
  return one.kind != advice_kind::leave_it && facts_about(one.kind).weight == 0;
}

std::vector<advice> arrange_advice(const profile& p, std::vector<advice> candidates,
                                   const advice_settings& settings) {
  const advice_facts facts = facts_of(p);
  std::erase_if(candidates, [](const advice& one) { return one.kind == advice_kind::leave_it; });
  std::stable_sort(candidates.begin(), candidates.end(), [](const advice& a, const advice& b) {
    return a.saving_ns * facts_about(a.kind).weight > b.saving_ns * facts_about(b.kind).weight;
  });
  std::vector<advice> actions;
  std::vector<advice> remarks;
  std::vector<advice> disproved;
  for (advice& one : candidates) {
    one.instead_of = -1;
    if (one.grade == advice_grade::disproved) {
      disproved.push_back(one);
    } else if (is_remark(one)) {
      if (remarks.size() < most_remarks) remarks.push_back(one);
    } else if (one.share >= settings.least_share && actions.size() < settings.most) {
      actions.push_back(one);
    }
  }
  mark_alternatives(actions);
  remarks.insert(remarks.end(), disproved.begin(), disproved.end());
  std::vector<advice> result;
  if (actions.empty()) {
    std::erase_if(candidates,
                  [](const advice& one) { return is_remark(one) || one.grade == advice_grade::disproved; });
    result.push_back(leave_everything(facts, candidates, settings));
    result.insert(result.end(), remarks.begin(), remarks.end());
    return result;
  }
  result = actions;
  result.insert(result.end(), remarks.begin(), remarks.end());
  result.push_back(leave_the_rest(facts, actions));
  return result;
}

std::vector<advice> advise(const profile& p, const advice_settings& settings) {
  std::vector<advice> candidates = collect(facts_of(p));
  apply_proof(p, candidates);
  return arrange_advice(p, std::move(candidates), settings);
}

const char* kind_name(advice_kind kind) { return facts_about(kind).name; }

const char* grade_name(advice_grade grade) {
  constexpr const char* names[] = {"estimated", "replayed", "proven", "disproved"};
  return names[static_cast<std::size_t>(grade)];
}

nlohmann::json as_json(const advice& one) {
  nlohmann::json variables = nlohmann::json::object();
  for (const environment_variable& each : one.variables) variables[each.name] = each.value;
  return {{"kind", kind_name(one.kind)},
          {"grade", grade_name(one.grade)},
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
          {"raw_ns", one.raw_ns},
          {"raw_fault_ns", one.raw_fault_ns},
          {"saving_ns", one.saving_ns},
          {"low_ns", one.low_ns},
          {"high_ns", one.high_ns},
          {"share", one.share},
          {"memory_bytes", one.memory_bytes},
          {"instead_of", one.instead_of}};
}

}  // namespace tarn::profiler
