// SPDX-License-Identifier: MIT
// Ops that only move elements: strided copies, and kernels generated from index maps.
#include <algorithm>
#include <map>

#include "ir/ops.h"
#include "ops/index_map.h"
#include "ops/support/views.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

// Where the value of a symbol is read when a kernel is launched: an axis of an operand or result.
struct Binding {
  bool result = false;
  size_t index = 0;
  size_t axis = 0;
};

// The axis whose size is this symbol; none if no operand or result has one.
std::optional<Binding> find_binding(const Instruction& instruction, std::string_view symbol) {
  const auto axis_of = [&](const Type& type) -> std::optional<size_t> {
    if (!type.is_ranked()) return std::nullopt;
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      const SymbolRef own = (*type.dims)[axis].as_symbol();
      if (own != nullptr && own->name == symbol) return axis;
    }
    return std::nullopt;
  };
  for (size_t i = 0; i < instruction.operands().size(); ++i) {
    if (instruction.operands()[i] == nullptr) continue;
    if (const auto axis = axis_of(instruction.operands()[i]->type()))
      return Binding{false, i, *axis};
  }
  for (size_t i = 0; i < instruction.results().size(); ++i) {
    if (const auto axis = axis_of(instruction.results()[i].type())) return Binding{true, i, *axis};
  }
  return std::nullopt;
}

// The map of one result as device code.
class MapSource {
 public:
  MapSource(const Instruction& instruction, int result)
      : instruction_(instruction), map_(instruction, result) {
    if (!map_.is_known()) {
      reason = "its index map is not known";
      return;
    }
    const Type& type = instruction.result(result)->type();
    rank_ = std::max<size_t>(type.dims->size(), 1);
    for (size_t i = 0; i < map_.variables().size(); ++i) {
      names_.emplace(map_.variables()[i]->name, named(fmt::format("i{}", i)));
    }
    std::string elements;
    for (const SymbolicMap::Element& element : map_.elements()) {
      const std::vector<int>& on_host = instruction.op().on_host;
      if (std::ranges::find(on_host, element.operand) != on_host.end()) {
        reason = "the host knows an index that the kernel reads";
        return;
      }
      const std::string name = fmt::format("e{}", names_.size());
      elements += fmt::format("    const i64 {} = (i64)load({});\n", name,
                              address(element.operand, element.from, true));
      names_.emplace(element.symbol->name, named(name));
      found_.push_back(element.symbol->name);
    }
    std::string reads;
    bool covered = false;
    for (const SymbolicMap::Read& read : map_.reads()) {
      std::string condition;
      for (const Dim& limit : read.conditions) {
        condition += fmt::format("{}{} >= 0", condition.empty() ? "" : " && ", print(limit));
      }
      const std::string value =
          read.operand < 0 ? "T{}"
                           : fmt::format("load({})", address(read.operand, read.from, false));
      covered = condition.empty();
      reads += covered ? fmt::format("value = {};\n", value)
                       : fmt::format("if ({}) value = {};\n    else ", condition, value);
      if (covered) break;
    }
    if (!covered) reads += "value = T{};\n";
    if (!reason.empty()) return;
    text = source(raw_name(element_bytes(type.element)), elements, reads);
  }

  std::string text;
  std::string reason;             // why there is no text
  std::vector<size_t> operands;   // that are read
  std::vector<Binding> bindings;  // of the symbols
  size_t rank() const { return rank_; }

 private:
  static Dim named(std::string name) {
    return SymbolRef(std::make_shared<const Symbol>(
        Symbol{std::move(name), SymbolKind::bound, {-kUnbounded, kUnbounded}, {}}));
  }

  std::string print(const Dim& dim) {
    std::vector<SymbolRef> symbols;
    dim.collect_symbols(symbols);
    for (const SymbolRef& symbol : symbols) {
      if (names_.contains(symbol->name)) continue;
      const auto binding = find_binding(instruction_, symbol->name);
      if (!binding) {
        reason = fmt::format("'{}' is not a size of an operand", symbol->name);
        return "0";
      }
      names_.emplace(symbol->name, named(fmt::format("n{}", bindings.size())));
      bindings.push_back(*binding);
    }
    return fmt::format("({})", dim.substitute(names_).to_string());
  }

  bool depends_on_elements(const Dim& dim) const {
    std::vector<SymbolRef> symbols;
    dim.collect_symbols(symbols);
    return std::ranges::any_of(symbols, [&](const SymbolRef& symbol) {
      return std::ranges::find(found_, symbol->name) != found_.end();
    });
  }

