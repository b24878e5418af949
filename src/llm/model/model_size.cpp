// SPDX-License-Identifier: MIT
#include "llm/model/model_size.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/os_system.h"
#include "ir/ops.h"
#include "ops/support/weight_columns.h"
#include "passes/set_compute_type.h"
#include "plan/packing_source.h"

namespace lathe::llm {
namespace {

// Saturates: sizes from files are untrusted.
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}
int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t product_of_constants(const Type& type, int64_t& unknown) {
  int64_t count = 1;
  unknown = 0;
  for (const Dim& dim : *type.dims) {
    if (dim.is_constant()) {
      count = times(count, std::max<int64_t>(*dim.constant(), 1));
    } else {
      ++unknown;
    }
  }
  return count;
}

const Value* operand(const Instruction& instruction, size_t index) {
  return index < instruction.operands().size() ? instruction.operands()[index] : nullptr;
}

// Elements of a constant operand; 0 for other values.
int64_t weight_of(const Value* value) {
  const Instruction* made = value == nullptr ? nullptr : value->definition();
  if (made == nullptr || (made->literal() == nullptr && !made->deferred())) return 0;
  if (made->literal() != nullptr) return made->literal()->tensor.count();
  int64_t unknown = 0;
  const int64_t count =
      value->type().is_ranked() ? product_of_constants(value->type(), unknown) : 0;
  return unknown > 0 ? 0 : count;
}

// The constants under casts, transposes and joins of a deferred instruction.
void add_sources(const Instruction* made, std::vector<const Tensor*>& sources) {
  while (made != nullptr && made->deferred() &&
         is_any_of(made->op(), {&ops::cast, &ops::transpose})) {
    made = made->operands()[0]->definition();
  }
  if (made != nullptr && made->deferred() && made->op() == ops::concat) {
    for (const Value* part : made->operands()) add_sources(part->definition(), sources);
  } else if (made != nullptr && made->literal() != nullptr) {
    sources.push_back(&made->literal()->tensor);
  }
}

// The constants of 16 bits that all kernels which read the value hold in place of it; none if they
// hold the value.
std::vector<const Tensor*> held_sources(const Value& value, const PackingSource* packing) {
  const bool packed = packing != nullptr && std::ranges::all_of(value.uses(), [&](const Use& use) {
                        return use.user != nullptr && packing->packs_source(*use.user, use.index);
                      });
  std::vector<const Tensor*> sources;
  if (packed) add_sources(value.definition(), sources);
  const bool halves = std::ranges::all_of(sources, [](const Tensor* source) {
    return is_floating(source->type()) && info(source->type()).bits == 16;
  });
  return halves ? sources : std::vector<const Tensor*>{};
}

// The quantize_blocks whose result the value is and which kernels replace by its compact form; null
// for other values.
const Instruction* compact_source(const Value& value) {
  const Instruction* made = value.definition();
  if (made == nullptr || made->op() != ops::quantize_blocks || !made->deferred()) return nullptr;
  std::vector<const Tensor*> sources;
  add_sources(made->operands()[0]->definition(), sources);
  return sources.empty() ? nullptr : made;
}
int64_t compact_bytes(const Instruction& source) {
  std::vector<const Tensor*> parts;
  add_sources(source.operands()[0]->definition(), parts);
  int64_t bytes = 0;
  for (const Tensor* part : parts) {
    const WeightColumns columns = columns_of(InstructionReader(source), part->view());
    if (!columns.compact_form()) return 0;
    bytes += columns.compact_bytes();
  }
  return bytes;
}

int64_t products_of(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (op == ops::matmul || op == ops::gemm || op == ops::matmul_integer) {
    return std::max(weight_of(operand(instruction, 0)), weight_of(operand(instruction, 1)));
  }
  if (op != ops::matmul_n_bits) return 0;
  const auto size = [&](std::string_view name) {
    return std::max<int64_t>(std::get<int64_t>(*find_attribute(instruction.attributes(), name)), 0);
  };
  return times(size("k"), size("n"));
}

// The experts of a constant operand [experts, …] that a token reads.
struct ReadExperts {
  int64_t read = 1;
  int64_t all = 1;
  int64_t of(int64_t bytes) const { return bytes / all * read + bytes % all * read / all; }
};
ReadExperts read_experts(const Instruction& instruction, const Value& constant) {
  if (!is_any_of(instruction.op(), {&ops::moe, &ops::qmoe})) return {};
  const Value* router = operand(instruction, 1);
  const bool ranked = router != nullptr && router->type().is_ranked() &&
                      constant.type().is_ranked() && constant.type().rank() > 1;
  const auto experts = ranked ? router->type().dims->back().constant() : std::nullopt;
  if (!experts || constant.type().dims->front() != Dim(*experts)) return {};
  const int64_t k = InstructionReader(instruction).integer("k");
  return {std::clamp<int64_t>(k, 0, *experts), std::max<int64_t>(*experts, 1)};
}

// Slots of a KV cache of fixed shape; 0 for other states.
int64_t cache_slots(const Value& past) {
  for (const Use& use : past.uses()) {
    if (use.user == nullptr || use.index != 0 || use.user->op() != ops::tensor_scatter) continue;
    const auto axis = std::get<int64_t>(*find_attribute(use.user->attributes(), "axis"));
    const int64_t rank = past.type().rank();
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at > 0 && at < rank)
      return (*past.type().dims)[static_cast<size_t>(at)].constant().value_or(0);
  }
  return 0;
}

