// SPDX-License-Identifier: MIT
#include "tests/support/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/builder.h"
#include "tensor/convert.h"

namespace lathe::test {
namespace {

class Maker {
 public:
  Maker(Program& program, std::mt19937_64& random)
      : program_(program), random_(random), b_(program.main()) {}

  void add_inputs() {
    for (const char* name : {"n", "m"}) {
      symbols_.emplace_back(program_.add_symbol(name, SymbolKind::bound, {0, 6}));
    }
    const int count = number(1, 3);
    for (int i = 0; i < count; ++i) {
      std::vector<Dim> dims;
      for (int rank = number(0, 4); rank > 0; --rank) dims.push_back(size());
      values_.push_back(
          {program_.main().add_parameter(Type::tensor(ElementType::f32, std::move(dims)),
                                         fmt::format("x{}", i)),
           true});
    }
  }

  // A step that inference refuses adds nothing.
  void add_step() {
    using Step = void (Maker::*)();
    static constexpr Step kSteps[] = {
        &Maker::unary,        &Maker::unary,       &Maker::binary,   &Maker::binary,
        &Maker::binary,       &Maker::rounding,    &Maker::reduce,   &Maker::rows,
        &Maker::rows,         &Maker::product,     &Maker::product,  &Maker::pooled,
        &Maker::moved,        &Maker::moved,       &Maker::reshaped, &Maker::attention,
        &Maker::convolution,  &Maker::convolution, &Maker::cut,      &Maker::joined,
        &Maker::through_half,
    };
    value_ = pick(values_);
    try {
      (this->*kSteps[random_() % std::size(kSteps)])();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
    }
  }

  void set_results() {
    std::vector<Value*> results;
    std::vector<std::string> names;
    for (const auto& [value, exact] : values_) {
      if (value->definition() == nullptr || !value->uses().empty()) continue;
      results.push_back(value);
      names.push_back(fmt::format("y{}", names.size()));
    }
    if (results.empty()) {
      results.push_back(values_.back().value);
      names.emplace_back("y");
    }
    program_.main().set_results(std::move(results), std::move(names));
  }

 private:
  struct Made {
    Value* value;
    bool exact;  // the same bits wherever it is computed
  };

  bool chance(int percent) { return random_() % 100 < static_cast<uint64_t>(percent); }
  int number(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  template <class List>
  auto pick(const List& list) -> std::remove_cvref_t<decltype(*std::begin(list))> {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(random_() % std::size(list)));
  }
  Dim size() {
    static constexpr int kSizes[] = {1, 2, 3, 4, 8, 16, 17};
    return chance(45) ? Dim(pick(symbols_)) : Dim(pick(kSizes));
  }
  void keep(Value* value, bool exact) {
    constexpr int64_t kLargest = 20'000;  // elements
    if (element_count(*value->type().dims).range().max > kLargest) return;
    values_.push_back({value, exact});
  }
  void keep(Value* value) { keep(value, value_.exact); }

  Value* x() const { return value_.value; }
  int rank() const { return x()->type().rank(); }
  const Dim& dim(int axis) const { return (*x()->type().dims)[static_cast<size_t>(axis)]; }
  int axis() { return number(0, std::max(rank() - 1, 0)); }
  std::optional<int64_t> constant(int from_end) const {
    return rank() < from_end ? std::nullopt : dim(rank() - from_end).constant();
  }
  Value* weights(Dims dims, double scale = 0.5) {
    Tensor tensor(ElementType::f32, std::move(dims));
    std::normal_distribution<float> normal(0, static_cast<float>(scale));
    for (float& value : tensor.elements<float>()) value = normal(random_);
    return b_.literal(std::move(tensor));
  }

  void unary() {
    static constexpr std::string_view kOps[] = {"relu",
                                                "sigmoid",
                                                "tanh",
                                                "gelu",
                                                "erf",
                                                "softplus",
                                                "softsign",
                                                "elu",
                                                "selu",
                                                "celu",
                                                "leaky_relu",
                                                "abs",
                                                "neg",
                                                "hard_sigmoid",
                                                "hard_swish",
                                                "mish",
                                                "swish",
                                                "sin",
                                                "cos",
                                                "atan",
                                                "identity",
                                                "asinh",
                                                "global_average_pool"};
    keep(b_(pick(kOps), {x()}), false);
  }

