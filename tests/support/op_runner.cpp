// SPDX-License-Identifier: MIT
#include "tests/support/op_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ops/evaluation.h"
#include "ops/index_map.h"
#include "ops/support/symbolic.h"
#include "runtime/session.h"
#include "targets/compile.h"
#if defined(__x86_64__)
#include "targets/cpu/kernels/simd/isa.h"
#endif
#include "tests/support/compare.h"
#include "tests/support/guarded.h"
#include "tests/support/map_evaluation.h"
#include "tests/support/program_runner.h"

namespace lathe::test {
namespace {

enum class Extents : uint8_t { constants, symbols };
// Small integer operands in inference: literals, unknown values, or a symbol for every value that
// may be a size.
enum class Values : uint8_t { constants, unknown, symbols };

// A program with the row's instruction only.
struct Built {
  Program program;
  Instruction* instruction = nullptr;
  std::map<std::string, int64_t> bindings;  // values of the symbols

  std::optional<int64_t> evaluate(const Dim& dim) const {
    return dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
      const auto at = bindings.find(symbol.name);
      if (at == bindings.end()) return std::nullopt;
      return at->second;
    });
  }
};

bool carries_values(const RowValue& value) {
  return value.box.is_tensor() &&
         (is_integer(value.type.element) || value.type.element == ElementType::boolean) &&
         value.box.tensor().count() <= kMaxSymbolicElements;
}

Value* add_operand(Built& built, const RowValue& value, size_t index, Extents extents,
                   Values values) {
  Module& module = built.program.main();
  const bool integers = carries_values(value);
  if (integers && values == Values::constants) {
    return Builder(module).literal(value.box.tensor());
  }
  const auto symbol = [&](std::string_view hint, int64_t bound) -> Dim {
    const SymbolRef added = built.program.add_symbol(hint, SymbolKind::bound, {0, kUnbounded});
    built.bindings[added->name] = bound;
    return added;
  };
  Type type = value.type;
  const bool known = integers && values == Values::symbols;
  if (type.is_tensor() && extents == Extents::symbols && !known) {
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      Dim& dim = (*type.dims)[axis];
      dim = symbol(fmt::format("x{}_{}", index, axis), *dim.constant());
    }
  }
  Value* parameter = module.add_parameter(std::move(type), fmt::format("x{}", index));
  if (known) {
    std::vector<Dim> elements;
    for (const int64_t element : integer_values(value.box.tensor())) {
      // Sizes become symbols. Zero, -1 and end markers do not: they have special meanings.
      const bool extent = element > 0 && element < std::numeric_limits<int32_t>::max();
      elements.push_back(extent ? symbol(fmt::format("v{}", index), element) : Dim(element));
    }
    parameter->set_elements(std::move(elements));
  }
  return parameter;
}

// Sets the type of empty lists, which have no element to infer it from.
Attributes typed_attributes(const OpRow& row) {
  Attributes attributes = row.attributes;
  for (auto& [name, value] : attributes) {
    const AttributeSpec* spec = get_op(row.op).find_attribute_spec(name);
    const auto* list = std::get_if<Integers>(&value);
    if (spec == nullptr || list == nullptr) continue;
    if (spec->kind == AttributeKind::numbers) value = Numbers(list->begin(), list->end());
    if (spec->kind == AttributeKind::texts && list->empty()) value = Texts{};
  }
  return attributes;
}

std::unique_ptr<Built> build(const OpRow& row, Extents extents, Values values) {
  auto built = std::make_unique<Built>();
  std::vector<Value*> operands;
  for (size_t i = 0; i < row.operands.size(); ++i) {
    operands.push_back(row.operands[i].absent
                           ? nullptr
                           : add_operand(*built, row.operands[i], i, extents, values));
  }
  built->instruction = Builder(built->program.main())
                           .add(row.op, std::move(operands), typed_attributes(row), {},
                                static_cast<int>(std::max<size_t>(row.results.size(), 1)));
  return built;
}

std::vector<Box> operand_boxes(const OpRow& row, Layout layout, std::vector<Guarded>& keep) {
  std::vector<Box> boxes;
  for (const RowValue& operand : row.operands) {
    if (layout == Layout::dense || !operand.box.is_tensor()) {
      boxes.push_back(operand.box);
      continue;
    }
    const Tensor& dense = operand.box.tensor();
    keep.emplace_back(dense.type(), dense.dims(), layout);
    copy_elements(dense.view(), keep.back().view());
    boxes.push_back(Box{keep.back().tensor()});
  }
  // Drops trailing absent operands.
  while (!row.operands.empty() && boxes.size() > 0 && row.operands[boxes.size() - 1].absent) {
    boxes.pop_back();
  }
  return boxes;
}

