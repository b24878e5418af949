// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/barrier_phases.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/recurrent/recurrent_pack.h"

namespace lathe::cpu {

[[gnu::weak]] const RecurrentKernels& recurrent_avx2();
[[gnu::weak]] const RecurrentKernels& recurrent_avx512();

namespace {

constexpr int64_t kInputBytes = 8 << 20;  // of the input GEMM computed before its steps
constexpr int64_t kPartBytes = 64 << 10;  // of weights: what a thread reads between two barriers
constexpr int64_t kPanels = 2;            // panels per kernel iteration

const std::vector<std::string>& defaults(RecurrentCell cell) {
  static const std::vector<std::string> rnn = {"tanh"}, gru = {"sigmoid", "tanh"},
                                        lstm = {"sigmoid", "tanh", "tanh"};
  return cell == RecurrentCell::rnn ? rnn : cell == RecurrentCell::gru ? gru : lstm;
}

// One direction of one run.
class Direction {
 public:
  Direction(const RecurrentProblem& problem, const RecurrentKernels& kernels,
            const RecurrentPacked& packed, const RecurrentArguments& arguments, int64_t index,
            ThreadPool* pool)
      : p_(problem),
        kernels_(kernels),
        packed_(packed),
        x_(arguments),
        index_(index),
        backward_(problem.backward[static_cast<size_t>(index)]),
        pool_(pool) {
    for (const PackedStage& stage : packed.stages) columns_ += stage.columns;
    const int64_t step = std::max<int64_t>(1, x_.batch * columns_ * 4);
    steps_ = std::clamp<int64_t>(kInputBytes / step, 1, std::max<int64_t>(1, x_.time));
  }

  void run(ScratchUse use) {
    place(ScratchLayout(thread_scratch(use, place(ScratchLayout()))));
    load_state(x_.initial_h, h_);
    load_state(x_.initial_c, c_);
    // Clears the padding after the units: it is read, but multiplied by zeros.
    for (float* state : {next_, gate_, reset_}) {
      std::fill_n(state, x_.batch * packed_.pitch, 0.0F);
    }
    for (int64_t done = 0; done < x_.time; done += steps_) {
      const int64_t count = std::min(steps_, x_.time - done);
      const int64_t first = backward_ ? x_.time - done - count : done;
      multiply_input(first, count);
      run_steps(first, count);
    }
    store_state(h_, x_.last_h);
    store_state(c_, x_.last_c);
  }

 private:
  int64_t place(ScratchLayout layout) {
    const int64_t state = x_.batch * packed_.pitch;
    for (float** at : {&h_, &next_, &c_, &gate_, &reset_}) *at = layout.take<float>(state);
    gates_ = layout.take<float>(steps_ * x_.batch * columns_);
    return layout.bytes();
  }

  void load_state(const float* from, float* to) const {
    for (int64_t b = 0; b < x_.batch; ++b, to += packed_.pitch) {
      std::fill_n(to, packed_.pitch, 0.0F);
      if (from == nullptr) continue;
      std::copy_n(from + index_ * x_.state_direction + b * x_.state_batch, p_.hidden, to);
    }
  }

  void store_state(const float* from, float* to) const {
    for (int64_t b = 0; b < x_.batch && to != nullptr; ++b) {
      std::copy_n(from + b * packed_.pitch, p_.hidden,
                  to + index_ * x_.state_direction + b * x_.state_batch);
    }
  }

  // Input GEMM of steps [first, first + count), per stage: [step][batch][columns].
  void multiply_input(int64_t first, int64_t count) const {
    float* to = gates_;
    for (const PackedStage& stage : packed_.stages) {
      const int vectors = recurrent_vectors(stage.stage);
      const int64_t width = vectors * kernels_.lanes;
      parallel_for(pool_, stage.panels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) {
          const auto rows = [&](int64_t b, int64_t pitch, int64_t n, int64_t y_pitch) {
            kernels_.gemm(x_.x + first * x_.x_time + b * x_.x_batch, pitch, n,
                          stage.w.get() + panel * width * p_.input, p_.input, vectors,
                          stage.bias.get() + panel * width, to + b * stage.columns + panel * width,
                          y_pitch);
          };
          if (x_.x_time == x_.batch * x_.x_batch) {
            rows(0, x_.x_batch, count * x_.batch, stage.columns);
          } else {
            for (int64_t b = 0; b < x_.batch; ++b) {
              rows(b, x_.x_time, count, x_.batch * stage.columns);
            }
          }
        }
      });
      to += steps_ * x_.batch * stage.columns;
    }
  }

  // Runs all steps in one parallel region: a phase for each stage of each step.
  void run_steps(int64_t first, int64_t count) {
    const auto stages = static_cast<int>(packed_.stages.size());
    const int parts = parts_of_steps();
    Phases phases(static_cast<int>(count) * stages, parts);
    parallel_for(pool_, parts, 1, [&](int64_t begin, int64_t) {
      phases.work(static_cast<int>(begin), [&](int phase, int part) {
        const int64_t i = phase / stages;
        run_part(first, backward_ ? count - 1 - i : i, i, phase % stages, part, parts);
      });
    });
    if (count % 2 != 0) std::swap(h_, next_);
  }

