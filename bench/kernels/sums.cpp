// SPDX-License-Identifier: MIT
#include "bench/kernels/sums.h"

#include <map>

namespace lathe::bench {
namespace {

using Members = std::vector<const Outcome*>;

// Samples of all members, alternation by alternation, so that the interval is that of the sum.
Sum sum_of(std::string name, std::string type, const Members& members) {
  Sum sum{std::move(name), std::move(type), 0, 0, 0, {}, 0, 0};
  std::vector<double> ours, theirs;
  for (const Outcome* o : members) {
    const auto count = static_cast<double>(o->what.count);
    if (!o->measured() || !o->has_peer()) {
      sum.left_out += o->what.count;
      continue;
    }
    sum.count += o->what.count;
    sum.ours += count * o->seconds();
    sum.theirs += count * median(o->theirs);
    sum.extra_bytes += o->what.count * o->extra_bytes;
    const size_t samples = std::min(o->ours.size(), o->theirs.size());
    if (ours.empty()) ours.resize(samples), theirs.resize(samples);
    ours.resize(std::min(ours.size(), samples));
    theirs.resize(ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ours[i] += count * o->ours[i];
      theirs[i] += count * o->theirs[i];
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) theirs[i] /= ours[i];
  sum.ratio = interval_of(theirs);
  return sum;
}

// Every pair weighs the same.
Sum mean_of_pairs(const std::string& source, const std::string& type, const Members& members) {
  Sum sum = sum_of(source + "'s pairs", type, members);
  size_t samples = SIZE_MAX;
  for (const Outcome* o : members) {
    if (o->has_peer()) samples = std::min(samples, std::min(o->ours.size(), o->theirs.size()));
  }
  std::vector<double> means;
  for (size_t i = 0; i < samples && samples != SIZE_MAX; ++i) {
    double ratios = 0;
    for (const Outcome* o : members) {
      if (o->has_peer()) ratios += static_cast<double>(o->what.count) * o->theirs[i] / o->ours[i];
    }
    means.push_back(ratios / static_cast<double>(sum.count));
  }
  sum.ratio = interval_of(means);
  return sum;
}

bool same_but_for_form(const Outcome& direct, const Outcome& chosen) {
  Problem p = direct.what.problem;
  p.numbers.erase("direct");
  return p == chosen.what.problem && direct.what.source == chosen.what.source;
}

// Each convolution in its direct form where that was measured too.
Members in_direct_form(const Members& chosen, const Members& direct) {
  Members out;
  for (const Outcome* o : chosen) {
    for (const Outcome* other : direct) {
      if (same_but_for_form(*other, *o)) o = other;
    }
    out.push_back(o);
  }
  return out;
}

}  // namespace

std::vector<Sum> sums_of(const std::vector<Outcome>& outcomes) {
  struct Group {
    Members convolutions, direct, far, pairs;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Outcome& o : outcomes) {
    const Problem& p = o.what.problem;
    Group& group = groups[{o.what.source, p.type}];
    if (p.kind == "pair") group.pairs.push_back(&o);
    if (p.kind != "conv") continue;
    Members& kind = p["direct"] != 0 ? group.direct
                    : p["far"] != 0  ? group.far
                                     : group.convolutions;
    kind.push_back(&o);
  }
  std::vector<Sum> sums;
  for (const auto& [key, group] : groups) {
    const auto& [source, type] = key;
    const std::string name = source + "'s convolutions";
    if (!group.direct.empty()) {
      sums.push_back(
          sum_of(name + ", direct", type, in_direct_form(group.convolutions, group.direct)));
    }
    if (!group.convolutions.empty()) sums.push_back(sum_of(name, type, group.convolutions));
    if (!group.far.empty()) sums.push_back(sum_of(name + ", far weights", type, group.far));
    if (!group.pairs.empty()) sums.push_back(mean_of_pairs(source, type, group.pairs));
  }
  return sums;
}

}  // namespace lathe::bench
