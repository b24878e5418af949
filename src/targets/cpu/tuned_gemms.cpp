// SPDX-License-Identifier: MIT
#include "targets/cpu/tuned_gemms.h"

#include <array>

namespace lathe::cpu {
namespace {

struct Choice {
  std::string_view name;
  MatmulBlocking blocking{};
  bool alone = false;  // on the calling thread
};

constexpr std::array kChoices = {
    Choice{"cost model"},
    Choice{"rows / 2", {.log2_rows = -1}},
    Choice{"rows * 2", {.log2_rows = 1}},
    Choice{"panels / 2", {.log2_panels = -1}},
    Choice{"panels * 2", {.log2_panels = 1}},
    Choice{"panels * 4", {.log2_panels = 2}},
    Choice{"skinny", {.variant = 1}},
    Choice{"square", {.variant = 2}},
    Choice{"one thread", {}, true},
};

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> list;
    for (const Choice& choice : kChoices) list.push_back({choice.name});
    return list;
  }();
  return all;
}

}  // namespace

TunedGemms::~TunedGemms() {
  for (Node* node = first_.load(); node != nullptr;) {
    Node* next = node->next;
    delete node;
    node = next;
  }
}

TunedProblem* TunedGemms::find(const MatmulShape& shape, const MatmulCall& call,
                               bool is_packed) const {
  for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (node->m == shape.m && node->n == shape.n && node->k == shape.k &&
        node->batch == shape.batch) {
      return node->problem;
    }
  }
  if (count_.fetch_add(1) >= kMaxShapes) return nullptr;
  const std::string text =
      fmt::format("gemm {} type {} {}x{}x{}x{}{}{}", to_string(call.isa),
                  static_cast<int>(call.type), shape.batch, shape.m, shape.n, shape.k,
                  is_packed ? "" : " packs", call.epilogue.steps.empty() ? "" : " with epilogue");
  Node* node = new Node{
      shape.batch, shape.m, shape.n, shape.k, tuning_->problem(text, candidates()), first_.load()};
  while (!first_.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
  }
  return node->problem;
}

void TunedGemms::run(const MatmulShape& shape, const MatmulCall& call, const PackedMatrix* packed,
                     ThreadPool* pool) const {
  TunedProblem* problem = tuning_ == nullptr ? nullptr : find(shape, call, packed != nullptr);
  if (problem == nullptr) return run_gemms(shape, call, packed, pool);
  const TunedLaunch launch(problem);
  const Choice& choice = kChoices[static_cast<size_t>(problem->choice())];
  MatmulCall tuned = call;
  tuned.blocking = choice.blocking;
  run_gemms(shape, tuned, packed, choice.alone ? nullptr : pool);
}

}  // namespace lathe::cpu
