// SPDX-License-Identifier: MIT
#include "bench/kernels/totals.h"

#include <map>

namespace lathe::bench {
namespace {

using Members = std::vector<const Outcome*>;

// Adds up all members per alternation, for the interval of the total.
Total total_of(std::string name, std::string type, const Members& members) {
  Total total{std::move(name), std::move(type), 0, 0, 0, {}, 0, 0};
  std::vector<double> ours, theirs;
  for (const Outcome* o : members) {
    const auto count = static_cast<double>(o->what.count);
    if (!o->measured() || !o->has_peer()) {
      total.left_out += o->what.count;
      continue;
    }
    total.count += o->what.count;
    total.ours += count * o->seconds();
    total.theirs += count * median(o->theirs);
    total.extra_bytes += o->what.count * o->extra_bytes;
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
  total.ratio = interval_of(theirs);
  return total;
}

bool same_but_for_form(const Outcome& direct, const Outcome& chosen) {
  Problem p = direct.what.problem;
  p.parameters.erase("direct");
  return p == chosen.what.problem && direct.what.source == chosen.what.source;
}

// Replaces convolutions by their direct form where measured.
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

std::vector<Total> totals_of(const std::vector<Outcome>& outcomes) {
  struct Group {
    Members convolutions, direct, cold;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Outcome& o : outcomes) {
    const Problem& p = o.what.problem;
    Group& group = groups[{o.what.source, p.type}];
    if (p.kind != "conv") continue;
    Members& kind = p["direct"] != 0 ? group.direct
                    : p["far"] != 0  ? group.cold
                                     : group.convolutions;
    kind.push_back(&o);
  }
  std::vector<Total> totals;
  for (const auto& [key, group] : groups) {
    const auto& [source, type] = key;
    const std::string name = source + "'s convolutions";
    if (!group.direct.empty()) {
      totals.push_back(
          total_of(name + ", direct", type, in_direct_form(group.convolutions, group.direct)));
    }
    if (!group.convolutions.empty()) totals.push_back(total_of(name, type, group.convolutions));
    if (!group.cold.empty()) totals.push_back(total_of(name + ", far weights", type, group.cold));
  }
  return totals;
}

}  // namespace lathe::bench
