// SPDX-License-Identifier: MIT
// Rows over model folders: heap allocations of a decode step, time of large steps outside kernels.
#pragma once

#include <cmath>

#include "bench/runtime/heap.h"
#include "bench/runtime/line.h"
#include "bench/runtime/settings.h"
#include "bench/runtime/time.h"
#include "llm/model/decoder.h"
#if __has_include("llm/model/step_logits.h")
#define LATHE_STEP_LOGITS  // older commits copy logits to the host
#endif
#include "runtime/profiler.h"

namespace lathe::bench {

inline std::shared_ptr<const llm::Decoder> open_decoder(const Model& model,
                                                        const Settings& settings) {
  llm::DecoderOptions options;
  options.target = settings.target;
  options.pool = settings.pool;
  return std::make_shared<llm::Decoder>(model.path, options);
}

inline std::vector<llm::Token> made_tokens(int64_t first, int64_t count, int64_t vocabulary) {
  std::vector<llm::Token> tokens;
  for (int64_t i = first; i < first + count; ++i) {
    tokens.push_back(static_cast<llm::Token>((i * 7919 + 13) % vocabulary));
  }
  return tokens;
}

constexpr int64_t kPromptTokens = 4;

#ifdef LATHE_STEP_LOGITS
using StepLogits = llm::StepLogits;
inline Tensor host_logits(const StepLogits& logits) { return logits.to_host(); }
#else
using StepLogits = Tensor;
inline const Tensor& host_logits(const StepLogits& logits) { return logits; }
#endif

// Sequences with unequal prompts, each stepped by one token at a time.
class Batch {
 public:
  Batch(const llm::Decoder& decoder, int64_t sequences) : decoder_(decoder) {
    std::vector<std::vector<llm::Token>> prompts;
    sequences_.reserve(static_cast<size_t>(sequences));
    for (int64_t i = 0; i < sequences; ++i) {
      sequences_.push_back(decoder.new_sequence());
      prompts.push_back(made_tokens(i, kPromptTokens, decoder.vocabulary()));
    }
    tokens_ = made_tokens(5, sequences, decoder.vocabulary());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      requests_.push_back({&sequences_[i], prompts[i]});
    }
    decoder.step(requests_, logits_);
    for (size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].tokens = std::span(tokens_).subspan(i, 1);
    }
  }
  void step() { decoder_.step(requests_, logits_); }

  // Compares the last logits of a sequence with those of the sequence by itself.
  void check_alone(int64_t index, int64_t steps) const {
    llm::Sequence sequence = decoder_.new_sequence();
    std::vector<llm::Token> tokens = made_tokens(index, kPromptTokens, decoder_.vocabulary());
    tokens.insert(tokens.end(), static_cast<size_t>(steps), tokens_[static_cast<size_t>(index)]);
    const llm::StepRequest request{&sequence, tokens};
    const Tensor alone = decoder_.step({&request, 1});
    const int64_t width = decoder_.vocabulary();
    const Tensor together = host_logits(logits_);
    const float* got = together.as<float>() + index * width;
    float largest = 0, difference = 0;
    for (int64_t i = 0; i < width; ++i) {
      largest = std::max(largest, std::abs(alone.as<float>()[i]));
      difference = std::max(difference, std::abs(alone.as<float>()[i] - got[i]));
    }
    // Weights of 4 bits multiply rounded activations, whose rounding depends on the batch's kernel.
    check(largest > 0 && difference <= 0.05F * largest, ErrorKind::internal,
          "logits of sequence {} of {} differ by {} from those alone, the largest is {}", index,
          sequences_.size(), difference, largest);
  }
  std::string hash() const { return hash_of(std::vector<Box>(1, Box{host_logits(logits_)})); }

 private:
  const llm::Decoder& decoder_;
  std::vector<llm::Sequence> sequences_;
  std::vector<llm::Token> tokens_;
  std::vector<llm::StepRequest> requests_;
  StepLogits logits_;
};

// The measured steps end before a page of 16 positions does: no step allocates pages.
constexpr int64_t kWarmSteps = 2;
constexpr int64_t kSteps = 9;

inline Lines measure_step_allocations(const Settings& settings) {
  Lines lines;
  for (const Model& model : settings.decoders) {
    const auto decoder = open_decoder(model, settings);
    Batch batch(*decoder, 1);
    for (int64_t i = 0; i < kWarmSteps; ++i) batch.step();
    const int64_t allocations = allocations_in([&] {
      for (int64_t i = 0; i < kSteps; ++i) batch.step();
    });
    batch.check_alone(0, kWarmSteps + kSteps);
    lines.push_back({model.name, "heap allocations per decode step, from the third on",
                     static_cast<double>(allocations) / kSteps, "", true, false, batch.hash()});
  }
  return lines;
}

// Wall time of a profiled step that no outermost launch covers.
inline double seconds_outside_kernels(Batch& batch, Profiler& profiler) {
  profiler.clear();
  double seconds = seconds_of([&] { batch.step(); });
  for (const Profiler::Event& event : profiler.events()) {
    if (event.depth == 0) seconds -= std::chrono::duration<double>(event.end - event.begin).count();
  }
  return seconds;
}

// Leaves out large decoders, whose kernels would take minutes.
inline Lines measure_steps(const Settings& settings) {
  constexpr int64_t kLargeBytes = int64_t{1} << 26;
  Lines lines;
  for (const Model& model : settings.decoders) {
    const auto decoder = open_decoder(model, settings);
    if (decoder->size().weight_bytes > kLargeBytes) continue;
    for (const int64_t sequences : {1000, 8000}) {
      Batch batch(*decoder, sequences);
      for (int64_t i = 0; i < kWarmSteps; ++i) batch.step();
      for (const int64_t i : {int64_t{0}, sequences / 2, sequences - 1}) {
        batch.check_alone(i, kWarmSteps);
      }
      Profiler profiler;
      decoder->profile(&profiler);
      double best = seconds_outside_kernels(batch, profiler);
      for (int64_t i = 1; i < kSteps; ++i) {
        best = std::min(best, seconds_outside_kernels(batch, profiler));
      }
      decoder->profile(nullptr);
      lines.push_back({model.name, fmt::format("step of {} sequences, outside kernels", sequences),
                       1e3 * best, "ms", false, false, batch.hash()});
    }
  }
  return lines;
}

}  // namespace lathe::bench
