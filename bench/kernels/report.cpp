// SPDX-License-Identifier: MIT
#include "bench/kernels/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/kernels/totals.h"

namespace lathe::bench {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kShort = 20e-6;  // shapes below are summed by kind of layer
constexpr double kBelow = 0.95;   // ratio: shapes whose interval is below are listed

std::string text_of(const Problem& p) {
  std::string out = p.kind;
  if (p.kind == "conv") {
    out += fmt::format(" {}x{}x{} > {}, {}x{} /{}", p["ic"], p["ih"], p["iw"], p["oc"], p["kh"],
                       p["kw"], p["sh"]);
    if (p["g"] > 1) out += fmt::format(" groups {}", p["g"]);
  } else if (p.kind == "attention") {
    out += fmt::format(" {} > {}, {} heads of {}", p["n"], p["m"], p["heads"], p["size"]);
    if (p["kv_heads"] != p["heads"]) out += fmt::format(" over {}", p["kv_heads"]);
    if (p["causal"] != 0) out += " causal";
    if (p["page"] != 0) out += fmt::format(" pages of {}", p["page"]);
  } else if (p["hidden"] != 0) {
    out += fmt::format(" {} > {}, {} steps", p["input"], p["hidden"], p["steps"]);
  } else if (p["m"] != 0) {
    out += fmt::format(" {}x{}x{}", p["m"], p["n"], p["k"]);
    if (p["batch"] > 1) out += fmt::format(" batch {}", p["batch"]);
    if (p["block"] != 0) out += fmt::format(" blocks of {}", p["block"]);
  }
  if (p["sum"] != 0) out += " +sum";
  if (p["direct"] != 0) out += " direct";
  if (p["far"] != 0) out += " far";
  return p.activation == "none" ? out : out + " " + p.activation;
}

std::string layer_kind(const Problem& p) {
  if (p.kind != "conv") return p.kind;
  if (p["g"] > 1) return p["g"] == p["ic"] ? "depthwise" : "grouped conv";
  return fmt::format("conv {}x{}", p["kh"], p["kw"]);
}

double peak_of(const Session& session, const std::string& type, const std::string& isa) {
  double rate = 0;
  for (const Peak& peak : session.peaks) {
    if (peak.type == type && (isa.empty() || peak.isa == isa)) rate = std::max(rate, peak.rate);
  }
  // The later instruction sets add no f32 instruction.
  return rate > 0 || isa.empty() ? rate : peak_of(session, type, "");
}

// Share of memory bandwidth of a GEMV or decode attention; 0 for others.
double bandwidth_share(const Session& session, const Outcome& outcome) {
  const Problem& p = outcome.what.problem;
  if (const double beside = outcome.read_share(); beside > 0) return beside;
  if (p["m"] != 1 || session.read_bandwidth == 0) return 0;
  return static_cast<double>(p.bytes()) / outcome.seconds() / session.read_bandwidth;
}

double weight_of(const Outcome& outcome) {
  return outcome.what.problem.flops() * static_cast<double>(outcome.what.count);
}

// Averages each alternation, for the interval of the mean.
Interval weighted_ratio(const std::vector<const Outcome*>& outcomes) {
  size_t samples = outcomes.empty() ? 0 : outcomes[0]->theirs.size();
  for (const Outcome* outcome : outcomes) samples = std::min(samples, outcome->theirs.size());
  std::vector<double> means;
  for (size_t i = 0; i < samples; ++i) {
    double sum = 0;
    double weights = 0;
    for (const Outcome* outcome : outcomes) {
      sum += weight_of(*outcome) * outcome->theirs[i] / outcome->ours[i];
      weights += weight_of(*outcome);
    }
    means.push_back(sum / weights);
  }
  return interval_of(means);
}

Json rounded(double value) { return std::round(value * 1e4) / 1e4; }

Json type_json(const Session& session, const std::string& type) {
  std::vector<const Outcome*> compared;
  double share = 0;
  std::string share_isa;
  std::set<std::string> own_isas;
  std::set<std::string> peers;
  std::vector<std::string> below;
  int64_t missing = 0;
  for (const Outcome& outcome : session.outcomes) {
    const Problem& p = outcome.what.problem;
    if (p.type != type || p.kind == "matmul_n_bits") continue;
    if (p.kind == "lstm" || p.kind == "gru") continue;  // other peers than oneDNN
    if (p["direct"] != 0 || p["far"] != 0) continue;    // variants, for totals only
    if (!outcome.measured()) ++missing;
    if (!outcome.measured()) continue;
    own_isas.insert(outcome.isa);
    if (outcome.has_peer()) {
      compared.push_back(&outcome);
      peers.insert(outcome.peer);
      if (outcome.seconds() >= kShort && outcome.ratio().high < kBelow) {
        below.push_back(outcome.what.source + " " + text_of(p));
      }
    }
    if (outcome.what.source == "square") {
      const double own = outcome.peak_share();
      if (share == 0 || own < share) {
        share = own;
        share_isa = outcome.isa;
      }
    }
  }
  Json json;
  json["vs_onednn"] = nullptr;
  if (!compared.empty()) {
    const Interval ratio = weighted_ratio(compared);
    json["vs_onednn"] = rounded(ratio.mean);
    json["vs_onednn_interval"] = {rounded(ratio.low), rounded(ratio.high)};
  }
  json["peak_share"] = share > 0 ? rounded(share) : Json();  // lowest of the square GEMMs
  json["peak_isa"] = share_isa;
  if (share > 0) {
    json["share_of_fastest_isa"] =
        rounded(share * peak_of(session, type, share_isa) / peak_of(session, type, ""));
  }
  json["isas"] = own_isas;
  json["peers"] = peers;
  json["shapes"] = compared.size();
  json["wholly_below_0.95"] = below;
  json["not_measured"] = missing;
  return json;
}

Json case_json(const Session& session, const Outcome& outcome) {
  Json json{{"source", outcome.what.source},
            {"case", text_of(outcome.what.problem)},
            {"problem", outcome.what.problem.line()},
            {"count", outcome.what.count}};
  if (!outcome.measured()) {
    json["problem_met"] = outcome.problem;
    return json;
  }
  json["us"] = rounded(outcome.seconds() * 1e6);
  json["gflops"] = rounded(outcome.rate() * 1e-9);
  json["isa"] = outcome.isa;
  json["peak_share"] = rounded(outcome.peak_share());
  json["best_peak_share"] = rounded(outcome.best_peak_share());
  json["error"] = outcome.error;
  if (const double read = bandwidth_share(session, outcome); read > 0) {
    json["bandwidth_share"] = rounded(read);
  }
  if (outcome.extra_bytes != 0) json["extra_bytes"] = outcome.extra_bytes;
  if (outcome.has_peer()) {
    const Interval ratio = outcome.ratio();
    json["peer"] = outcome.peer;
    json["peer_us"] = rounded(median(outcome.theirs) * 1e6);
    json["ratio"] = {rounded(ratio.mean), rounded(ratio.low), rounded(ratio.high)};
  }
  return json;
}

std::string note_of(const Total& total) {
  std::string note = fmt::format("{:+} bytes of weights", total.extra_bytes);
  if (total.left_out > 0) note += fmt::format(", {} skipped without a peer", total.left_out);
  return note;
}

Json total_json(const Total& total) {
  return {
      {"name", total.name},
      {"type", total.type},
      {"count", total.count},
      {"us", rounded(total.ours * 1e6)},
      {"peer_us", rounded(total.theirs * 1e6)},
      {"ratio", {rounded(total.ratio.mean), rounded(total.ratio.low), rounded(total.ratio.high)}},
      {"extra_bytes", total.extra_bytes},
      {"left_out", total.left_out}};
}

std::string row(const std::string& name, const std::string& type, int64_t count, double ours,
                double theirs, const Interval& ratio, double share, const std::string& who) {
  return fmt::format(
      "{:<60} {:<5} {:>3} {:>10.1f} {:>10.1f} {:>6.2f} {:>5.2f}-{:<5.2f} {:>5.2f}  {}\n", name,
      type, count, ours * 1e6, theirs * 1e6, ratio.mean, ratio.low, ratio.high, share, who);
}

}  // namespace

