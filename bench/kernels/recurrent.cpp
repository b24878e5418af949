// SPDX-License-Identifier: MIT
// lstm, gru: steps, batch, input, hidden; one direction. Operands: x 0, w 1, r 2, bias 3.
#include "bench/kernels/recurrent.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "bench/kernels/inputs.h"
#include "targets/cpu/kernels/recurrent/recurrent.h"

namespace lathe::bench {
namespace {

// Small weights, so that gates do not saturate.
std::vector<float> weights(uint64_t operand, int64_t count, int64_t depth) {
  std::vector<float> out = operand_values(operand, count, Range::real);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  for (float& x : out) x *= scale;
  return out;
}

class ReadyRecurrent final : public Ready {
 public:
  ReadyRecurrent(const Problem& p, ThreadPool& pool, cpu::Isa isa) : p_(p), pool_(pool), isa_(isa) {
    cpu::RecurrentProblem problem;
    problem.cell = p.kind == "gru" ? cpu::RecurrentCell::gru : cpu::RecurrentCell::lstm;
    problem.input = p["input"];
    problem.hidden = p["hidden"];
    const int64_t rows = cpu::Recurrent::gates(problem.cell) * p["hidden"];
    const std::vector<float> w = weights(1, rows * p["input"], p["input"]);
    const std::vector<float> r = weights(2, rows * p["hidden"], p["hidden"]);
    const std::vector<float> b = weights(3, 2 * rows, 4);
    for (int64_t i = 0; i < rotations(p); ++i) {
      layers_.push_back(std::make_unique<cpu::Recurrent>(
          problem, cpu::RecurrentWeights{w.data(), r.data(), b.data(), nullptr}, isa));
    }
    x_ = operand_values(0, p["steps"] * p["batch"] * p["input"], Range::real);
    y_.resize(static_cast<size_t>(p["steps"] * p["batch"] * p["hidden"]));
  }

  void run(int64_t count) override {
    for (; count > 0; --count, at_ = (at_ + 1) % layers_.size()) run_one(*layers_[at_]);
  }

  std::vector<float> result() override {
    run_one(*layers_[0]);
    return y_;
  }

  std::string_view isa() const override { return to_string(isa_); }

 private:
  void run_one(const cpu::Recurrent& layer) {
    cpu::RecurrentArguments a;
    a.time = p_["steps"];
    a.batch = p_["batch"];
    a.x = x_.data();
    a.x_batch = p_["input"];
    a.x_time = a.batch * a.x_batch;
    a.y = y_.data();
    a.y_batch = p_["hidden"];
    a.y_time = a.y_direction = a.batch * a.y_batch;
    layer.run(a, &pool_);
  }

  const Problem p_;
  ThreadPool& pool_;
  const cpu::Isa isa_;
  std::vector<std::unique_ptr<cpu::Recurrent>> layers_;
  std::vector<float> x_, y_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Ready> prepare_recurrent(const Problem& p, ThreadPool& pool) {
  const std::optional<cpu::Isa> isa = cpu::best_isa();
  check(isa.has_value() && p.type == "f32", ErrorKind::unsupported,
        "{} of {} is not supported, expected f32 and AVX2", p.kind, p.type);
  return std::make_unique<ReadyRecurrent>(p, pool, *isa);
}

}  // namespace lathe::bench
