// SPDX-License-Identifier: MIT
#include "llm/model/model_size.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/os_system.h"
#include "ir/op.h"

namespace lathe::llm {
namespace {

// Saturating: sizes from files may be anything.
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

// Elements of a literal that is multiplied with.
int64_t weight_of(const Value* value) {
  if (value == nullptr || value->definition() == nullptr) return 0;
  const LiteralRef& literal = value->definition()->literal();
  return literal == nullptr ? 0 : literal->tensor.count();
}

int64_t products_of(const Instruction& instruction) {
  const std::string_view op = instruction.op().name;
  if (op == "matmul" || op == "gemm") {
    return std::max(weight_of(operand(instruction, 0)), weight_of(operand(instruction, 1)));
  }
  if (op != "matmul_n_bits") return 0;
  const Attribute* bits = find_attribute(instruction.attributes(), "bits");
  const int64_t each = bits == nullptr ? 4 : std::max<int64_t>(std::get<int64_t>(*bits), 1);
  return times(8 / std::min<int64_t>(each, 8), weight_of(operand(instruction, 1)));
}

// How many rows a cache of fixed extents has; 0: it is none.
int64_t rows_written_into(const Value& past) {
  for (const Use& use : past.uses()) {
    if (use.user == nullptr || use.index != 0 || use.user->op().name != "tensor_scatter") continue;
    const auto axis = std::get<int64_t>(*find_attribute(use.user->attributes(), "axis"));
    const int64_t rank = past.type().rank();
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at > 0 && at < rank)
      return (*past.type().dims)[static_cast<size_t>(at)].constant().value_or(0);
  }
  return 0;
}

}  // namespace

int64_t ModelSize::bytes_at(int64_t tokens) const {
  return plus(weight_bytes, plus(sequence_bytes, times(row_bytes, tokens)));
}

ModelSize measure_model(const Program& program, const DecoderInterface& names, int64_t head_size,
                        const Program* beside) {
  ModelSize size;
  std::set<const void*> seen;
  for (const Program* each : {&program, beside}) {
    for (size_t i = 0; each != nullptr && i < each->modules().size(); ++i) {
      for (const auto& instruction : each->modules()[i]->instructions()) {
        if (each == &program) size.products = plus(size.products, products_of(*instruction));
        const LiteralRef& literal = instruction->literal();
        if (literal == nullptr || !seen.insert(literal->tensor.data()).second) continue;
        if (literal->tensor.type() == ElementType::string) continue;
        size.weight_bytes = plus(size.weight_bytes, literal->tensor.byte_size());
      }
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
    // Into caches of fixed extents rows are written: they are kept as they come.
    if (const int64_t rows = rows_written_into(**at); rows > 0) {
      bytes /= rows;
      ++unknown;
    }
    // The batch is unknown as a rule; a second such extent is that of the rows.
    int64_t& to = unknown >= 2 ? size.row_bytes : size.sequence_bytes;
    to = plus(to, bytes);
  }
  return size;
}

std::string bytes_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.1f} GiB", number / (int64_t{1} << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", number / (int64_t{1} << 20));
  if (bytes >= int64_t{1} << 10) return fmt::format("{:.1f} KiB", number / (int64_t{1} << 10));
  return fmt::format("{} bytes", bytes);
}

std::string to_string(const ModelSize& size, int64_t context_length) {
  return fmt::format(
      "weights {}, cache {} a token, {} in all for a sequence of {} tokens; {} of {} available",
      bytes_text(size.weight_bytes), bytes_text(size.row_bytes),
      bytes_text(size.bytes_at(context_length)), context_length,
      bytes_text(system_info().available_bytes), bytes_text(system_info().total_bytes));
}

void check_memory(const ModelSize& size, int64_t limit, const std::string& name) {
  const int64_t total = system_info().total_bytes;
  check(total == 0 || size.weight_bytes <= total, ErrorKind::out_of_memory,
        "the weights of '{}' take {}, this machine has {}: take a smaller or more coarsely "
        "quantised model",
        escape(name), bytes_text(size.weight_bytes), bytes_text(total));
  const int64_t least = plus(size.row_bytes, size.sequence_bytes);
  check(limit == 0 || least <= limit, ErrorKind::out_of_memory,
        "one token's caches of '{}' take {}, the memory limit is {}", escape(name),
        bytes_text(least), bytes_text(limit));
}

}  // namespace lathe::llm
