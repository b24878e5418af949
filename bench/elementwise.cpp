// SPDX-License-Identifier: MIT
// Elementwise regions of models as generated code and by CompiledExpr, a chunk in L1 at a time:
// operands of 512 KiB in all, one thread. Prints each region's time in us, the time of generation
// at the first run and whether bits are equal.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>

#include "import/load_model.h"
#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/interpret.h"
#include "targets/compile.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/generated_elementwise.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int64_t kColumns = 768, kBytes = 512 * 1024, kChunk = 512;

struct Region {
  std::vector<const Value*> operands;
  std::vector<const Instruction*> instructions;
};

// The region's instructions one after the other over chunks.
class Interpreted {
 public:
  explicit Interpreted(const Region& region) : region_(region) {
    for (const Instruction* instruction : region.instructions) {
      formulas_.emplace_back(formula_of(*instruction));
      chunks_.emplace_back(ElementType::f64, Dims{kChunk});
    }
  }

  void run(const std::vector<TensorView>& in, const TensorView& y, int64_t count) {
    for (int64_t first = 0; first < count; first += kChunk) {
      const int64_t size = std::min(kChunk, count - first);
      for (size_t step = 0; step < formulas_.size(); ++step) {
        std::vector<ElementOperand> operands;
        for (const Value* value : region_.instructions[step]->operands()) {
          operands.push_back(operand(value, in, first));
        }
        const bool last = step + 1 == formulas_.size();
        const ElementType type = region_.instructions[step]->result()->type().element;
        void* to = last ? static_cast<std::byte*>(y.data) + first * info(y.type).bits / 8
                        : chunks_[step].data();
        formulas_[step].run(operands, to, type, size);
      }
    }
  }

 private:
  ElementOperand operand(const Value* value, const std::vector<TensorView>& in, int64_t first) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (region_.operands[i] != value) continue;
      const int64_t stride = in[i].rank == 0 ? 0 : 1;
      return {
          static_cast<const std::byte*>(in[i].data) + first * stride * info(in[i].type).bits / 8,
          in[i].type, stride};
    }
    for (size_t step = 0; step < chunks_.size(); ++step) {
      const Value* result = region_.instructions[step]->result();
      if (result == value) return {chunks_[step].data(), result->type().element, 1};
    }
    fail(ErrorKind::internal, "value {} is not in the region", value->name());
  }

  const Region& region_;
  std::vector<CompiledExpr> formulas_;
  std::vector<Tensor> chunks_;
};

template <class F>
double microseconds(F&& run) {
  double best = 1e30;
  for (int i = 0; i < 30; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

bool is_scalar(const Value& value) {
  return std::ranges::all_of(*value.type().dims, [](const Dim& dim) { return dim == Dim(1); });
}

void measure(const Region& region, std::string_view name, int times) {
  const auto isa = cpu::best_isa();
  auto generated = cpu::GeneratedElementwise::make(region.operands, region.instructions, *isa);
  const bool has_formulas = std::ranges::all_of(
      region.instructions,
      [](const Instruction* instruction) { return instruction->op().formula != nullptr; });
  if (generated == nullptr || !has_formulas) {
    fmt::print("{:4} {:40} {}\n", times, name,
               generated == nullptr ? "not generated" : "has quantised steps");
    return;
  }
  int64_t bytes = info(region.instructions.back()->result()->type().element).bits / 8;
  for (const Value* operand : region.operands) {
    if (!is_scalar(*operand)) bytes += info(operand->type().element).bits / 8;
  }
  const int64_t rows = std::max<int64_t>(kBytes / bytes / kColumns, 1);
  const Dims dims{rows, kColumns};
  std::vector<Tensor> tensors;
  std::mt19937 random(1);
  for (const Value* operand : region.operands) {
    Tensor tensor(operand->type().element, is_scalar(*operand) ? Dims{} : dims);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      store_double(tensor.type(), tensor.data(), i, static_cast<double>(random() % 4001) / 500 - 4);
    }
    tensors.push_back(std::move(tensor));
  }
  const ElementType type = region.instructions.back()->result()->type().element;
  const Tensor expected(type, dims), got(type, dims);
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  std::vector<const TensorView*> in;
  for (const TensorView& view : views) in.push_back(&view);
  Interpreted interpreted(region);
  const auto first = std::chrono::steady_clock::now();
  generated->run(in, got.view(), nullptr);
  const std::chrono::duration<double, std::micro> first_run =
      std::chrono::steady_clock::now() - first;
  const double own = microseconds([&] { generated->run(in, got.view(), nullptr); });
  const double referee =
      microseconds([&] { interpreted.run(views, expected.view(), rows * kColumns); });
  const bool equal = std::memcmp(expected.data(), got.data(),
                                 static_cast<size_t>(bytes_for(type, got.count()))) == 0;
  fmt::print("{:4} {:40} {:8.1f} {:8.1f} {:6.2f} {:9.0f} {}\n", times, name, own, referee,
             referee / own, first_run.count() - own, equal ? "equal" : "DIFFERENT");
}

void measure_model(const std::string& path) {
  fmt::print(
      "{}\n   n region                                   generated CompiledExpr ratio "
      "compile us  bits\n",
      path);
  const auto program = load_model(path);
  const CompileOptions options{.target = find_target("cpu")};
  run_pipeline(*program, options);
  std::map<std::string, std::pair<Region, int>> regions;
  for (const auto& instruction : program->main().instructions()) {
    Region region;
    std::string name;
    if (instruction->op() == ops::region) {
      if (!cpu::why_no_elementwise_region(*instruction).empty()) continue;
      const Module& body = *instruction->bodies()[0];
      for (const auto& parameter : body.parameters()) region.operands.push_back(parameter.get());
      for (const auto& step : body.instructions()) region.instructions.push_back(step.get());
    } else {
      if (!cpu::why_no_elementwise(*instruction).empty()) continue;
      region.operands.assign(instruction->operands().begin(), instruction->operands().end());
      region.instructions = {instruction.get()};
    }
    for (const Instruction* step : region.instructions) {
      name += (name.empty() ? "" : "+") + std::string(step->op().name);
    }
    regions.try_emplace(name, region, 0).first->second.second += 1;
  }
  for (const auto& [name, entry] : regions) measure(entry.first, name, entry.second);
}

}  // namespace
}  // namespace lathe

int main(int count, char** arguments) {
  if (count < 2) lathe::measure_model("examples/digits/digits.onnx");
  for (int i = 1; i < count; ++i) lathe::measure_model(arguments[i]);
  return 0;
}