  void binary() {
    static constexpr std::string_view kOps[] = {"add", "sub", "mul", "min", "max"};
    Value* other = pick(values_).value;
    if (chance(30)) other = weights({});
    if (chance(30) && constant(1)) other = weights({*constant(1)});
    if (chance(15) && constant(2)) other = weights({*constant(2), 1});
    keep(chance(50) ? b_(pick(kOps), {x(), other}) : b_(pick(kOps), {other, x()}), false);
  }

  // Functions that jump, of values that are the same everywhere.
  void rounding() {
    if (!value_.exact) return;
    static constexpr std::string_view kOps[] = {"floor", "ceil", "round", "sign"};
    static constexpr std::string_view kTests[] = {"less", "greater", "less_or_equal", "equal"};
    if (chance(50)) return keep(b_(pick(kOps), {x()}));
    Value* test = b_(pick(kTests), {x(), weights({})});
    const Made other = pick(values_);
    keep(b_("where", {test, x(), other.value}), other.exact);
  }

  void reduce() {
    static constexpr std::string_view kOps[] = {"reduce_sum",       "reduce_mean", "reduce_max",
                                                "reduce_min",       "reduce_l1",   "reduce_l2",
                                                "reduce_sum_square"};
    std::vector<int64_t> axes = {axis()};
    if (const int more = axis(); more != axes[0] && chance(40)) axes.push_back(more);
    keep(b_(pick(kOps), {x(), b_.integers(axes)}, {{"keep_dims", chance(60)}}), false);
  }

  void rows() {
    const int along = rank() > 0 && chance(70) ? rank() - 1 : axis();
    if (chance(40)) {
      return keep(b_(chance(70) ? "softmax" : "log_softmax", {x()}, {{"axis", along}}), false);
    }
    if (rank() > 0 && chance(20)) {
      return keep(b_("cumsum", {x(), b_.scalar(ElementType::i64, along)}), false);
    }
    if (!constant(1)) return;
    Value* scale = weights({*constant(1)});
    if (chance(40)) {
      return keep(b_("rms_normalization", {x(), scale}, {{"epsilon", 0.01}}), false);
    }
    // Without a bias, rows of equal elements leave nothing but rounding.
    keep(b_("layer_normalization", {x(), scale, weights({*constant(1)})}, {{"epsilon", 0.01}}),
         false);
  }

  void product() {
    if (!constant(1)) return;
    static constexpr int64_t kColumns[] = {1, 2, 5, 8, 16, 31};
    Value* y = b_("matmul", {x(), weights({*constant(1), pick(kColumns)}, 0.3)});
    if (chance(50)) y = b_("add", {y, weights({(*y->type().dims).back().constant().value()})});
    keep(y, false);
  }

