// SPDX-License-Identifier: MIT
#include "passes/quantize_weights.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/fuse_regions.h"

namespace lathe {
namespace {

constexpr std::array<std::string_view, 3> kBitNames = {"none", "int8", "int4"};
constexpr std::array<std::string_view, 3> kBlockSizes = {"32", "64", "128"};
constexpr int64_t kFewOutputs = 16;

// Float weights [n, k] or, not transposed, [k, n] of a product; null: it has none.
struct ProductWeights {
  Value* values = nullptr;
  bool transposed = false;
  int64_t n = 0, k = 0;
};

bool is_literal_matrix(const Value& value) {
  const Instruction* made = value.definition();
  return made != nullptr && made->literal() != nullptr && !made->literal()->bindable &&
         value.type().is_ranked() && value.type().rank() == 2 &&
         (kFloats & types(value.type().element)) != 0;
}

// Through transposes of both axes and casts.
ProductWeights weights_of(const Instruction& matmul) {
  ProductWeights out;
  Value* at = matmul.operands()[1];
  while (at->definition() != nullptr && at->definition()->literal() == nullptr) {
    const Instruction& made = *at->definition();
    const bool swaps = made.op() == ops::transpose && made.result()->type().is_ranked() &&
                       made.result()->type().rank() == 2;
    if (!swaps && made.op() != ops::cast) return {};
    if (swaps) {
      const auto& order = std::get<Integers>(*find_attribute(made.attributes(), "permutation"));
      if (!order.empty() && order != Integers{1, 0}) return {};
      out.transposed = !out.transposed;
    }
    at = made.operands()[0];
  }
  if (!is_literal_matrix(*at)) return {};
  out.values = at;
  const std::vector<Dim>& dims = *at->type().dims;
  out.n = *dims[out.transposed ? 0 : 1].constant();
  out.k = *dims[out.transposed ? 1 : 0].constant();
  return out;
}

// The closest product that computes a result, through all operands of elementwise instructions and
// operand 0 of others.
const Instruction* product_of_result(const Program& program, std::string_view result) {
  constexpr size_t kMost = 64;
  const auto& names = program.main().result_names();
  const auto found = std::ranges::find(names, result);
  if (found == names.end()) return nullptr;
  std::vector<const Value*> next{
      program.main().results()[static_cast<size_t>(found - names.begin())]};
  for (size_t i = 0; i < std::min(next.size(), kMost); ++i) {
    const Instruction* made = next[i]->definition();
    if (made == nullptr) continue;
    if (made->op() == ops::matmul) return made;
    if (is_any_of(made->op(), {&ops::gemm, &ops::matmul_n_bits})) return nullptr;
    for (const Value* operand : made->operands()) {
      const bool is_new = operand != nullptr && std::ranges::find(next, operand) == next.end();
      if (is_new) next.push_back(operand);
      if (!is_elementwise(made->op())) break;
    }
  }
  return nullptr;
}

// True if a reshape of the value selects experts.
bool routes(const Value& value) {
  return std::ranges::any_of(value.uses(), [](const Use& use) {
    if (use.user == nullptr) return false;
    if (use.user->op() == ops::moe || use.user->op() == ops::qmoe) return use.index == 1;
    return use.user->op() == ops::reshape && use.index == 0 && routes(*use.user->result());
  });
}

void quantise_product(Instruction& matmul, const ProductWeights& w, const WeightQuantisation& how,
                      bool is_head) {
  Module& module = *matmul.module();
  Builder b(module, &matmul);
  b.set_origins(matmul.origins());
  const bool int4 = (is_head ? how.head : how.bits) == WeightBits::int4;
  const int64_t bits = int4 ? 4 : 8;
  Instruction* quantised = b.add(ops::quantize_blocks, {w.values},
                                 {{"block_size", how.block},
                                  {"bits", bits},
                                  {"symmetric", int4 && how.symmetric},
                                  {"transposed", w.transposed}});
  std::vector<Value*> operands = {matmul.operands()[0], quantised->result(0), quantised->result(1)};
  if (int4 && !how.symmetric) operands.push_back(quantised->result(2));
  // The head decides between near tokens: its activations are not quantised.
  Value* y = b(ops::matmul_n_bits, std::move(operands),
               {{"k", w.k},
                {"n", w.n},
                {"bits", bits},
                {"block_size", how.block},
                {"compute_type", std::string(is_head ? "f32" : "int8")}});
  module.replace_uses(matmul.result(), y);
  Instruction* unused = matmul.operands()[1]->definition();
  module.erase(&matmul);
  // The memory that a model takes counts floats that anything else reads.
  while (unused->literal() == nullptr && unused->result()->uses().empty()) {
    Instruction* next = unused->operands()[0]->definition();
    module.erase(unused);
    unused = next;
  }
}

template <class Names>
size_t choice_of(std::string_view text, const Names& names, std::string_view origin) {
  const auto at = std::ranges::find(names, text);
  check(at != names.end(), ErrorKind::invalid_argument, "{} is '{}'{}, expected one of: {}", origin,
        escape(text), did_you_mean(text, names), fmt::join(names, ", "));
  return static_cast<size_t>(at - names.begin());
}

void parse_setting(std::string_view setting, std::string_view origin, WeightQuantisation& out) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : setting.substr(equals + 1);
  const std::string of_value = fmt::format("'{}' of {}", name, origin);
  if (name == "block" && equals != std::string_view::npos) {
    out.block = int64_t{32} << choice_of(value, kBlockSizes, of_value);
  } else if (name == "head" && equals != std::string_view::npos) {
    out.head = static_cast<WeightBits>(choice_of(value, kBitNames, of_value));
  } else {
    check(setting == "symmetric", ErrorKind::invalid_argument,
          "{} has the setting '{}', expected block=32|64|128, symmetric or head=none|int8|int4",
          origin, escape(setting));
    out.symmetric = true;
  }
}

}  // namespace