  // Indices that come from data stay inside the operand.
  std::string address(int operand, const SymbolicMap::Coordinates& from, bool typed) {
    const auto at = static_cast<size_t>(operand);
    if (std::ranges::find(operands, at) == operands.end()) operands.push_back(at);
    const ElementType type = instruction_.operands()[at]->type().element;
    if (type_name(type).empty() && typed) reason = "an index has no type";
    std::string out =
        fmt::format("({} *)a.p{}",
                    typed ? fmt::format("const {}", type_name(type)) : std::string("const T"), at);
    for (size_t axis = 0; axis < from.size(); ++axis) {
      std::string index = print(from[axis]);
      if (depends_on_elements(from[axis])) {
        index = fmt::format("min(max({}, 0), a.e{}[{}] - 1)", index, at, axis);
      }
      out += fmt::format(" + {} * a.s{}[{}]", index, at, axis);
    }
    return out;
  }

  std::string source(std::string_view type, const std::string& elements, const std::string& reads) {
    std::string members;
    for (const size_t operand : operands) {
      const auto rank =
          static_cast<size_t>(std::max(instruction_.operands()[operand]->type().rank(), 1));
      members +=
          fmt::format("  const void *p{0};\n  i64 s{0}[{1}];\n  i64 e{0}[{1}];\n", operand, rank);
    }
    std::string symbols;
    for (size_t i = 0; i < bindings.size(); ++i) {
      members += fmt::format("  i64 n{};\n", i);
      symbols += fmt::format("  const i64 n{0} = a.n{0};\n", i);
    }
    std::string indices;
    for (size_t axis = rank_; axis-- > 0;) {
      indices += axis > 0 ? fmt::format(
                                "    const i64 r{0} = small ? (i64)((u32)r{1} / "
                                "(u32)a.sizes[{0}]) : r{1} / a.sizes[{0}];\n"
                                "    const i64 i{0} = r{1} - r{0} * a.sizes[{0}];\n",
                                axis, axis + 1)
                          : "    const i64 i0 = r1;\n";
    }
    std::string target = "a.y";
    for (size_t axis = 0; axis < rank_; ++axis) {
      target += fmt::format(" + i{0} * a.sy[{0}]", axis);
    }
    return fmt::format(
        "{7}typedef {0} T;\nstruct Arguments {{\n  i64 count;\n  i64 sizes[{1}];\n  T *y;\n"
        "  i64 sy[{1}];\n{2}}};\n"
        "DEVICE i64 least_of(i64 x, i64 y) {{ return x < y ? x : y; }}\n"
        "DEVICE i64 most_of(i64 x, i64 y) {{ return x < y ? y : x; }}\n"
        "DEVICE i64 least_of(i64 x, i64 y, i64 z) {{ return least_of(least_of(x, y), z); }}\n"
        "DEVICE i64 most_of(i64 x, i64 y, i64 z) {{ return most_of(most_of(x, y), z); }}\n"
        "DEVICE i64 least_of(i64 x, i64 y, i64 z, i64 w) {{ return least_of(least_of(x, y), "
        "least_of(z, w)); }}\n"
        "DEVICE i64 most_of(i64 x, i64 y, i64 z, i64 w) {{ return most_of(most_of(x, y), "
        "most_of(z, w)); }}\n"
        "#define min(...) least_of(__VA_ARGS__)\n#define max(...) most_of(__VA_ARGS__)\n"
        "DEVICE i64 mod(i64 x, i64 y) {{ return floor_mod(x, y); }}\n"
        "DEVICE i64 ceil_div(i64 x, i64 y) {{ return -floor_div(-x, y); }}\n"
        "DEVICE i64 bcast(i64 x, i64 y) {{ return x == 1 ? y : x; }}\n"
        "KERNEL(map_elements, Arguments, 256) {{\n  const bool small = a.count >> 32 == 0;\n{3}"
        "  for (i64 i = (i64)block_x() * thread_count() + thread_index(); i < a.count;\n"
        "       i += (i64)grid_x() * thread_count()) {{\n    const i64 r{1} = i;\n{4}{5}"
        "    T value;\n    {6}    store({8}, value);\n  }}\n}}\n",
        type, rank_, members, symbols, indices, elements, reads,
        type == "Pair" ? "struct Pair { u64 of[2]; };\n" : "", target);
  }

