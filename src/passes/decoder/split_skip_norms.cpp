// SPDX-License-Identifier: MIT
#include "passes/decoder/split_skip_norms.h"

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

constexpr size_t kSum = 3;  // result

bool is_product(const Value& value) {
  const Instruction* made = value.definition();
  return made != nullptr && value.uses().size() == 1 &&
         is_any_of(made->op(), {&ops::matmul, &ops::gemm, &ops::matmul_n_bits});
}

bool can_split(const Instruction& norm) {
  const auto& results = norm.results();
  return norm.op() == ops::skip_simplified_layer_normalization && !norm.deferred() &&
         norm.operands().size() == kSum && results[1].uses().empty() && results[2].uses().empty() &&
         (is_product(*norm.operands()[0]) || is_product(*norm.operands()[1])) &&
         norm.operands()[0]->type() == norm.operands()[1]->type() &&
         results[0].type() == norm.operands()[0]->type();
}

bool split_all(Program& program) {
  std::vector<Instruction*> found;
  for (const auto& instruction : program.main().instructions()) {
    if (can_split(*instruction)) found.push_back(instruction.get());
  }
  for (Instruction* norm : found) {
    Module& module = *norm->module();
    Builder b(module, norm);
    b.set_origins(norm->origins());
    Value* sum = b(ops::add, {norm->operands()[0], norm->operands()[1]});
    const Attribute* epsilon = find_attribute(norm->attributes(), "epsilon");
    Value* normal = b.add(ops::simplified_layer_normalization, {sum, norm->operands()[2]},
                          {{"epsilon", *epsilon}}, {}, 2)
                        ->result();
    module.replace_uses(norm->result(), normal);
    module.replace_uses(const_cast<Value*>(&norm->results()[kSum]), sum);
    module.erase(norm);
  }
  return !found.empty();
}

}  // namespace

const Pass split_skip_norms{
    .name = "split_skip_norms",
    .doc = "Separates normalisations from the sums before them.",
    .run = split_all,
};

}  // namespace lathe