  // softmax(x·xᵀ)·x over the last two axes.
  void attention() {
    if (rank() < 2) return;
    std::vector<int64_t> order(static_cast<size_t>(rank()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    Value* scores = b_("matmul", {x(), b_.transpose(x(), order)});
    if (chance(70)) scores = b_("mul", {scores, b_.scalar(ElementType::f32, 0.25)});
    keep(b_("matmul", {b_("softmax", {scores}, {{"axis", -1}}), x()}), false);
  }

  void convolution() {
    if (rank() < 3 || !dim(1).constant() || *dim(1).constant() < 1) return;
    const int64_t channels = *dim(1).constant();
    const int64_t groups = chance(40) ? channels : 1;
    Dims dims = {groups == 1 ? number(1, 17) : channels, channels / groups};
    Integers pads, strides, dilations;
    const int spatial = rank() - 2;
    for (int i = 0; i < spatial; ++i) {
      dims.push_back(number(1, 3));
      strides.push_back(chance(70) ? 1 : 2);
      dilations.push_back(chance(80) ? 1 : 2);
    }
    for (int i = 0; i < 2 * spatial; ++i) pads.push_back(number(0, 2));
    const bool biased = chance(50);
    Value* w = weights(dims, 0.3);
    keep(b_("conv", {x(), w, biased ? weights({dims[0]}) : nullptr},
            {{"group", groups}, {"pads", pads}, {"strides", strides}, {"dilations", dilations}}),
         false);
  }

  void pooled() {
    if (rank() < 3) return;
    Integers kernel, strides;
    for (int i = 2; i < rank(); ++i) {
      kernel.push_back(number(1, 3));
      strides.push_back(number(1, 2));
    }
    const bool maximum = chance(50);
    keep(b_.add(maximum ? "max_pool" : "average_pool", {x()},
                {{"kernel_shape", kernel}, {"strides", strides}})
             ->result(),
         maximum && value_.exact);
  }

  void moved() {
    std::vector<int64_t> order(static_cast<size_t>(rank()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    if (chance(60)) {
      std::ranges::shuffle(order, random_);
      return keep(b_.transpose(x(), order));
    }
    if (chance(50)) return keep(b_("unsqueeze", {x(), b_.integers({number(0, rank())})}));
    std::vector<int64_t> pads(2 * order.size());
    for (int64_t& pad : pads) pad = number(0, 2);
    // An empty axis has no edge.
    const bool fixed = std::ranges::all_of(
        *x()->type().dims, [](const Dim& dim) { return dim.constant().value_or(0) > 0; });
    const char* mode = fixed && chance(30) ? "edge" : "constant";
    keep(b_("pad", {x(), b_.integers(pads)}, {{"mode", mode}}));
  }

  // Joins two neighbouring axes, or splits one.
  void reshaped() {
    if (rank() < 1) return;
    std::vector<Dim> dims = *x()->type().dims;
    const auto at = static_cast<std::ptrdiff_t>(axis());
    const auto own = dims[static_cast<size_t>(at)];
    if (own.constant() && *own.constant() % 2 == 0 && *own.constant() > 0 && chance(50)) {
      dims[static_cast<size_t>(at)] = 2;
      dims.insert(dims.begin() + at + 1, Dim(*own.constant() / 2));
    } else if (at + 1 < rank()) {
      dims[static_cast<size_t>(at)] = own * dims[static_cast<size_t>(at) + 1];
      dims.erase(dims.begin() + at + 1);
    }
    keep(b_.reshape(x(), dims));
  }

  void cut() {
    if (rank() < 1) return;
    const int along = axis();
    if (chance(60)) {
      static constexpr int64_t kRanges[][3] = {{0, 2, 1},   {1, 100, 1},    {-2, 100, 1},
                                               {0, 100, 2}, {-1, -100, -1}, {3, 0, -2}};
      const auto& [begin, end, step] = kRanges[random_() % std::size(kRanges)];
      return keep(b_("slice", {x(), b_.integers({begin}), b_.integers({end}), b_.integers({along}),
                               b_.integers({step})}));
    }
    const std::optional<int64_t> extent = dim(along).constant();
    if (!extent || *extent == 0) return;
    std::vector<int64_t> places(static_cast<size_t>(number(1, 4)));
    for (int64_t& place : places) place = number(0, static_cast<int>(*extent) - 1);
    keep(b_("gather", {x(), b_.integers(places)}, {{"axis", along}}));
  }

  void joined() {
    if (chance(40)) {
      std::vector<Dim> dims = *x()->type().dims;
      dims.insert(dims.begin(), Dim(2));
      return keep(b_.expand(x(), dims));
    }
    const Made other = pick(values_);
    keep(b_("concat", {x(), other.value}, {{"axis", axis()}}), value_.exact && other.exact);
  }

  // Stored in 16 bits where that changes no bit.
  void through_half() {
    if (!value_.exact) return;
    Value* half = b_.cast(x(), chance(50) ? ElementType::f16 : ElementType::bf16);
    keep(b_.cast(half, ElementType::f32));
  }

  Program& program_;
  std::mt19937_64& random_;
  Builder b_;
  std::vector<SymbolRef> symbols_;
  std::vector<Made> values_;
  Made value_{};
};

}  // namespace

std::unique_ptr<Program> make_random_program(std::mt19937_64& random) {
  auto program = std::make_unique<Program>();
  Maker maker(*program, random);
  maker.add_inputs();
  for (uint64_t steps = 3 + random() % 14; steps > 0; --steps) maker.add_step();
  maker.set_results();
  return program;
}

}  // namespace lathe::test