void expect_results(const OpRow& row, const std::vector<Box>& results) {
  ASSERT_EQ(results.size(), row.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string found = difference(results[i], row.results[i].box, row.tolerance);
    EXPECT_TRUE(found.empty()) << "result " << i << " " << found;
  }
}

// Evaluates, or launches a kernel, into guarded memory.
class GuardedEvaluation final : public StoredEvaluation, public HostMemory {
 public:
  GuardedEvaluation(const Built& built, const std::vector<Box>& boxes, Layout layout)
      : StoredEvaluation(*built.instruction), boxes_(boxes), layout_(layout) {
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (boxes_[i].is_tensor()) operand_views_[i] = boxes_[i].tensor().view();
    }
    const size_t count = built.instruction->results().size();
    results_.resize(count);
    guarded_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const Type& type = built.instruction->result(static_cast<int>(i))->type();
      if (!type.is_ranked()) continue;
      Dims dims;
      for (const Dim& dim : *type.dims) dims.push_back(built.evaluate(dim).value_or(-1));
      if (std::find(dims.begin(), dims.end(), -1) == dims.end()) allocate(i, dims);
    }
  }

  using Evaluation::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(i);
    if (guarded_[at] == nullptr) allocate(at, Dims(dims.begin(), dims.end()));
    check(std::ranges::equal(result_views_[at].extents(), dims),
          "result {} has shape [{}], but inference returned [{}]", i, fmt::join(dims, ", "),
          fmt::join(result_views_[at].extents(), ", "));
    return result_views_[at];
  }
  const Box& box(int i) const override { return boxes_[static_cast<size_t>(i)]; }
  void set_box(int i, Box box) override { results_[static_cast<size_t>(i)] = std::move(box); }
  const TensorView& result(int i, std::span<const int64_t> dims) override { return out(i, dims); }
  const Box& box(int i) override { return boxes_[static_cast<size_t>(i)]; }

  void launch(const Kernel& kernel) {
    std::vector<const TensorView*> in(inputs_.begin(), inputs_.end());
    for (size_t i = 0; i < in.size(); ++i) {
      if (!has(static_cast<int>(i))) in[i] = nullptr;
    }
    LaunchArgs args;
    args.in = in;
    args.out = outputs_;
    args.host = this;
    // Tensors are aligned as a workspace must be.
    constexpr int64_t kGuard = 64;
    constexpr uint8_t kPattern = 0xa5;
    const int64_t bytes = kernel.workspace_bytes(args);
    const Tensor workspace(ElementType::u8, {bytes + kGuard});
    std::ranges::fill(workspace.elements<uint8_t>(), kPattern);
    args.workspace = workspace.data();
    kernel.launch(args);
    EXPECT_EQ(std::ranges::count(workspace.elements<uint8_t>().last(kGuard), kPattern), kGuard)
        << "memory behind the workspace changed";
  }

  std::vector<Box> finish() {
    for (size_t i = 0; i < guarded_.size(); ++i) {
      if (guarded_[i] == nullptr) continue;
      EXPECT_TRUE(guarded_[i]->intact()) << "memory around result " << i << " changed";
      if (results_[i].empty()) results_[i] = Box{guarded_[i]->tensor()};
    }
    return results_;
  }

 private:
  void allocate(size_t i, const Dims& dims) {
    const ElementType type = instruction_->result(static_cast<int>(i))->type().element;
    guarded_[i] = std::make_unique<Guarded>(type, dims, layout_);
    result_views_[i] = guarded_[i]->view();
  }
  const std::vector<Box>& boxes_;
  Layout layout_;
  std::vector<Box> results_;
  std::vector<std::unique_ptr<Guarded>> guarded_;
};

void check_evaluation(const OpRow& row, Extents extents, Values values, Layout layout) {
  SCOPED_TRACE(fmt::format("evaluation with {} shapes, values {}, {} strides",
                           extents == Extents::symbols ? "symbolic" : "constant",
                           values == Values::constants ? "known" : "unknown",
                           layout == Layout::odd ? "odd" : "dense"));
  const auto built = build(row, extents, values);
  std::vector<Guarded> keep;
  const std::vector<Box> boxes = operand_boxes(row, layout, keep);
  GuardedEvaluation evaluation(*built, boxes, layout);
  PreparedEvaluation(*built->instruction).run(evaluation);
  expect_results(row, evaluation.finish());
}

