// SPDX-License-Identifier: MIT
#include "import/onnx/known_values.h"

#include "base/error.h"
#include "ir/op.h"
#include "ops/evaluation.h"
#include "tensor/convert.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kMostElements = 256;
constexpr int kMostInstructions = 64;

class Evaluator {
 public:
  std::optional<Tensor> value_of(const Value& value) {
    const Type& type = value.type();
    if (!type.is_ranked()) return std::nullopt;
    Dims dims;
    int64_t count = 1;
    for (const Dim& dim : *type.dims) {
      if (!dim.is_constant() || *dim.constant() > kMostElements) return std::nullopt;
      dims.push_back(*dim.constant());
      count *= dims.back();
      if (count > kMostElements) return std::nullopt;
    }
    if (value.elements()) return from_elements(value, dims);
    const Instruction* definition = value.definition();
    if (definition == nullptr) return std::nullopt;
    if (const LiteralRef& literal = definition->literal()) {
      if (literal->bindable) return std::nullopt;
      return literal->tensor.aligned();
    }
    return evaluate(*definition, value.index());
  }

 private:
  static std::optional<Tensor> from_elements(const Value& value, const Dims& dims) {
    Tensor out(value.type().element, dims);
    for (size_t i = 0; i < value.elements()->size(); ++i) {
      const Dim& element = (*value.elements())[i];
      if (!element.is_constant()) return std::nullopt;
      store_int(out.type(), out.data(), static_cast<int64_t>(i), *element.constant());
    }
    return out;
  }

  std::optional<Tensor> evaluate(const Instruction& instruction, int index) {
    const Op& op = instruction.op();
    const bool computes = op.formula != nullptr || op.eval != nullptr;
    if (!computes || (op.traits & kImpure) != 0 || !op.bodies.empty()) return std::nullopt;
    if (++instructions_ > kMostInstructions) return std::nullopt;
    std::vector<Box> operands;
    for (const Value* operand : instruction.operands()) {
      if (operand == nullptr) {
        operands.emplace_back();
        continue;
      }
      std::optional<Tensor> known = value_of(*operand);
      if (!known) return std::nullopt;
      operands.push_back(Box{std::move(*known)});
    }
    try {
      return evaluate_instruction(instruction, operands).at(static_cast<size_t>(index)).tensor();
    } catch (const Error&) {
      return std::nullopt;  // the run reports the error
    }
  }

  int instructions_ = 0;
};

}  // namespace

std::optional<Tensor> known_tensor(const Value& value) { return Evaluator().value_of(value); }

}  // namespace lathe::onnx