// The GEMM that computes a result, through operand 0 of casts, scales and reshapes.
const Instruction* gemm_of_result(const Program& program, std::string_view result) {
  constexpr int kFarthest = 16;
  const auto& names = program.main().result_names();
  const auto at = std::ranges::find(names, result);
  if (at == names.end()) return nullptr;
  const Value* value = program.main().results()[static_cast<size_t>(at - names.begin())];
  for (int i = 0; i < kFarthest && value != nullptr && value->definition() != nullptr; ++i) {
    const Instruction* instruction = value->definition();
    if (products_of(*instruction) > 0) return instruction;
    value = operand(*instruction, 0);
  }
  return nullptr;
}

// A plan holds codes and scales in place of floats that it quantises; the floats stay in the file,
// where a lookup reads little.
int64_t held_bytes(const Instruction& literal) {
  int64_t quantised = 0;
  bool kept = false;
  for (const Use& use : literal.result()->uses()) {
    const bool quantises = use.user != nullptr && use.user->op() == ops::quantize_blocks;
    kept = kept || !(quantises || (use.user != nullptr && use.user->op() == ops::gather));
    if (!quantises) continue;
    for (const Value& result : use.user->results()) {
      int64_t unknown = 0;
      const int64_t count = product_of_constants(result.type(), unknown);
      quantised = plus(quantised, times(count, info(result.type().element).bits) / 8);
    }
  }
  const int64_t stored = literal.literal()->tensor.byte_size();
  if (literal.literal()->tensor.type() == ElementType::u8 || quantised == 0) return stored;
  return plus(quantised, kept ? stored : 0);
}

}  // namespace

int64_t ModelSize::all_weight_bytes() const { return plus(weight_bytes, encoder_bytes); }

int64_t ModelSize::state_bytes(int64_t tokens) const {
  return plus(sequence_bytes, times(token_bytes, tokens));
}

int64_t ModelSize::bytes_at(int64_t tokens) const {
  return plus(all_weight_bytes(), state_bytes(tokens));
}

int64_t weight_bytes(std::initializer_list<const Program*> programs) {
  int64_t bytes = 0;
  std::set<const void*> seen;
  for (const Program* program : programs) {
    for (size_t i = 0; program != nullptr && i < program->modules().size(); ++i) {
      for (const auto& instruction : program->modules()[i]->instructions()) {
        const LiteralRef& literal = instruction->literal();
        if (literal == nullptr || !seen.insert(literal->tensor.data()).second) continue;
        if (literal->tensor.type() == ElementType::string) continue;
        bytes = plus(bytes, held_bytes(*instruction));
      }
    }
  }
  return bytes;
}

