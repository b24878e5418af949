// SPDX-License-Identifier: MIT
// Products of matrices, with their epilogues, by a library or the portable kernel.
#include <algorithm>
#include <bit>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "targets/gpu/rows_prologue.h"
#include "targets/gpu/tiled_kernel.h"

namespace lathe::gpu {
namespace {

std::string number(double value, ElementType type) {
  if (type == ElementType::f64) {
    return fmt::format("double_of({:#x}ULL)", std::bit_cast<uint64_t>(value));
  }
  if (!is_floating(type)) return fmt::format("(i64){}", static_cast<int64_t>(value));
  return fmt::format("float_of({:#x}U)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

class GemmKernel final : public TiledKernel {
 public:
  // `is_twin`: of the kernel of another product, which needs it for many rows.
  GemmKernel(const GpuDevice& device, const Instruction& instruction, Constants constants,
             bool is_twin = false)
      : TiledKernel(device, instruction), prologue_(device, whole_), is_twin_(is_twin) {
    const Instruction& anchor = whole_.anchor();
    std::string first;
    std::vector<size_t> added;
    double beta = 1;
    if (anchor.op() == ops::gemm) {
      const InstructionReader reader(anchor);
      trans_a_ = reader.boolean("trans_a");
      trans_b_ = reader.boolean("trans_b");
      const ElementType type = anchor.result()->type().element;
      alpha_ = reader.number("alpha");
      beta = reader.number("beta");
      if (alpha_ != 1) first += fmt::format("  v = v * {};\n", number(alpha_, type));
      if (reader.has(2)) {
        const size_t side = whole_.add_side(whole_.operand(2));
        first += beta == 1 ? fmt::format("  v = v + x{};\n", side)
                           : fmt::format("  v = v + x{} * {};\n", side, number(beta, type));
        added.push_back(side);
      }
    }
    const ElementType type = whole_.type().element;
    const auto has_type = [&](size_t i) { return anchor.operands()[i]->type().element == type; };
    by_library_ = CublasLt::computes(type) && has_type(0) && has_type(1) &&
                  device.libraries().cublaslt() != nullptr;
    if (by_library_) {
      epilogue_ = library_epilogue(whole_, whole_.type().rank() - 1, added);
      epilogue_.complete = epilogue_.complete && beta == 1;
    }
    make_code(false, false, first);
    const auto is_constant = [&](int operand) {
      return operand < 0 || constants[static_cast<size_t>(operand)] != nullptr;
    };
    // A decoder's, of one row after the prompt.
    make_few(first, rows_vary(whole_.type()) && is_constant(whole_.operand(1)));
    overlaps_ = is_constant(whole_.operand(1)) && prologue_.is_constant(constants);
    if (whole_.twin() == nullptr) return;
    overlaps_ = overlaps_ && is_constant(whole_.twin_operand(1));
    constexpr std::array<const Tensor*, 3> kNone{};
    twin_ = std::make_unique<GemmKernel>(device, *whole_.twin(), kNone, true);
  }
  // The product's; then, where there are many rows, normalised rows and the twin's value.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const auto rows = most.in[static_cast<size_t>(whole_.operand(0))];
    const int64_t normalised = whole_.norm() == nullptr ? 0 : bytes_of(*rows);
    const int64_t twin = twin_ == nullptr ? 0 : bytes_of(*most.out[0]);
    return product_bytes() + normalised + twin;
  }
  std::string detail() const override { return by_library_ ? "cuBLASLt" : ""; }

  void launch(const LaunchArgs& args) const override {
    if (args.out[0]->count() == 0) return;
    const TensorView& rows = *args.in[static_cast<size_t>(whole_.operand(0))];
    const TensorView* twin =
        twin_ == nullptr ? nullptr : args.in[static_cast<size_t>(whole_.twin_operand(1))];
    if (const Setup own = setup(args, rows, nullptr); takes_few(own, twin)) {
      return run_few(args, own, twin);
    }
    auto* place = static_cast<std::byte*>(args.workspace) + product_bytes();
    TensorView a = rows;
    if (whole_.norm() != nullptr) {
      a = dense_view(rows.type, rows.extents(), place);
      place += bytes_of(rows);
      prologue_.normalise(args, rows, a);
    }
    if (twin == nullptr) return run_many(args, setup(args, a, nullptr));
    TensorView value = dense_view(args.out[0]->type, args.out[0]->extents(), place);
    const TensorView* const in[] = {&a, twin};
    TensorView* const out[] = {&value};
    LaunchArgs inner = args;
    inner.in = in;
    inner.out = out;
    twin_->launch(inner);
    run_many(args, setup(args, a, &value));
  }

 private:
  // A launch's operands over the rows and columns of the result.
  struct Setup {
    Problem problem;
    std::vector<Place> places;  // a, b, the result, sides, the value of the twin
    int64_t a_depth = 0;
    int64_t b_depth = 0;
  };

  static int64_t bytes_of(const TensorView& view) {
    constexpr int64_t kAlignment = 256;
    return (bytes_for(view.type, view.count()) + kAlignment - 1) / kAlignment * kAlignment;
  }
  int64_t product_bytes() const {
    return by_library_ ? std::max(partial_bytes(), CublasLt::kWorkspaceBytes) : partial_bytes();
  }

  Setup setup(const LaunchArgs& args, TensorView a, const TensorView* twin) const {
    TensorView b = *args.in[static_cast<size_t>(whole_.operand(1))];
    const TensorView& y = *args.out[0];
    if (trans_a_) swap_last(a);
    if (trans_b_) swap_last(b);
    const int rank = y.rank;
    const auto last = static_cast<size_t>(rank - 1);
    std::vector<std::array<int64_t, kMaxRank>> strides{strides_over(a, rank), strides_over(b, rank),
                                                       strides_over(y, rank)};
    Setup out;
    out.a_depth = a.strides[a.rank - 1];
    out.b_depth = b.strides[b.rank - 2];
    Problem& problem = out.problem;
    std::vector<Place>& places = out.places;
    places.resize(3);
    places[0].data = a.data;
    places[1].data = b.data;
    places[2].data = y.data;
    const auto add_side = [&](const TensorView& view) {
      strides.push_back(strides_over(view, rank));
      places.emplace_back().data = view.data;
    };
    for (const int side : whole_.sides()) add_side(*args.in[static_cast<size_t>(side)]);
    if (twin != nullptr) add_side(*twin);
    problem.m = y.dims[last - 1];
    problem.n = y.dims[last];
    problem.k = a.dims[a.rank - 1];
    // Rows of one B: batches become rows if those of A are at one stride.
    // A single row has no stride of its own: that of the axis before it serves.
    int64_t a_row = a.strides[a.rank - 2];
    for (size_t axis = last - 1; problem.m == 1 && axis-- > 0;) {
      if (y.dims[axis] == 1) continue;
      a_row = strides[0][axis];
      break;
    }
    bool one = true;
    int64_t expected = a_row * problem.m;
    size_t row_axes = 1;
    for (size_t axis = last - 1; axis-- > 0;) {
      if (y.dims[axis] == 1) continue;
      one = one && strides[1][axis] == 0 && strides[0][axis] == expected;
      expected *= y.dims[axis];
      ++row_axes;
    }
    one = one && row_axes <= kRowAxes;
    problem.row_rank = 0;
    for (size_t axis = 0; axis + 1 < last; ++axis) {
      if (y.dims[axis] == 1) continue;
      if (one) {
        add_row(problem, places, strides, axis, y.dims[axis]);
      } else {
        const auto at = static_cast<size_t>(problem.batch_rank++);
        problem.batch_sizes[at] = y.dims[axis];
        problem.batches *= y.dims[axis];
        for (size_t i = 0; i < places.size(); ++i) places[i].batch[at] = strides[i][axis];
      }
    }
    add_row(problem, places, strides, last - 1, problem.m);
    problem.m = 1;
    for (int64_t i = 0; i < problem.row_rank; ++i)
      problem.m *= problem.row_sizes[static_cast<size_t>(i)];
    places[0].row = {a_row};
    for (size_t i = 2; i < places.size(); ++i) places[i].column = strides[i][last];
    places[1].column = b.strides[b.rank - 1];
    return out;
  }

  static Arguments arguments_of(const Setup& setup) {
    Arguments arguments;
    setup.problem.append_to(arguments);
    setup.places[0].append_to(arguments);
    arguments.add(setup.a_depth);
    setup.places[1].append_to(arguments);
    arguments.add(setup.b_depth);
    setup.places[2].append_to(arguments);
    for (size_t i = 0; i < kWindowAxes * 7 + 3; ++i) arguments.add(int64_t{0});  // windows
    for (size_t i = 3; i < setup.places.size(); ++i) setup.places[i].append_to(arguments);
    return arguments;
  }
  void run_few(const LaunchArgs& args, const Setup& setup, const TensorView* twin) const {
    Arguments arguments = arguments_of(setup);
    if (twin != nullptr) {
      Place{.data = twin->data, .column = twin->strides[1]}.append_to(arguments);
    }
    prologue_.append_to(arguments, args);
    const int64_t m = setup.problem.m;
    const bool whole = lies_whole(setup.places[0].data, setup.a_depth, setup.problem.k) &&
                       prologue_.lies_whole(args);
    const Few& code = *few_[m > 1 ? 1 : whole ? 0 : 2];
    enqueue(code.code.get(), args, arguments, code.shape.grid(m, setup.problem.n), kThreads,
            overlaps_ ? Overlap::product : Overlap::none);
  }
  void run_many(const LaunchArgs& args, Setup setup) const {
    const bool summed = by_library_ && run_library(args, setup);
    if (summed && epilogue_.complete) return;
    if (!summed) split(setup.problem, args.workspace);
    const Arguments arguments = arguments_of(setup);
    if (summed) {
      return run_epilogue(args, setup.problem, arguments, std::span(setup.places).subspan(2));
    }
    run(args, setup.problem, arguments);
  }

  // Few rows, if the columns of the weights and their depth are known.
  struct Few {
    FewRows shape;
    LazyCode code;
  };
  static constexpr int64_t kPieceBytes = 16;

  void make_few(const std::string& first, bool expected) {
    const Instruction& anchor = whole_.anchor();
    const Type& a = anchor.operands()[0]->type();
    const ElementType type = a.element;
    const bool fits =
        type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
    const std::optional<int64_t> n = whole_.type().dims->back().constant();
    const std::optional<int64_t> k =
        (*a.dims)[static_cast<size_t>(a.rank() - (trans_a_ ? 2 : 1))].constant();
    if (!fits || anchor.operands()[1]->type().element != type || !n || !k || *k == 0) return;
    elements_ = kPieceBytes * 8 / info(type).bits;
    constexpr int64_t kMostAhead = 8;
    const FewRowsProblem problem{.n = *n,
                                 .depth = *k,
                                 .bits = info(type).bits,
                                 .piece = elements_,
                                 .ahead = kMostAhead,
                                 .products = whole_.twin() == nullptr ? 1 : 2,
                                 .norm_threads = prologue_.threads()};
    constexpr int64_t kLarge = 1 << 20;
    // Else it is compiled when it is first needed.
    const bool large = !is_twin_ && *n * *k >= kLarge;
    const bool whole = lies_whole(nullptr, 1, *k);
    for (size_t i = 0; i < few_.size(); ++i) {
      if (i == 1 && by_library_) continue;
      FewRows shape =
          few_rows(i == 1 ? kManyRows : 1, problem, device_.driver().limits().multiprocessors);
      shape.whole = i == 0;
      few_[i].reset(new Few{
          shape,
          {device_, product_source(whole_, {.norm = prologue_.text(), .few = &shape}, first),
           large && (i == 1 || shape.whole == whole)}});
      const bool of_one = i != 1 && shape.whole == whole;
      if (expected && of_one && !large && *k % elements_ == 0) few_[i]->code.expect();
    }
  }
  bool takes_few(const Setup& setup, const TensorView* twin) const {
    // A library multiplies several rows by fragments.
    const int64_t most = by_library_ ? 1 : kManyRows;
    const Problem& problem = setup.problem;
    const auto fits = [&](int64_t column, int64_t depth, const void* data) {
      return depth == 1 && column % elements_ == 0 &&
             reinterpret_cast<uintptr_t>(data) % kPieceBytes == 0;
    };
    const Place& b = setup.places[1];
    return few_[0] != nullptr && problem.batches == 1 && problem.m <= most && setup.a_depth == 1 &&
           problem.k % elements_ == 0 && fits(b.column, setup.b_depth, b.data) &&
           (twin == nullptr || fits(twin->strides[1], twin->strides[0], twin->data));
  }
  bool run_library(const LaunchArgs& args, const Setup& setup) const {
    std::optional<LibraryProduct> product = library_product(
        setup.problem, setup.places, setup.a_depth, setup.b_depth, whole_.type().element);
    if (!product) return false;
    product->rows_vary = rows_vary(whole_.type());
    if (epilogue_.complete) {
      product->alpha = alpha_;
      const auto sides = std::span(setup.places).subspan(3);
      if (!add_epilogue(*product, epilogue_, setup.problem, sides)) return false;
    }
    return device_.libraries().cublaslt()->run(
        static_cast<GpuStream*>(args.stream)->handle_for_other(), *product, args.workspace);
  }
  static void swap_last(TensorView& view) {
    std::swap(view.dims[view.rank - 1], view.dims[view.rank - 2]);
    std::swap(view.strides[view.rank - 1], view.strides[view.rank - 2]);
  }
  static void add_row(Problem& problem, std::vector<Place>& places,
                      const std::vector<std::array<int64_t, kMaxRank>>& strides, size_t axis,
                      int64_t size) {
    const auto at = static_cast<size_t>(problem.row_rank++);
    problem.row_sizes[at] = size;
    for (size_t i = 0; i < places.size(); ++i) places[i].row[at] = strides[i][axis];
  }

  RowsPrologue prologue_;
  bool is_twin_;
  std::unique_ptr<const GemmKernel> twin_;
  // The kernels of one row, of several, of one that cannot be loaded in whole pieces.
  std::array<std::unique_ptr<Few>, 3> few_;
  int64_t elements_ = 0;   // of a piece
  bool overlaps_ = false;  // no launch writes its weights
  bool trans_a_ = false;
  bool trans_b_ = false;
  double alpha_ = 1;
};

}  // namespace

std::string why_no_gemm(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const std::string& compute = InstructionReader(instruction).text("compute_type");
  if (!compute.empty()) return fmt::format("compute_type {}", compute);
  for (size_t i = 0; i < 2; ++i) {
    const int rank = instruction.operands()[i]->type().rank();
    if (rank < 2) return "an operand is a vector";
  }
  if (instruction.result()->type().rank() > static_cast<int>(kBatchAxes) + 2) return "rank above 8";
  return instruction.result()->type().element == ElementType::boolean ? "booleans" : "";
}

std::unique_ptr<const Kernel> make_gemm(const GpuDevice& device, const Instruction& instruction,
                                        Constants constants) {
  return std::make_unique<GemmKernel>(device, instruction, constants);
}

}  // namespace lathe::gpu
