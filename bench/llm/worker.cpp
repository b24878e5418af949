// SPDX-License-Identifier: MIT
// Worker process of a decoder. Usage: bench_decoder FOLDER TARGET THREADS COMPUTE. Answers each
// line with a JSON object: `prompt 1 2 3` runs a new prompt, `next 16` generates 16 tokens,
// `limits` measures the machine.
#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/kernels/peak.h"
#include "llm/model/decoder.h"
#include "passes/set_compute_type.h"
#include "targets/cpu/weight_store.h"

namespace {

using lathe::llm::Decoder;
using lathe::llm::Sequence;
using lathe::llm::Token;
using Json = nlohmann::json;

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Wall seconds, and CPU seconds of all cores.
template <class F>
Json timed(F&& f) {
  const double wall = now(CLOCK_MONOTONIC), work = now(CLOCK_PROCESS_CPUTIME_ID);
  f();
  return {{"wall", now(CLOCK_MONOTONIC) - wall}, {"cpu", now(CLOCK_PROCESS_CPUTIME_ID) - work}};
}

// The multiplication by weights that a launch computes, alone or in a region; null: none.
const lathe::Instruction* product_of(const lathe::Launch& launch) {
  if (launch.instruction == nullptr) return nullptr;
  if (!compute_of(*launch.instruction).empty()) return launch.instruction;
  if (launch.instruction->op().name != "region") return nullptr;
  for (const auto& step : launch.instruction->bodies()[0]->instructions()) {
    if (!compute_of(*step).empty()) return step.get();
  }
  return nullptr;
}

// Multiplications by weights per prompt token, without the head.
int64_t products_per_token(const lathe::Plan& plan) {
  int64_t all = 0, last = 0;
  for (const lathe::Launch& launch : plan.modules.front().launches) {
    const lathe::Instruction* product = product_of(launch);
    if (product == nullptr) continue;
    last = 1;
    if (product->op().name == "matmul_n_bits") {
      for (const std::string_view name : {"k", "n"}) {
        last *= std::get<int64_t>(*find_attribute(product->attributes(), name));
      }
    } else {
      for (const lathe::Dim& dim : *product->operands()[1]->type().dims) {
        last *= dim.constant().value_or(1);
      }
    }
    all += last;
  }
  return all - last;
}

class Worker {
 public:
  Worker(const std::string& folder, const std::string& target, int threads,
         const std::string& compute)
      : pool_(threads) {
    lathe::llm::DecoderOptions options;
    options.target = lathe::find_target(target);
    options.compute = lathe::parse_compute(compute, "COMPUTE");
    options.pool = &pool_;
    opened_ = timed([&] { decoder_ = std::make_unique<Decoder>(folder, options); });
    opened_["weight_bytes"] = lathe::cpu::weight_store_size().bytes;
    opened_["products"] = products_per_token(decoder_->plan());
  }
  const Json& opened() const { return opened_; }

  Json answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "prompt") {
      std::vector<Token> tokens;
      for (Token token; words >> token;) tokens.push_back(token);
      sequence_.emplace(decoder_->new_sequence());
      Json json = timed([&] { run(tokens); });
      json["tokens"] = {sampled_};
      return json;
    }
    if (command == "next") {
      int64_t count = 0;
      words >> count;
      std::vector<Token> tokens;
      Json json = timed([&] {
        for (int64_t i = 0; i < count; ++i) {
          run(std::vector{sampled_});
          tokens.push_back(sampled_);
        }
      });
      json["tokens"] = tokens;
      return json;
    }
    const auto peaks = lathe::bench::measure_peaks(pool_.threads());
    constexpr int64_t kBytes = int64_t{1} << 29;
    return {{"f32", fastest(peaks, "f32")},
            {"bf16", fastest(peaks, "bf16")},
            {"int8", fastest(peaks, "int8")},
            {"read", lathe::bench::measure_read_bandwidth(pool_.threads(), kBytes)}};
  }

 private:
  void run(std::span<const Token> tokens) {
    const lathe::llm::StepRequest request{&*sequence_, tokens};
    const lathe::Tensor logits = decoder_->step({&request, 1});
    const auto values = logits.elements<float>();
    sampled_ = static_cast<Token>(std::ranges::max_element(values) - values.begin());
  }

  lathe::ThreadPool pool_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<Sequence> sequence_;
  Token sampled_ = 0;
  Json opened_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    std::cerr << "usage: bench_decoder FOLDER TARGET THREADS COMPUTE\n";
    return 2;
  }
  try {
    Worker worker(words[1], words[2], std::stoi(words[3]), words[4]);
    std::cout << worker.opened().dump() << std::endl;
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
      std::cout << worker.answer(line).dump() << std::endl;
    }
  } catch (const lathe::Error& error) {
    std::cerr << "error: " << error.message() << "\n";
    return 1;
  }
  return 0;
}