WeightQuantisation parse_weight_quantisation(std::string_view text, std::string_view origin) {
  WeightQuantisation out;
  size_t comma = std::min(text.find(','), text.size());
  out.bits = static_cast<WeightBits>(choice_of(text.substr(0, comma), kBitNames, origin));
  while (comma < text.size()) {
    const std::string_view rest = text.substr(comma + 1);
    const size_t end = std::min(rest.find(','), rest.size());
    parse_setting(rest.substr(0, end), origin, out);
    comma += 1 + end;
  }
  const bool int4 = out.bits == WeightBits::int4 || out.head == WeightBits::int4;
  check(int4 || !out.symmetric, ErrorKind::invalid_argument,
        "{} is '{}', but only int4 can be symmetric or not", origin, escape(text));
  return out;
}

int64_t quantize_weights(Program& program, const WeightQuantisation& how, std::string_view logits) {
  int64_t matrices = 0;
  if (how.bits == WeightBits::none) return matrices;
  const Instruction* head = product_of_result(program, logits);
  Module& main = program.main();
  for (auto at = main.instructions().begin(); at != main.instructions().end();) {
    Instruction& instruction = **at++;
    if (instruction.op() != ops::matmul) continue;
    const bool is_head = &instruction == head;
    const bool kept = is_head && how.head == WeightBits::none;
    if (kept || instruction.result()->type().element != ElementType::f32) continue;
    const ProductWeights weights = weights_of(instruction);
    if (weights.values == nullptr || weights.n < kFewOutputs || routes(*instruction.result())) {
      continue;
    }
    quantise_product(instruction, weights, how, is_head);
    ++matrices;
  }
  return matrices;
}

void check_quantised(int64_t matrices, const WeightQuantisation& how, std::string_view place) {
  check(
      how.bits == WeightBits::none || matrices > 0, ErrorKind::invalid_argument,
      "'{}' has no float matrices of at least {} outputs to quantise to {}: omit 'quantize' for a "
      "model that is quantised already",
      escape(place), kFewOutputs, kBitNames[static_cast<size_t>(how.bits)]);
}

}  // namespace lathe