// Other targets than ref require x86-64.
#if defined(__x86_64__)
// The target's kernel for the row's instruction, or null; `known`: operands are constants at
// planning time.
std::unique_ptr<const Kernel> own_kernel(const Target& target, const OpRow& row,
                                         const Instruction& instruction, bool known) {
  std::vector<const Tensor*> constants(row.operands.size(), nullptr);
  for (size_t i = 0; known && i < constants.size(); ++i) {
    if (row.operands[i].box.is_tensor()) constants[i] = &row.operands[i].box.tensor();
  }
  if (instruction.op().expand != nullptr && target.expands(instruction)) return nullptr;
  KernelChoice choice = target.select(instruction, constants);
  if (choice.kernel == nullptr || choice.kernel->name().starts_with("ref.") ||
      choice.kernel->name().starts_with("host.")) {
    return nullptr;
  }
  return std::move(choice.kernel);
}

// Compares the first `used_count` results; the other results have no uses.
void check_kernel(const Target& target, const OpRow& row, bool known, Layout layout,
                  size_t used_count) {
  SCOPED_TRACE(fmt::format("on {} with operands {}, {} strides, {} results used", target.name(),
                           known ? "known" : "unknown", layout == Layout::odd ? "odd" : "dense",
                           used_count));
  const auto built = build(row, Extents::constants, Values::unknown);
  std::vector<Value*> used;
  for (size_t i = 0; i < used_count; ++i) {
    used.push_back(built->instruction->result(static_cast<int>(i)));
  }
  built->program.main().set_results(used, std::vector<std::string>(used_count));
  const auto kernel = own_kernel(target, row, *built->instruction, known);
  if (kernel == nullptr) return;
  std::vector<Guarded> keep;
  const std::vector<Box> boxes = operand_boxes(row, layout, keep);
  GuardedEvaluation evaluation(*built, boxes, layout);
  evaluation.launch(*kernel);
  std::vector<Box> results = evaluation.finish();
  for (size_t i = used_count; i < row.results.size(); ++i) results.at(i) = row.results[i].box;
  expect_results(row, results);
}

void check_kernel_error(const Target& target, const OpRow& row) {
  SCOPED_TRACE(fmt::format("on {}", target.name()));
  std::unique_ptr<Built> built;
  try {
    built = build(row, Extents::constants, Values::unknown);
  } catch (const Error&) {
    return;  // inference fails; check_error compares the message
  }
  try {
    const auto kernel = own_kernel(target, row, *built->instruction, true);
    if (kernel == nullptr) return;
    std::vector<Guarded> keep;
    const std::vector<Box> boxes = operand_boxes(row, Layout::dense, keep);
    GuardedEvaluation evaluation(*built, boxes, Layout::dense);
    evaluation.launch(*kernel);
    ADD_FAILURE() << "expected the error \"" << *row.error << "\"";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
  }
}

// Runs the kernels of every instruction set of this machine; those of AVX-512 VNNI are those of the
// sets beside it.
void check_cpu_kernels(const OpRow& row) {
  const auto target = find_target("cpu");
  struct Restore {
    ~Restore() { cpu::limit_isa(std::nullopt); }
  } const restore;
  for (int i = 0; i < cpu::kIsaCount; ++i) {
    const auto isa = static_cast<cpu::Isa>(i);
    if (!cpu::host_supports(isa)) continue;
    const bool again = isa == cpu::Isa::avx512_vnni && cpu::host_supports(cpu::Isa::avx512_bf16);
    if (again) continue;
    SCOPED_TRACE(cpu::to_string(isa));
    cpu::limit_isa(isa);
    if (row.error) {
      check_kernel_error(*target, row);
      continue;
    }
    for (const bool known : {true, false}) {
      for (const Layout layout : {Layout::dense, Layout::odd}) {
        check_kernel(*target, row, known, layout, row.results.size());
        if (row.results.size() > 1) check_kernel(*target, row, known, layout, 1);
      }
    }
  }
}
#else
void check_cpu_kernels(const OpRow&) {}
#endif

