// SPDX-License-Identifier: MIT
// lathe perf DIR: prefill and decode rates, compared with the memory bandwidth and the GEMM rate
// measured in the same process.
#include "cli/perf_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/os_memory.h"
#include "cli/execution.h"
#include "cli/language_model.h"
#include "cli/limits.h"
#include "cli/profile.h"
#include "plan/packing_source.h"

namespace lathe::cli {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds_since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The GEMMs with constant weights of one compute type.
struct WeightGemms {
  std::string compute;
  int64_t per_token = 0;   // multiplications
  int64_t per_prompt = 0;  // multiplications for logits, which packed prompts have once
  double peak = 0;         // measured multiplications per second
};

std::vector<WeightGemms> weight_gemms_of(const LanguageModel& model, ThreadPool& pool) {
  const llm::Decoder& decoder = *model.decoder();
  const Plan* prompt = decoder.prompt_plan();
  const Program& program = *(prompt != nullptr ? *prompt : decoder.plan()).program;
  const std::string logits = llm::name_of(decoder.config().decoder.outputs, "logits", "logits");
  const auto by_token = llm::products_by_compute(program, decoder.packed() ? logits : "");
  std::vector<WeightGemms> all;
  for (const auto& [compute, count] : llm::products_by_compute(program)) {
    const auto own = by_token.find(compute);
    const int64_t per_token = own == by_token.end() ? 0 : own->second;
    const std::string_view like = compute == "f64" ? "f32" : std::string_view(compute);
    all.push_back(
        {compute, per_token, count - per_token, measure_products(model.target(), like, pool)});
  }
  return all;
}

struct Rates {
  double first_token_seconds = 0;
  double prompt_tokens_per_second = 0;
  double tokens_per_second = 0;
};

Rates measure(const LanguageModel& model, const FolderMeasure& what,
              std::optional<Clock::time_point> deadline) {
  search::SearchOptions search;
  search.max_new_tokens = search.min_new_tokens = what.new_tokens;
  std::vector<std::vector<llm::Token>> prompts;
  for (int64_t i = 0; i < what.sequences; ++i)
    prompts.push_back(arbitrary_tokens(what.prompt_tokens, model.decoder()->vocabulary(), i));
  std::vector<double> first;
  std::vector<double> rest;
  for (int64_t i = 0; i < what.warmup + what.iterations; ++i) {
    llm::Generator generator(model.decoder());
    for (const auto& prompt : prompts) generator.add(prompt, search);
    const auto begin = Clock::now();
    generator.generate_next_token(&interrupts(), deadline);
    const double until_first = seconds_since(begin);
    while (generator.generate_next_token(&interrupts(), deadline)) {
    }
    if (i < what.warmup) continue;  // pages in weights, starts threads
    first.push_back(until_first);
    rest.push_back(seconds_since(begin) - until_first);
  }
  Rates rates;
  rates.first_token_seconds = median(first);
  const auto sequences = static_cast<double>(what.sequences);
  rates.prompt_tokens_per_second =
      sequences * static_cast<double>(what.prompt_tokens) / rates.first_token_seconds;
  if (what.new_tokens > 1)
    rates.tokens_per_second = sequences * static_cast<double>(what.new_tokens - 1) / median(rest);
  return rates;
}

// What a step reads: the weights once, and each sequence's KV cache.
struct StepBytes {
  int64_t weights = 0;
  int64_t cache_per_token = 0;  // of all sequences
  double after(int64_t tokens) const {
    return static_cast<double>(weights) + static_cast<double>(cache_per_token * tokens);
  }
};

// The share of the bandwidth that decode reaches. Each few steps are compared with what the meter
// finds just before and after them; the median counts.
double bandwidth_share(const LanguageModel& model, const FolderMeasure& what, const StepBytes& step,
                       const BandwidthMeter& meter, std::optional<Clock::time_point> deadline) {
  if (what.new_tokens < 2) return 0;
  search::SearchOptions search;
  search.max_new_tokens = search.min_new_tokens = what.new_tokens;
  llm::Generator generator(model.decoder());
  for (int64_t i = 0; i < what.sequences; ++i) {
    generator.add(arbitrary_tokens(what.prompt_tokens, model.decoder()->vocabulary(), i), search);
  }
  generator.generate_next_token(&interrupts(), deadline);
  const int64_t steps = std::max<int64_t>(1, (what.new_tokens - 1) / 10);
  std::vector<double> shares;
  double before = meter.measure();
  for (int64_t done = 1; done + steps <= what.new_tokens; done += steps) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < steps; ++i) generator.generate_next_token(&interrupts(), deadline);
    const double rate = static_cast<double>(steps) / seconds_since(begin);
    const double after = meter.measure();
    shares.push_back(rate * step.after(what.prompt_tokens + done + steps / 2) /
                     ((before + after) / 2));
    before = after;
  }
  return median(shares);
}