std::string table(const Session& session) {
  std::string out = fmt::format("{} threads", session.threads);
  for (const std::string& peer : session.peers) out += "; " + peer;
  out += "\n";
  if (session.peaks_moved) out += "  the measured peak changed in every attempt\n";
  for (const Peak& peak : session.peaks) {
    out += fmt::format("  peak {:<5} {:<12} {:>9.0f} G/s\n", peak.type, peak.isa, peak.rate * 1e-9);
  }
  if (session.read_bandwidth > 0) {
    out += fmt::format("  read {:>24.1f} GB/s\n", session.read_bandwidth * 1e-9);
  }
  out += fmt::format("{:<60} {:<5} {:>3} {:>10} {:>10} {:>6} {:<11} {:>5}  {}\n", "case", "type",
                     "x", "us", "peer us", "ratio", "95 %", "peak", "ours / peer");
  struct Short {
    int64_t count = 0;
    double ours = 0, theirs = 0, flops = 0, rate = 0;
  };
  std::map<std::pair<std::string, std::string>, Short> short_layers;
  std::map<std::pair<std::string, std::string>, std::vector<const Outcome*>> members;
  for (const Outcome& o : session.outcomes) {
    const Problem& p = o.what.problem;
    const std::string name = o.what.source + " " + text_of(p);
    if (!o.measured()) {
      out += fmt::format("{:<60} {:<5} {:>3} not measured: {}\n", name, p.type, o.what.count,
                         o.problem);
      continue;
    }
    const double peak = peak_of(session, p.type, o.isa);
    if (o.seconds() < kShort && o.has_peer()) {
      const auto key = std::make_pair(layer_kind(p), p.type);
      Short& sum = short_layers[key];
      const auto count = static_cast<double>(o.what.count);
      sum.count += o.what.count;
      sum.ours += o.seconds() * count;
      sum.theirs += median(o.theirs) * count;
      sum.flops += weight_of(o);
      sum.rate = peak;
      members[key].push_back(&o);
      continue;
    }
    std::string who = o.isa + " / " + o.peer;
    if (const double read = bandwidth_share(session, o); read > 0) {
      who += fmt::format(", {:.2f} of bandwidth", read);
    }
    out += row(name, p.type, o.what.count, o.seconds(), median(o.theirs), o.ratio(), o.peak_share(),
               who);
  }
  for (const auto& [key, sum] : short_layers) {
    const double ratio = sum.theirs / sum.ours;
    const Interval mean = weighted_ratio(members[key]);
    out += row("under 20 us, summed: " + key.first, key.second, sum.count, sum.ours, sum.theirs,
               {ratio, ratio * mean.low / mean.mean, ratio * mean.high / mean.mean},
               sum.flops / sum.ours / sum.rate, "");
  }
  for (const Total& total : totals_of(session.outcomes)) {
    out += row(total.name, total.type, total.count, total.ours, total.theirs, total.ratio, 0,
               note_of(total));
  }
  for (const char* type : {"f32", "bf16", "int8"}) {
    const Json json = type_json(session, type);
    if (json["vs_onednn"].is_null() && json["peak_share"].is_null()) continue;
    out += fmt::format("{}: {}\n", type, json.dump());
  }
  return out;
}

Json to_json(const Session& session, bool with_cases) {
  Json json;
  for (const char* type : {"f32", "bf16", "int8"}) json[type] = type_json(session, type);
  json["threads"] = session.threads;
  json["peers"] = session.peers;
  json["peaks_moved"] = session.peaks_moved;
  for (const Peak& peak : session.peaks) {
    json["peaks"].push_back(
        {{"type", peak.type}, {"isa", peak.isa}, {"gflops", rounded(peak.rate * 1e-9)}});
  }
  if (session.read_bandwidth > 0) json["read_gb_per_s"] = rounded(session.read_bandwidth * 1e-9);
  if (with_cases) {
    for (const Total& total : totals_of(session.outcomes))
      json["sums"].push_back(total_json(total));
    for (const Outcome& o : session.outcomes) json["cases"].push_back(case_json(session, o));
  }
  return json;
}

}  // namespace lathe::bench