// A view of operand 0's memory must have the expected elements.
void check_view(const OpRow& row, Layout layout) {
  SCOPED_TRACE("view");
  const auto built = build(row, Extents::constants, Values::constants);
  std::vector<Guarded> keep;
  const std::vector<Box> boxes = operand_boxes(row, layout, keep);
  if (!boxes.front().is_tensor()) return;
  for (size_t i = 0; i < row.results.size(); ++i) {
    if (!row.results[i].box.is_tensor()) continue;
    const Tensor& expected = row.results[i].box.tensor();
    ViewRequest request;
    request.instruction = built->instruction;
    request.index = static_cast<int>(i);
    request.operand = boxes.front().tensor().view();
    request.result = expected.view();
    request.result.data = nullptr;
    for (const RowValue& operand : row.operands) {
      const bool known = carries_values(operand);
      request.is_known_.push_back(known);
      request.known_.push_back(known ? integer_values(operand.box.tensor())
                                     : std::vector<int64_t>{});
    }
    if (!built->instruction->op().view(request)) continue;
    const TensorView& view = request.result;
    const Tensor seen(view.type, Dims(view.extents().begin(), view.extents().end()),
                      Dims(view.strides.begin(), view.strides.begin() + view.rank), view.data,
                      nullptr);
    const std::string found = difference(Box{seen}, row.results[i].box, row.tolerance);
    EXPECT_TRUE(found.empty()) << "the view of result " << i << " " << found;
  }
}

// The elements that the index map reads must be the expected ones. With constant shapes and values
// every map is known.
void check_map(const OpRow& row, Extents extents, Values values) {
  SCOPED_TRACE(fmt::format("map with {} shapes and {} values",
                           extents == Extents::symbols ? "symbolic" : "constant",
                           values == Values::constants ? "known"
                           : values == Values::unknown ? "unknown"
                                                       : "symbolic"));
  const auto built = build(row, extents, values);
  const bool all_known = extents == Extents::constants && values == Values::constants;
  for (size_t i = 0; i < row.results.size(); ++i) {
    if (!row.results[i].box.is_tensor() || !row.operands[0].box.is_tensor()) continue;
    const SymbolicMap map(*built->instruction, static_cast<int>(i));
    if (map.is_known()) {
      expect_mapped(row, i, map, built->bindings);
    } else {
      EXPECT_FALSE(all_known) << "result " << i << " has no map";
    }
  }
}

void check_type(const Built& built, const Type& type, const RowValue& expected) {
  if (!type.is_tensor()) {
    EXPECT_EQ(type.kind, expected.type.kind) << type.to_string();
    return;
  }
  EXPECT_TRUE(expected.type.is_tensor()) << type.to_string();
  EXPECT_EQ(type.element, expected.type.element) << type.to_string();
  if (!type.dims) return;
  ASSERT_EQ(type.rank(), expected.type.rank()) << type.to_string();
  for (size_t axis = 0; axis < type.dims->size(); ++axis) {
    const Dim& dim = (*type.dims)[axis];
    std::vector<SymbolRef> symbols;
    dim.collect_symbols(symbols);
    const bool found = std::any_of(symbols.begin(), symbols.end(), [](const SymbolRef& symbol) {
      return symbol->kind == SymbolKind::found;
    });
    const std::optional<int64_t> value = built.evaluate(dim);
    EXPECT_TRUE(found || value == *(*expected.type.dims)[axis].constant())
        << type.to_string() << ", axis " << axis << " is " << value.value_or(-1) << ", expected "
        << expected.type.to_string();
  }
}

void check_inference(const OpRow& row, Extents extents, Values values) {
  SCOPED_TRACE(fmt::format("inference with {} shapes and {} values",
                           extents == Extents::symbols ? "symbolic" : "constant",
                           values == Values::constants ? "known"
                           : values == Values::unknown ? "unknown"
                                                       : "symbolic"));
  const auto built = build(row, extents, values);
  const Instruction& instruction = *built->instruction;
  for (size_t i = 0; i < row.results.size(); ++i) {
    const Value& result = *instruction.result(static_cast<int>(i));
    check_type(*built, result.type(), row.results[i]);
    if (!result.elements() || !row.results[i].box.is_tensor()) continue;
    const std::vector<int64_t> expected = integer_values(row.results[i].box.tensor());
    ASSERT_EQ(result.elements()->size(), expected.size());
    for (size_t j = 0; j < expected.size(); ++j) {
      const Dim& element = (*result.elements())[j];
      EXPECT_EQ(built->evaluate(element), expected[j])
          << "element " << j << ": " << element.to_string();
    }
  }
  for (const Guard& guard : built->program.main().guards()) {
    const std::optional<int64_t> a = built->evaluate(guard.a);
    const std::optional<int64_t> b = built->evaluate(guard.b);
    if (!a || !b) continue;
    const bool holds = guard.relation == Guard::Relation::equal ? *a == *b
                       : guard.relation == Guard::Relation::less_equal
                           ? *a <= *b
                           : *a == *b || *a == 1 || *b == 1;
    EXPECT_TRUE(holds) << "requirement '" << guard.reason << "' on " << guard.a.to_string()
                       << " and " << guard.b.to_string();
  }
  const InferRun again(*built->instruction);
  for (size_t i = 0; i < again.types.size(); ++i) {
    EXPECT_EQ(again.types[i], instruction.result(static_cast<int>(i))->type())
        << "inferred again: " << again.types[i].to_string();
  }
}