// Profiles of prefill and decode.
struct Profiles {
  Profile prompt;
  Profile decode;
};

Profiles profile(const llm::Decoder& decoder, const FolderMeasure& what) {
  constexpr int64_t kSteps = 8;
  Profiler profiler;
  std::vector<llm::Sequence> sequences;
  std::vector<std::vector<llm::Token>> prompts;
  for (int64_t i = 0; i < what.sequences; ++i) {
    sequences.push_back(decoder.new_sequence());
    prompts.push_back(arbitrary_tokens(what.prompt_tokens, decoder.vocabulary(), i));
  }
  const auto run = [&](int64_t tokens, ProfileSum& sum) {
    std::vector<llm::StepRequest> requests;
    for (size_t i = 0; i < sequences.size(); ++i)
      requests.push_back({&sequences[i], std::span(prompts[i]).first(static_cast<size_t>(tokens))});
    profiler.clear();
    const auto begin = Clock::now();
    decoder.step(requests, &interrupts());
    sum.add(profiler, 1e3 * seconds_since(begin));
  };
  decoder.profile(&profiler);
  ProfileSum prompt;
  run(what.prompt_tokens, prompt);
  ProfileSum decode;
  for (int64_t i = 0; i < std::min(kSteps, what.new_tokens); ++i) {
    run(1, decode);
  }
  decoder.profile(nullptr);
  return {prompt.mean(), decode.mean()};
}

double share(double part, const Profile& profile) {
  return profile.total_ms > 0 ? part / profile.total_ms : 0;
}

nlohmann::ordered_json to_json(const Profile& profile) {
  nlohmann::ordered_json json;
  for (const auto& [place, ms] : profile.places) json[place] = share(ms, profile);
  json["between"] = share(profile.overhead_ms, profile);
  json["weight_products"] = share(profile.products_ms, profile);
  return json;
}

std::string to_text(const Profile& profile) {
  std::string text;
  for (const auto& [place, ms] : profile.places) {
    text += fmt::format("{} {:.1f} %, ", place, 100 * share(ms, profile));
  }
  return text + fmt::format("between launches {:.1f} %; GEMM with constant weights {:.1f} %",
                            100 * share(profile.overhead_ms, profile),
                            100 * share(profile.products_ms, profile));
}

// With a prompt and new tokens that the context holds.
FolderMeasure fit(const FolderMeasure& what, int64_t context) {
  FolderMeasure fitted = what;
  fitted.new_tokens = std::clamp<int64_t>(what.new_tokens, 1, std::max<int64_t>(context / 2, 1));
  fitted.prompt_tokens = std::clamp<int64_t>(what.prompt_tokens, 1,
                                             std::max<int64_t>(context - fitted.new_tokens - 1, 1));
  return fitted;
}

}  // namespace

void generate_once(const FolderMeasure& what, const Options& options) {
  const auto deadline = deadline_of(options);
  const LanguageModel model({.folder = what.folder, .overlay = what.overlay}, options);
  FolderMeasure once = fit(what, model.decoder()->config().context_length);
  once.iterations = 1;
  once.warmup = 0;
  measure(model, once, deadline);
}

