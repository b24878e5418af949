// SPDX-License-Identifier: MIT
#include "ops/support/symbolic_movement.h"

#include <algorithm>
#include <numeric>

#include "ops/evaluation.h"
#include "ops/support/symbolic.h"

namespace lathe {
namespace {

struct TooLarge {};  // a result exceeds kMaxSymbolicElements

// Evaluates an op on tensors that hold element indices instead of values.
class IndexEvaluation final : public StoredEvaluation {
 public:
  IndexEvaluation(const Instruction& instruction, std::vector<Tensor> operands)
      : StoredEvaluation(instruction), operands_(std::move(operands)) {
    for (size_t i = 0; i < operands_.size(); ++i) operand_views_[i] = operands_[i].view();
    results_.resize(instruction.results().size());
  }
  using Evaluation::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(i);
    if (lathe::element_count(dims) > kMaxSymbolicElements) throw TooLarge{};
    results_[at] = Tensor(ElementType::i64, Dims(dims.begin(), dims.end()));
    result_views_[at] = results_[at].view();
    return result_views_[at];
  }
  const Box& box(int i) const override { fail("operand {} is not in a box", i); }
  void set_box(int i, Box) override { fail("result {} is not in a box", i); }
  const Tensor& result(size_t i) const { return results_[i]; }

 private:
  std::vector<Tensor> operands_;
  std::vector<Tensor> results_;
};

// The constant shape; nullopt if a dim is symbolic.
std::optional<Dims> constant_extents(const Type& type) {
  return type.is_ranked() ? constant_values(*type.dims) : std::nullopt;
}

}  // namespace

std::vector<std::optional<std::vector<Dim>>> moved_elements(const Infer& c,
                                                            const std::vector<int>& data) {
  std::vector<std::optional<std::vector<Dim>>> out(static_cast<size_t>(c.expected_results()));
  std::vector<Dim> all;
  std::vector<Tensor> operands;
  for (int i = 0; i < c.count(); ++i) {
    operands.emplace_back();
    if (!c.has(i)) continue;
    const std::vector<Dim>* elements = c.elements(i);
    const std::optional<Dims> extents = constant_extents(c.type(i));
    if (elements == nullptr || !extents) return out;
    Tensor tensor(ElementType::i64, *extents);
    if (std::find(data.begin(), data.end(), i) != data.end()) {
      std::iota(tensor.as<int64_t>(), tensor.as<int64_t>() + tensor.count(),
                static_cast<int64_t>(all.size()));
      all.insert(all.end(), elements->begin(), elements->end());
    } else {
      const auto values = constant_values(*elements);
      if (!values) return out;
      std::copy(values->begin(), values->end(), tensor.as<int64_t>());
    }
    operands.back() = std::move(tensor);
  }
  IndexEvaluation evaluation(c.instruction(), std::move(operands));
  try {
    c.instruction().op().eval(evaluation);
  } catch (const TooLarge&) {
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const Tensor& numbers = evaluation.result(i);
    out[i].emplace();
    for (const int64_t number : numbers.elements<int64_t>()) {
      out[i]->push_back(all[static_cast<size_t>(number)]);
    }
  }
  return out;
}

void propagate_elements(Infer& c, const std::vector<int>& data) {
  auto elements = moved_elements(c, data);
  if (elements.front()) c.result_elements(std::move(*elements.front()));
}

}  // namespace lathe