  // A thread rereads the same weights in its cache at every step. Results do not depend on the
  // parts.
  int parts_of_steps() const {
    int64_t most = pool_ == nullptr ? 1 : std::min(pool_->threads(), Phases::kMaxParts);
    for (const PackedStage& stage : packed_.stages) {
      most = std::min(most, stage.columns * p_.hidden * 4 / kPartBytes);
      most = std::min(most, stage.panels / kPanels);
    }
    return static_cast<int>(std::max<int64_t>(1, most));
  }

  // One part of the panels of a stage. `at` counts steps from `first` in time, `done` in order of
  // computation.
  void run_part(int64_t first, int64_t at, int64_t done, int index, int part, int parts) const {
    const PackedStage& stage = packed_.stages[static_cast<size_t>(index)];
    RecurrentStep s;
    s.stage = stage.stage;
    const int64_t groups = (stage.panels + kPanels - 1) / kPanels;
    s.first = groups * part / parts * kPanels;
    s.last = std::min(stage.panels, groups * (part + 1) / parts * kPanels);
    s.batch = x_.batch;
    s.depth = p_.hidden;
    s.pitch = packed_.pitch;
    s.weights = stage.r.get();
    s.h = done % 2 == 0 ? h_ : next_;
    s.next = done % 2 == 0 ? next_ : h_;
    s.multiplied = stage.stage == RecurrentStage::gru_hidden ? reset_ : s.h;
    s.c = c_;
    s.gate = gate_;
    s.reset = reset_;
    s.x = gates_ + at * x_.batch * stage.columns;
    for (int i = 0; i < index; ++i) {
      s.x += steps_ * x_.batch * packed_.stages[static_cast<size_t>(i)].columns;
    }
    s.x_pitch = stage.columns;
    s.bias = packed_.hidden_bias.get();
    s.peepholes = packed_.peepholes.get();
    s.clip = p_.clip;
    s.input_forget = p_.input_forget;
    // Alternates the direction, so that weights larger than L2 are partly reused.
    s.descending = done % 2 != 0;
    s.time = first + at;
    s.lengths = x_.lengths;
    kernels_.step(s);
    if (&stage == &packed_.stages.back()) store_result(s);
  }

  // Stores the units that the part computed.
  void store_result(const RecurrentStep& s) const {
    if (x_.y == nullptr) return;
    const int64_t width = recurrent_unit_vectors(s.stage) * kernels_.lanes;
    const int64_t unit = s.first * width, end = std::min(p_.hidden, s.last * width);
    for (int64_t b = 0; b < x_.batch && unit < end; ++b) {
      float* to = x_.y + s.time * x_.y_time + index_ * x_.y_direction + b * x_.y_batch + unit;
      if (s.is_live(b)) {
        std::copy_n(s.next + b * s.pitch + unit, end - unit, to);
      } else {
        std::fill_n(to, end - unit, 0.0F);
      }
    }
  }

  const RecurrentProblem& p_;
  const RecurrentKernels& kernels_;
  const RecurrentPacked& packed_;
  const RecurrentArguments& x_;
  const int64_t index_;
  const bool backward_;
  ThreadPool* pool_;
  int64_t columns_ = 0;
  int64_t steps_ = 1;  // steps of one input GEMM
  float* h_ = nullptr;
  float* next_ = nullptr;
  float* c_ = nullptr;
  float* gate_ = nullptr;
  float* reset_ = nullptr;
  float* gates_ = nullptr;
};

}  // namespace

int64_t Recurrent::gates(RecurrentCell cell) {
  return cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::gru ? 3 : 4;
}

std::string Recurrent::refuse(const RecurrentProblem& p) {
  if (p.element != ElementType::f32) {
    return fmt::format("element type {}, supported: f32", to_string(p.element));
  }
  if (p.input < 1 || p.hidden < 1 || p.input > (1 << 20) || p.hidden > (1 << 20)) {
    return fmt::format("input size {} and hidden size {}, supported: 1 to {}", p.input, p.hidden,
                       1 << 20);
  }
  if (p.backward.empty()) return "no directions, expected 1 or 2";
  const std::vector<std::string>& known = defaults(p.cell);
  for (size_t i = 0; i < p.activations.size(); ++i) {
    std::string name = p.activations[i];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name != known[i % known.size()]) {
      return fmt::format("activation {} is {}, supported: {}", i, escape(name),
                         known[i % known.size()]);
    }
  }
  return {};
}

Recurrent::Recurrent(const RecurrentProblem& problem, const RecurrentWeights& weights, Isa isa)
    : problem_(problem),
      kernels_(&in_build(isa >= Isa::avx512 ? recurrent_avx512 : recurrent_avx2, isa)()) {
  for (size_t d = 0; d < problem.backward.size(); ++d) {
    packed_.push_back(std::make_unique<RecurrentPacked>(problem, weights, static_cast<int64_t>(d),
                                                        kernels_->lanes));
  }
}

Recurrent::~Recurrent() = default;

void Recurrent::run(const RecurrentArguments& arguments, ThreadPool* pool) const {
  if (arguments.batch == 0) return;
  const auto directions = static_cast<int64_t>(packed_.size());
  const auto one = [&](int64_t d, ThreadPool* own, ScratchUse use) {
    Direction(problem_, *kernels_, *packed_[static_cast<size_t>(d)], arguments, d, own).run(use);
  };
  if (directions == 1) return one(0, pool, ScratchUse::caller);
  // Directions are independent: one thread each.
  parallel_for(pool, directions, 1, [&](int64_t begin, int64_t end) {
    for (int64_t d = begin; d < end; ++d) one(d, nullptr, ScratchUse::task);
  });
}

}  // namespace lathe::cpu