int perf_folder(const FolderMeasure& what, const Options& options, Output& out) {
  const auto deadline = deadline_of(options);
  const LanguageModel model({.folder = what.folder, .overlay = what.overlay}, options);
  const llm::ModelSize& size = model.decoder()->size();
  const FolderMeasure fitted = fit(what, model.decoder()->config().context_length);
  const Rates rates = measure(model, fitted, deadline);
  const Profiles profiles = profile(*model.decoder(), fitted);
  const int64_t peak_memory = peak_resident_bytes();  // without that of the measurements below
  const int64_t step_weights = llm::step_weight_bytes(
      *model.decoder()->plan().program, dynamic_cast<const PackingSource*>(model.target().get()));
  ThreadPool pool(model.threads());
  const std::vector<WeightGemms> gemms = weight_gemms_of(model, pool);
  const auto sequences = static_cast<double>(fitted.sequences);
  std::set<std::string> computes;
  for (const WeightGemms& p : gemms) computes.insert(p.compute);
  const BandwidthMeter meter(model.target(), computes, step_weights, pool);
  const double bandwidth = bandwidth_share(
      model, fitted, {step_weights, fitted.sequences * size.token_bytes}, meter, deadline);
  // Time of the prompt's GEMMs at the measured rate of their type.
  double seconds = 0;
  for (const WeightGemms& p : gemms) {
    seconds +=
        sequences * static_cast<double>(p.per_token * fitted.prompt_tokens + p.per_prompt) / p.peak;
  }
  const double compute = seconds / rates.first_token_seconds;
  if (what.json) {
    nlohmann::ordered_json json;
    json["model"] = what.folder;
    json["target"] = model.decoder()->plan().target;
    json["threads"] = model.threads();
    json["load_seconds"] = model.load_seconds();
    json["iterations"] = fitted.iterations;
    json["prompt_tokens"] = fitted.prompt_tokens;
    json["new_tokens"] = fitted.new_tokens;
    json["sequences"] = fitted.sequences;
    json["first_token_seconds"] = rates.first_token_seconds;
    json["prompt_tokens_per_second"] = rates.prompt_tokens_per_second;
    json["tokens_per_second"] = rates.tokens_per_second;
    json["weight_bytes"] = size.weight_bytes;
    json["step_weight_bytes"] = step_weights;
    json["cache_bytes_per_token"] = size.token_bytes;
    json["products_per_token"] = size.products;
    json["bytes_per_second"] = meter.best();
    for (const WeightGemms& p : gemms) {
      json["products"][p.compute] = {
          {"per_row", p.per_token}, {"per_prompt", p.per_prompt}, {"per_second_here", p.peak}};
    }
    json["share_of_bandwidth"] = bandwidth;
    json["share_of_compute"] = compute;
    json["prompt_shares"] = to_json(profiles.prompt);
    json["decode_shares"] = to_json(profiles.decode);
    json["peak_memory_bytes"] = peak_memory;
    out.write(json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return 0;
  }
  out.write(fmt::format(
      "{} on {}, {} threads, {}, loaded in {:.2f} s; median of {} runs\n", escape(what.folder),
      model.decoder()->plan().target, model.threads(),
      fitted.sequences == 1 ? "1 sequence" : fmt::format("{} sequences", fitted.sequences),
      model.load_seconds(), fitted.iterations));
  out.write(fmt::format("prefill of {} tokens: {:.1f} tokens/s, first token after {:.3f} s\n",
                        fitted.prompt_tokens, rates.prompt_tokens_per_second,
                        rates.first_token_seconds));
  out.write(fmt::format("decode of {} tokens: {:.1f} tokens/s\n", fitted.new_tokens - 1,
                        rates.tokens_per_second));
  std::string peaks;
  for (const WeightGemms& p : gemms) {
    peaks += fmt::format(", {:.1f} G{}/s {} GEMM", 2 * p.peak / 1e9,
                         p.compute == "int8" ? "OP" : "FLOP", p.compute);
  }
  out.write(fmt::format("measured here: {:.1f} GB/s memory reads{}\n", meter.best() / 1e9, peaks));
  out.write(
      fmt::format("prefill reaches {:.1f} % of the GEMM rate, decode {:.1f} % of the bandwidth\n",
                  100 * compute, 100 * bandwidth));
  out.write(fmt::format("prefill time: {}\n", to_text(profiles.prompt)));
  out.write(fmt::format("decode time: {}\n", to_text(profiles.decode)));
  out.write(fmt::format("weights {}, KV cache {} per token, peak memory {}\n",
                        llm::bytes_text(size.weight_bytes), llm::bytes_text(size.token_bytes),
                        llm::bytes_text(peak_memory)));
  return 0;
}

}  // namespace lathe::cli
