// SPDX-License-Identifier: MIT
// Normalisations over the last axes, of f32 or of 16-bit floats with f32 arithmetic.
#include <algorithm>
#include <array>
#include <optional>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "targets/cpu/generated_rows.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/common/chunk_splitter.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/row_region.h"

namespace lathe::cpu {
namespace {

constexpr int kAbsent = -1;

// Operand and result indices of an op.
struct Form {
  const Op* op;
  bool centred;
  int skip = kAbsent;
  int gamma = 1;
  int beta = kAbsent;
  int bias = kAbsent;
  int mean = kAbsent;  // results
  int inverse = kAbsent;
  int sum = kAbsent;
};

constexpr std::array kForms{
    Form{.op = &ops::layer_normalization, .centred = true, .beta = 2, .mean = 1, .inverse = 2},
    Form{.op = &ops::rms_normalization, .centred = false},
    Form{.op = &ops::simplified_layer_normalization, .centred = false, .inverse = 1},
    Form{.op = &ops::skip_layer_normalization,
         .centred = true,
         .skip = 1,
         .gamma = 2,
         .beta = 3,
         .bias = 4,
         .mean = 1,
         .inverse = 2,
         .sum = 3},
    Form{.op = &ops::skip_simplified_layer_normalization,
         .centred = false,
         .skip = 1,
         .gamma = 2,
         .bias = 3,
         .inverse = 2,
         .sum = 3},
};

const Form& form_of(const Instruction& instruction) {
  return *std::ranges::find(kForms, &instruction.op(), &Form::op);
}

bool is_used(const Instruction& instruction, int result) {
  return result != kAbsent && !instruction.result(result)->uses().empty();
}

// Number of normalised last axes; ops with a skip operand have no axis attribute.
int64_t axes_of(const Instruction& instruction) {
  const Attribute* found = find_attribute(instruction.attributes(), "axis");
  if (found == nullptr) return 1;
  const auto axis = std::get<int64_t>(*found);
  return axis < 0 ? -axis : instruction.operands()[0]->type().rank() - axis;
}

// Elements of a row; none if the type does not have them.
std::optional<int64_t> row_count(const Instruction& instruction) {
  const Type& type = instruction.operands()[0]->type();
  if (!type.is_ranked()) return std::nullopt;
  const int64_t axes = axes_of(instruction);
  if (axes < 1 || axes > type.rank()) return std::nullopt;
  int64_t count = 1;
  for (size_t axis = type.dims->size() - static_cast<size_t>(axes); axis < type.dims->size();
       ++axis) {
    if (!(*type.dims)[axis].is_constant()) return std::nullopt;
    count *= *(*type.dims)[axis].constant();
  }
  return count;
}

// True if the operand has the normalised axes of x and no other: a column of as many elements
// broadcasts differently.
bool is_row(const Value& operand, const Type& x, int64_t axes) {
  if (!operand.type().is_ranked()) return false;
  const std::vector<Dim>& own = *operand.type().dims;
  const auto count = static_cast<size_t>(axes);
  if (own.size() < count) return false;
  const auto first = own.end() - axes;
  return std::equal(first, own.end(), x.dims->end() - axes) &&
         std::all_of(own.begin(), first, [](const Dim& dim) { return dim == Dim(1); });
}

class Normalization final : public Kernel {
 public:
  Normalization(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        form_(form_of(instruction)),
        isa_(isa),
        type_(element_of(instruction, 0)),
        count_(*row_count(instruction)),
        epsilon_(static_cast<float>(attribute<double>(instruction, "epsilon"))),
        uses_mean_(is_used(instruction, form_.mean)),
        uses_inverse_(is_used(instruction, form_.inverse)),
        uses_sum_(is_used(instruction, form_.sum)) {
    if (!why_no_rows(instruction).empty()) return;
    const std::array<const Instruction*, 1> alone{&instruction};
    const std::vector<const Value*> operands(instruction.operands().begin(),
                                             instruction.operands().end());
    generated_ = GeneratedRows::make(operands, alone, isa);
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  bool writes(int result) const override {
    return std::ranges::any_of(results(),
                               [&](const Written& r) { return r.used && r.result == result; });
  }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    for (const int i : operands()) {
      if (!has(most, i)) continue;
      const TensorView* view = most.in[static_cast<size_t>(i)];
      is_narrow() && is_of_one_row(i) ? reserve_floats(*view, workspace)
                                      : reserve_copy(view, workspace);
    }
    for (const auto& [result, used] : results()) {
      if (used) reserve_copy(most.out[static_cast<size_t>(result)], workspace);
    }
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView &x = *args.in[0], &y = *args.out[0];
    const bool strided = !x.is_dense() || !y.is_dense();
    if (strided && y.count() > 0 && generated_ != nullptr &&
        generated_->run(args.in, y, args.pool)) {
      return;
    }
    ScratchLayout workspace = workspace_of(args);
    const auto rows_of = [&](int i) -> const void* {
      if (!has(args, i)) return nullptr;
      return dense_operand(*args.in[static_cast<size_t>(i)], workspace).data;
    };
    const auto one_row = [&](int i) -> const float* {
      if (!is_narrow()) return static_cast<const float*>(rows_of(i));
      if (!has(args, i)) return nullptr;
      return float_elements(*args.in[static_cast<size_t>(i)], workspace).data();
    };
    NormalizedRow row;
    Rows rows;
    rows.x = rows_of(0);
    rows.skip = rows_of(form_.skip);
    row.gamma = one_row(form_.gamma);
    row.beta = one_row(form_.beta);
    row.bias = one_row(form_.bias);
    row.count = count_;
    row.epsilon = epsilon_;
    row.centred = form_.centred;
    std::array<std::optional<DenseResult>, 4> written;
    std::array<void*, 4> memory{};
    for (size_t i = 0; i < written.size(); ++i) {
      const auto [result, used] = results()[i];
      if (!used) continue;
      memory[i] = written[i].emplace(*args.out[static_cast<size_t>(result)], workspace).view().data;
    }
    rows.y = memory[0];
    rows.sum = memory[1];
    rows.mean = static_cast<float*>(memory[2]);
    rows.inverse = static_cast<float*>(memory[3]);
    run(args, row, rows);
    for (const std::optional<DenseResult>& result : written) {
      if (result) result->finish();
    }
  }

 private:
  struct Written {
    int result;
    bool used;
  };
  // Memory of all rows; null where the launch does not have it.
  struct Rows {
    const void* x = nullptr;
    const void* skip = nullptr;
    void* y = nullptr;
    void* sum = nullptr;
    float* mean = nullptr;
    float* inverse = nullptr;
  };
  bool is_narrow() const { return type_ != ElementType::f32; }
  bool is_of_one_row(int operand) const { return operand != 0 && operand != form_.skip; }
  // y, sum, mean, inverse
  std::array<Written, 4> results() const {
    return {{{0, true},
             {form_.sum, uses_sum_},
             {form_.mean, uses_mean_},
             {form_.inverse, uses_inverse_}}};
  }
  std::array<int, 5> operands() const {
    return {0, form_.skip, form_.gamma, form_.beta, form_.bias};
  }
  static bool has(const LaunchArgs& args, int operand) {
    return operand != kAbsent && args.has(static_cast<size_t>(operand));
  }

  void run(const LaunchArgs& args, const NormalizedRow& all, const Rows& memory) const {
    constexpr int64_t kGrain = 16384;  // elements
    const int64_t rows = count_ == 0 ? 0 : args.in[0]->count() / count_;
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count_));
    parallel_for(args.pool, rows, even_grain(rows, grain), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const RowMoments moments =
            is_narrow() ? normalize_narrow(all, memory, i) : normalize(all, memory, i);
        if (memory.mean != nullptr) memory.mean[i] = moments.mean;
        if (memory.inverse != nullptr) memory.inverse[i] = moments.inverse;
      }
    });
  }

  RowMoments normalize(NormalizedRow row, const Rows& memory, int64_t i) const {
    const auto at = [&](auto* all) { return all == nullptr ? nullptr : all + i * count_; };
    row.x = at(static_cast<const float*>(memory.x));
    row.skip = at(static_cast<const float*>(memory.skip));
    row.y = at(static_cast<float*>(memory.y));
    row.sum = at(static_cast<float*>(memory.sum));
    return row_ops(isa_).normalize(row);
  }

  // Through f32 rows in L1.
  RowMoments normalize_narrow(NormalizedRow row, const Rows& memory, int64_t i) const {
    constexpr ElementType f32 = ElementType::f32;
    const VectorOps& ops = vector_ops(isa_);
    float* wide = reinterpret_cast<float*>(
        thread_scratch(ScratchUse::task, 3 * count_ * static_cast<int64_t>(sizeof(float))));
    const auto widened = [&](const void* all, float* to) -> const float* {
      if (all == nullptr) return nullptr;
      convert_elements(ops, f32, to, type_, static_cast<const uint16_t*>(all) + i * count_, count_);
      return to;
    };
    row.x = widened(memory.x, wide);
    row.skip = widened(memory.skip, wide + count_);
    row.y = wide;
    row.sum = memory.sum == nullptr ? nullptr : wide + 2 * count_;
    const RowMoments moments = row_ops(isa_).normalize(row);
    const auto narrow = [&](const float* from, void* all) {
      if (all == nullptr) return;
      convert_elements(ops, type_, static_cast<uint16_t*>(all) + i * count_, f32, from, count_);
    };
    narrow(row.y, memory.y);
    narrow(row.sum, memory.sum);
    return moments;
  }

  std::string name_;
  const Form& form_;
  Isa isa_;
  ElementType type_;
  int64_t count_;
  float epsilon_;
  bool uses_mean_;
  bool uses_inverse_;
  bool uses_sum_;
  std::unique_ptr<const GeneratedRows> generated_;  // of tiles where rows are strided; null: none
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const Form& form = form_of(instruction);
  const ElementType type = element_of(instruction, 0);
  for (size_t i = 0; i < instruction.operands().size(); ++i) {
    if (!has_operand(instruction, i)) continue;
    const ElementType own = element_of(instruction, i);
    const bool known =
        own == ElementType::f32 || own == ElementType::bf16 || own == ElementType::f16;
    if (known && own == type) continue;
    return fmt::format("operand '{}' is {}, supported: f32, bf16 or f16 for all operands",
                       instruction.op().operands[i].name, to_string(own));
  }
  for (int i = 0; i < static_cast<int>(instruction.results().size()); ++i) {
    const bool is_moment = i == form.mean || i == form.inverse;
    if (i > 0 && !is_used(instruction, i)) continue;
    if (instruction.result(i)->type().element != (is_moment ? ElementType::f32 : type)) {
      return "a result has another type";
    }
  }
  if (!row_count(instruction)) return "the row size is not constant";
  const Type& x = instruction.operands()[0]->type();
  for (const int operand : {form.gamma, form.beta, form.bias}) {
    const auto at = static_cast<size_t>(operand);
    if (operand == kAbsent || !has_operand(instruction, at)) continue;
    if (!is_row(*instruction.operands()[at], x, axes_of(instruction))) {
      return fmt::format("operand '{}' does not have the shape of one row",
                         instruction.op().operands[at].name);
    }
  }
  // The kernel does not compute the mean output.
  if (!form.centred && form.skip != kAbsent && is_used(instruction, 1))
    return "the mean output is used";
  if (form.skip != kAbsent &&
      instruction.operands()[0]->type().dims != instruction.operands()[1]->type().dims) {
    return "x and skip have different shapes";
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<Normalization>(instruction, isa), ""};
}

// Rows of any size, and factors with one element for each row.
std::string why_no_form(const Instruction& instruction, Isa isa) {
  std::string reason = why_not(instruction, isa);
  return reason.empty() || why_no_rows(instruction).empty() ? "" : reason;
}

KernelChoice make_form(const Instruction& instruction, Constants constants, Isa isa) {
  return why_not(instruction, isa).empty() ? make(instruction, constants, isa)
                                           : make_rows(instruction, constants, isa);
}

}  // namespace

const KernelEntry kLayerNormalization{ops::layer_normalization, why_no_form, make_form};
const KernelEntry kRmsNormalization{ops::rms_normalization, why_no_form, make_form};
const KernelEntry kSimplifiedLayerNormalization{ops::simplified_layer_normalization, why_not, make};
const KernelEntry kSkipLayerNormalization{ops::skip_layer_normalization, why_not, make};
const KernelEntry kSkipSimplifiedLayerNormalization{ops::skip_simplified_layer_normalization,
                                                    why_not, make};

}  // namespace lathe::cpu