void check_error(const OpRow& row) {
  try {
    const auto built = build(row, Extents::constants, Values::constants);
    std::vector<Guarded> keep;
    evaluate_instruction(*built->instruction, operand_boxes(row, Layout::dense, keep));
    ADD_FAILURE() << "expected the error \"" << *row.error << "\"";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
    EXPECT_NE(error.message().find(*row.error), std::string::npos) << error.what();
  }
}

// Runs a program of the one instruction.
void check_session(const OpRow& row, const std::shared_ptr<const Target>& target, Extents extents) {
  SCOPED_TRACE(fmt::format("a session on {}, {} shapes", target->name(),
                           extents == Extents::symbols ? "symbolic" : "constant"));
  const auto built = build(row, extents, Values::unknown);
  std::vector<Value*> results;
  for (size_t i = 0; i < row.results.size(); ++i) {
    results.push_back(built->instruction->result(static_cast<int>(i)));
  }
  built->program.main().set_results(results, std::vector<std::string>(results.size()));
  std::unique_ptr<Program> program = built->program.clone();
  program->stage = Stage::fused;
  std::vector<Guarded> keep;
  std::vector<Box> inputs = operand_boxes(row, Layout::odd, keep);
  std::erase_if(inputs, [](const Box& box) { return box.empty(); });
  inputs.resize(built->program.main().parameters().size());
  Session session(compile(std::move(program), {.target = target}),
                  {.warn = [](std::string_view) {}});
  for (int i = 0; i < 2; ++i) expect_results(row, session.run(inputs));
}

void check_static(const OpRow& row) {
  try {
    build(row, Extents::symbols, Values::unknown);
    ADD_FAILURE() << "inference succeeds with symbols: remove 'static'";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
  }
}

void run(const OpRow& row) {
  if (row.op == "run") return run_program_row(row);
  check_cpu_kernels(row);
  if (row.error) return check_error(row);
  const Op& op = get_op(row.op);
  {
    const auto built = build(row, Extents::constants, Values::constants);
    for (const Layout layout : {Layout::dense, Layout::odd}) {
      SCOPED_TRACE(layout == Layout::odd ? "odd operand strides" : "dense operands");
      std::vector<Guarded> keep;
      expect_results(row,
                     evaluate_instruction(*built->instruction, operand_boxes(row, layout, keep)));
    }
  }
  check_inference(row, Extents::constants, Values::constants);
  check_session(row, find_target("sim"), Extents::constants);
  const bool alone = op.expand == nullptr;
  if (alone) {
    check_evaluation(row, Extents::constants, Values::constants, Layout::odd);
    check_evaluation(row, Extents::constants, Values::unknown, Layout::dense);
  }
  if (op.view != nullptr) {
    check_view(row, Layout::dense);
    check_view(row, Layout::odd);
  }
  if (op.map) check_map(row, Extents::constants, Values::constants);
  if (row.is_static) return check_static(row);
  for (const Values values : {Values::constants, Values::unknown, Values::symbols}) {
    check_inference(row, Extents::symbols, values);
    if (op.map) check_map(row, Extents::symbols, values);
  }
  check_session(row, find_target("sim:mixed"), Extents::symbols);
  if (alone) check_evaluation(row, Extents::symbols, Values::unknown, Layout::odd);
}

}  // namespace

void run_op_row(const OpRow& row) {
  try {
    run(row);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

void run_op_row_on(const OpRow& row, const std::shared_ptr<const Target>& target) {
  if (row.error || row.op == "run") return;
  try {
    check_session(row, target, Extents::constants);
    if (!row.is_static) check_session(row, target, Extents::symbols);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace lathe::test