int64_t step_weight_bytes(const Program& program, const PackingSource* packing) {
  std::map<const void*, int64_t> bytes;  // shared literals count once
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (instruction->literal() != nullptr || instruction->deferred() ||
          is_any_of(instruction->op(),
                    {&ops::gather, &ops::gather_block_quantized, &ops::gather_n_bits})) {
        continue;
      }
      const std::string_view compute = compute_of(*instruction);
      const int64_t width = compute == "int8" ? 1 : compute == "bf16" ? 2 : 8;
      for (const Value* operand : instruction->operands()) {
        const int64_t count = weight_of(operand);
        if (count == 0 || operand->type().element == ElementType::string) continue;
        const ReadExperts experts = read_experts(*instruction, *operand);
        const Instruction* source = packing == nullptr ? nullptr : compact_source(*operand);
        if (const int64_t compact = source == nullptr ? 0 : compact_bytes(*source); compact > 0) {
          bytes[source] = experts.of(compact);
          continue;
        }
        const LiteralRef& literal = operand->definition()->literal();
        const std::vector<const Tensor*> parts = literal == nullptr
                                                     ? held_sources(*operand, packing)
                                                     : std::vector<const Tensor*>{&literal->tensor};
        const Tensor* held = parts.empty() ? nullptr : parts.front();
        const void* key = held == nullptr ? static_cast<const void*>(operand) : held->data();
        const ElementType type = held == nullptr ? operand->type().element : held->type();
        const int64_t stored = times(count, info(type).bits) / 8;
        int64_t& most = bytes[key];
        most = std::max(most, experts.of(std::min(stored, times(width, count))));
      }
    }
  }
  int64_t sum = 0;
  for (const auto& [key, read] : bytes) sum = plus(sum, read);
  return sum;
}

std::map<std::string, int64_t, std::less<>> products_by_compute(const Program& program,
                                                                std::string_view head) {
  const Instruction* last = head.empty() ? nullptr : gemm_of_result(program, head);
  std::map<std::string, int64_t, std::less<>> all;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const int64_t products = products_of(*instruction);
      if (products == 0 || instruction.get() == last) continue;
      const std::string_view compute = compute_of(*instruction);
      int64_t& sum = all[std::string(compute.empty() ? "f32" : compute)];
      sum = plus(sum, products);
    }
  }
  return all;
}

ModelSize measure_model(const Program& program, const DecoderInterface& names, int64_t head_size,
                        const Program* beside) {
  ModelSize size;
  size.weight_bytes = weight_bytes({&program, beside});
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      size.products = plus(size.products, products_of(*instruction));
    }
  }
  for (const StatePair& pair : names.states) {
    const auto& parameters = program.main().parameters();
    const auto at =
        std::ranges::find(parameters, pair.past, [](const auto& p) { return p->name(); });
    if (at == parameters.end() || !(*at)->type().dims.has_value()) continue;
    int64_t unknown = 0;
    int64_t count = product_of_constants((*at)->type(), unknown);
    if (unknown > 2) count = times(count, std::max<int64_t>(head_size, 1));
    int64_t bytes = times(count, info((*at)->type().element).bits) / 8;
    // A KV cache of fixed shape is stored by token.
    if (const int64_t slots = cache_slots(**at); slots > 0) {
      bytes /= slots;
      ++unknown;
    }
    // One unknown dimension is the batch; a second one is the token axis.
    int64_t& to = unknown >= 2 ? size.token_bytes : size.sequence_bytes;
    to = plus(to, bytes);
  }
  return size;
}

std::string bytes_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 40) return fmt::format("{:.1f} TiB", number / (int64_t{1} << 40));
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.1f} GiB", number / (int64_t{1} << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", number / (int64_t{1} << 20));
  if (bytes >= int64_t{1} << 10) return fmt::format("{:.1f} KiB", number / (int64_t{1} << 10));
  return fmt::format("{} bytes", bytes);
}

std::string to_string(const ModelSize& size, int64_t context_length) {
  const SystemMemory memory = system_memory();
  return fmt::format(
      "weights {}, KV cache {} per token, {} in total for a sequence of {} tokens; {} of {} "
      "available",
      bytes_text(size.all_weight_bytes()), bytes_text(size.token_bytes),
      bytes_text(size.bytes_at(context_length)), context_length, bytes_text(memory.available_bytes),
      bytes_text(memory.total_bytes));
}

void check_memory(const ModelSize& size, int64_t limit, int64_t available,
                  const std::string& name) {
  const int64_t least = size.state_bytes(1);
  check(limit == 0 || least <= limit, ErrorKind::out_of_memory,
        "one token's KV caches of '{}' require {}, but the memory limit is {}", escape(name),
        bytes_text(least), bytes_text(limit));
  check(available == 0 || size.all_weight_bytes() <= available, ErrorKind::out_of_memory,
        "the weights of '{}' require {}, but {} are available: use a smaller model or one of fewer "
        "bits",
        escape(name), bytes_text(size.all_weight_bytes()), bytes_text(available));
  check(available == 0 || size.bytes_at(1) <= available, ErrorKind::out_of_memory,
        "one token's KV caches of '{}' require {} beside weights of {}, but {} are available",
        escape(name), bytes_text(least), bytes_text(size.all_weight_bytes()),
        bytes_text(available));
}

}  // namespace lathe::llm