  const Instruction& instruction_;
  SymbolicMap map_;
  size_t rank_ = 1;
  std::map<std::string, Dim, std::less<>> names_;
  std::vector<std::string> found_;  // symbols of elements
};

class MapKernel final : public GpuKernel {
 public:
  MapKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)) {
    for (size_t i = 0; i < instruction.results().size(); ++i) {
      const MapSource source(instruction, static_cast<int>(i));
      Part& part = parts_.emplace_back();
      part.operands = source.operands;
      for (const size_t operand : part.operands) {
        part.ranks.push_back(
            static_cast<size_t>(std::max(instruction.operands()[operand]->type().rank(), 1)));
      }
      part.bindings = source.bindings;
      part.rank = source.rank();
      part.code = device.code().get({"map_elements", source.text});
    }
  }

  void launch(const LaunchArgs& args) const override {
    for (size_t i = 0; i < parts_.size(); ++i) run(args, parts_[i], *args.out[i]);
  }

 private:
  struct Part {
    std::shared_ptr<const Code> code;
    std::vector<size_t> operands;
    std::vector<size_t> ranks;
    std::vector<Binding> bindings;
    size_t rank = 1;
  };

  void run(const LaunchArgs& args, const Part& part, const TensorView& y) const {
    const int64_t count = y.count();
    if (count == 0) return;
    const auto own_rank = static_cast<size_t>(y.rank);
    Arguments arguments;
    arguments.add(count);
    arguments.add(y.extents(), part.rank, 1);
    arguments.add(y.data);
    arguments.add(std::span(y.strides).first(own_rank), part.rank);
    for (size_t i = 0; i < part.operands.size(); ++i) {
      const TensorView& x = *args.in[part.operands[i]];
      arguments.add(x.data);
      arguments.add(std::span(x.strides).first(static_cast<size_t>(x.rank)), part.ranks[i]);
      arguments.add(x.extents(), part.ranks[i], 1);
    }
    for (const Binding& binding : part.bindings) {
      const TensorView& view = binding.result ? *args.out[binding.index] : *args.in[binding.index];
      arguments.add(view.dims[binding.axis]);
    }
    enqueue(*part.code, args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
  }

  std::vector<Part> parts_;
};

std::string why_no_map(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  for (size_t i = 0; i < instruction.results().size() && reason.empty(); ++i) {
    reason = MapSource(instruction, static_cast<int>(i)).reason;
  }
  return reason;
}

KernelChoice make_map(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<MapKernel>(device, instruction), ""};
}

// The elements of operand 0 in row-major order, axes permuted first.
class ReshapeKernel final : public GpuKernel {
 public:
  ReshapeKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)), copier_(device) {
    if (instruction.op() == ops::transpose) {
      const InstructionReader reader(instruction);
      const int rank = instruction.operands()[0]->type().rank();
      if (reader.has_attribute("permutation") && !reader.integers("permutation").empty()) {
        permutation_ = reader.integers("permutation");
      } else {
        for (int axis = rank; axis-- > 0;) permutation_.push_back(axis);
      }
    }
  }
  void launch(const LaunchArgs& args) const override {
    TensorView from = *args.in[0];
    if (!permutation_.empty()) from = permuted(from, permutation_);
    copier_.copy(*args.stream, from, *args.out[0]);
  }

 private:
  Integers permutation_;
  ElementCopier copier_;
};

KernelChoice make_reshape(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<ReshapeKernel>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kMovements[];
extern const size_t kMovementCount;
const KernelEntry kMovements[] = {
    {ops::concat, why_no_map, make_map},
    {ops::expand, why_no_map, make_map},
    {ops::gather, why_no_map, make_map},
    {ops::gather_nd, why_no_map, make_map},
    {ops::pad, why_no_map, make_map},
    {ops::slice, why_no_map, make_map},
    {ops::split, why_no_map, make_map},
    {ops::tile, why_no_map, make_map},
    {ops::identity, why_no_types, make_reshape},
    {ops::refine, why_no_types, make_reshape},
    {ops::reshape, why_no_types, make_reshape},
    {ops::squeeze, why_no_types, make_reshape},
    {ops::transpose, why_no_types, make_reshape},
    {ops::unsqueeze, why_no_types, make_reshape},
};
const size_t kMovementCount = std::size(kMovements);

}  // namespace lathe::gpu
