// SPDX-License-Identifier: MIT
// Products of matrices and convolutions, with their epilogues, by the portable kernel.
#include <algorithm>
#include <bit>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "ops/support/window.h"
#include "targets/gpu/anchor.h"
#include "targets/gpu/conv_library.h"
#include "targets/gpu/epilogue.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/few_rows.h"
#include "targets/gpu/gemm_problem.h"
#include "targets/gpu/rows_prologue.h"

namespace lathe::gpu {
namespace {

constexpr size_t kSpatial = 3;
constexpr int64_t kTile = 64;

// Strides of a view over the axes of a result that it broadcasts to.
std::array<int64_t, kMaxRank> strides_over(const TensorView& view, int rank) {
  std::array<int64_t, kMaxRank> out{};
  for (int axis = 0; axis < view.rank; ++axis) {
    out[static_cast<size_t>(axis + rank - view.rank)] =
        view.dims[axis] == 1 ? 0 : view.strides[axis];
  }
  return out;
}

// What the kernel's text computes.
struct Form {
  bool conv = false;
  bool direct = false;    // without tiles
  bool finish = false;    // adds partial sums
  bool in_place = false;  // reads the sums where the result lies
  std::string norm = "";  // of the rows: what the kernel of few rows takes for it
  const FewRows* few = nullptr;
  int threads = 0;  // of fragments; 0: none
};

// The text before the kernel.
std::string source_of(const Instruction& anchor, const Anchor& whole, Form form,
                      const std::string& first) {
  const ElementType result = whole.type().element;
  const std::string_view sum = type_name(compute_type(result));
  const std::string text = fmt::format(
      "typedef {} TA;\ntypedef {} TB;\ntypedef {} TY;\ntypedef {} ACC;\n#define CONV {}\n"
      "#define DIRECT {}\n#define FEW {}\n#define FRAGMENTS {}\n#define THREADS {}\n#define FINISH "
      "{}\n#define IN_PLACE {}\n#define TWIN {}\n#define SIDES {}\n",
      type_name(anchor.operands()[0]->type().element),
      type_name(anchor.operands()[1]->type().element), type_name(result), sum, form.conv ? 1 : 0,
      form.direct ? 1 : 0, form.few != nullptr ? 1 : 0, form.threads > 0 ? 1 : 0,
      form.few != nullptr ? static_cast<int>(kThreads) : form.threads, form.finish ? 1 : 0,
      form.in_place ? 1 : 0, whole.twin() != nullptr ? 1 : 0, whole.sides().size());
  const std::string kernel = whole.kernel_with("gemm.gpu", whole.epilogue_text(sum, first));
  if (form.threads > 0) {
    return text + "typedef TA T;\n" + std::string(kernel_text("fragments.gpu")) + kernel;
  }
  if (form.few == nullptr) return text + kernel;
  return text + "typedef TA T;\n#define BF16 0\n" + form.norm + form.few->text() + kernel;
}

std::string number(double value, ElementType type) {
  if (type == ElementType::f64) {
    return fmt::format("double_of({:#x}ULL)", std::bit_cast<uint64_t>(value));
  }
  if (!is_floating(type)) return fmt::format("(i64){}", static_cast<int64_t>(value));
  return fmt::format("float_of({:#x}U)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// Kernels in tiles. Few tiles split the depth over more blocks, whose sums a second launch adds.
class TiledKernel : public GpuKernel {
 public:
  bool uses_workspace() const override { return true; }

 protected:
  TiledKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, ""), whole_(instruction) {}

  void make_code(bool conv, bool direct, const std::string& first) {
    name_ += whole_.label();
    const Instruction& anchor = whole_.anchor();
    const auto source = [&](const Form& form) {
      return Source{"gemm", source_of(anchor, whole_, form, first)};
    };
    // Beside a library the portable kernel is rarely needed.
    const ElementType type = anchor.operands()[0]->type().element;
    const bool fragments = !direct && anchor.operands()[1]->type().element == type &&
                           compute_type(whole_.type().element) == ExprType::f32 &&
                           (type == ElementType::f16 || type == ElementType::bf16);
    if (fragments) threads_ = static_cast<uint32_t>(kTileWaves * device_.driver().limits().wave);
    code_.emplace(device_,
                  source({.conv = conv,
                          .direct = direct,
                          .threads = fragments ? static_cast<int>(threads_) : 0}),
                  !by_library_);
    finish_.emplace(device_, source({.conv = conv, .finish = true}), !by_library_ && !direct);
    const bool in_rows = RowsEpilogue::computes(whole_);
    const bool follows = by_library_ && !epilogue_.complete;
    epilogue_code_.emplace(device_, source({.conv = conv, .finish = true, .in_place = true}),
                           follows && !in_rows);
    if (in_rows) rows_epilogue_.emplace(device_, whole_, first, follows);
  }

  // Blocks that fill the device.
  int64_t wanted_blocks() const { return int64_t{2} * device_.driver().limits().multiprocessors; }
  int64_t partial_bytes() const {
    return wanted_blocks() * kTile * kTile * static_cast<int64_t>(sizeof(double));
  }

  void split(Problem& problem, void* workspace) const {
    constexpr int64_t kLeastDepth = 64;  // of a split, a multiple of a tile's
    const int64_t tiles = tiles_of(problem.m) * tiles_of(problem.n) * problem.batches;
    const int64_t wanted =
        std::min(wanted_blocks() / std::max<int64_t>(tiles, 1), problem.k / kLeastDepth);
    if (wanted < 2 || workspace == nullptr) return;
    constexpr int64_t kDepth = 16;
    const int64_t depth = (problem.k + wanted - 1) / wanted;
    problem.split_depth = (depth + kDepth - 1) / kDepth * kDepth;
    problem.splits = (problem.k + problem.split_depth - 1) / problem.split_depth;
    problem.partial = workspace;
  }

  void run(const LaunchArgs& args, const Problem& problem, const Arguments& arguments) const {
    enqueue(code_->get(), args, arguments,
            {static_cast<uint32_t>(tiles_of(problem.m)), static_cast<uint32_t>(tiles_of(problem.n)),
             static_cast<uint32_t>(problem.batches * problem.splits)},
            threads_);
    if (problem.splits == 1) return;
    const int64_t count = problem.batches * problem.m * problem.n;
    enqueue(finish_->get(), args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
  }

  // The epilogue over sums that lie in the result. `places`: of the result, sides, the twin's
  // value.
  void run_epilogue(const LaunchArgs& args, const Problem& problem, const Arguments& arguments,
                    std::span<const Place> places) const {
    if (rows_epilogue_) {
      if (const auto rows = rows_epilogue_->setup(problem, places)) {
        return enqueue(rows_epilogue_->code(), args, rows->arguments,
                       {blocks_for(rows->pieces, kThreads), 1, 1}, kThreads);
      }
    }
    const int64_t count = problem.batches * problem.m * problem.n;
    enqueue(epilogue_code_->get(), args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
  }

  static constexpr int kTileWaves = 4;  // of fragments
  Anchor whole_;
  uint32_t threads_ = kThreads;  // of a tile
  std::optional<LazyCode> code_;
  bool by_library_ = false;
  LibraryEpilogue epilogue_;

 private:
  std::optional<LazyCode> epilogue_code_;
  std::optional<RowsEpilogue> rows_epilogue_;
  static int64_t tiles_of(int64_t size) { return (size + kTile - 1) / kTile; }
  std::optional<LazyCode> finish_;
};

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
    make_few(first);
    const auto is_constant = [&](int operand) {
      return operand < 0 || constants[static_cast<size_t>(operand)] != nullptr;
    };
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
    for (size_t i = 0; i < kSpatial * 7 + 3; ++i) arguments.add(int64_t{0});  // windows
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

  void make_few(const std::string& first) {
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
          {device_,
           Source{"gemm",
                  source_of(anchor, whole_, {.norm = prologue_.text(), .few = &shape}, first)},
           large && (i == 1 || shape.whole == whole)}});
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

class ConvKernel final : public TiledKernel {
 public:
  ConvKernel(const GpuDevice& device, const Instruction& instruction, Constants constants)
      : TiledKernel(device, instruction),
        copier_(device),
        attributes_(InstructionReader(whole_.anchor()),
                    static_cast<size_t>(whole_.type().rank()) - 2),
        groups_(InstructionReader(whole_.anchor()).integer("group")) {
    const Instruction& anchor = whole_.anchor();
    std::string first;
    std::vector<size_t> added;
    if (InstructionReader(anchor).has(2)) {
      bias_ = whole_.operand(2);
      added.push_back(whole_.add_side(bias_));
      first = fmt::format("  v = v + x{};\n", added[0]);
    }
    const ElementType type = whole_.type().element;
    by_library_ = Cudnn::computes(type) && anchor.operands()[0]->type().element == type &&
                  anchor.operands()[1]->type().element == type &&
                  device.libraries().cudnn() != nullptr;
    if (by_library_) {
      library_.emplace(device_, whole_, bias_, added, attributes_, constants);
      epilogue_.complete = library_->complete();
    }
    // A tile has 64 columns.
    constexpr int64_t kFewChannels = 8;
    const std::optional<int64_t> channels = (*anchor.operands()[1]->type().dims)[0].constant();
    direct_ = groups_ > 1 && channels && *channels / groups_ < kFewChannels;
    make_code(true, direct_, first);
  }

  // After the partial sums: weights that are not dense.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const TensorView* w = most.in[static_cast<size_t>(whole_.operand(1))];
    const TensorView* x = most.in[static_cast<size_t>(whole_.operand(0))];
    const int64_t own =
        partial_bytes() + (w == nullptr || w->is_dense() ? 0 : bytes_for(w->type, w->count()));
    return by_library_ ? std::max(own, ConvLibrary::workspace_bytes(x, w)) : own;
  }
  std::string detail() const override { return by_library_ ? "cuDNN" : ""; }
  void expect(const LaunchArgs& args) const override {
    if (!by_library_ || args.out[0]->count() == 0) return;
    library_->expect(args, *args.in[static_cast<size_t>(whole_.operand(0))],
                     *args.in[static_cast<size_t>(whole_.operand(1))], attributes_);
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[static_cast<size_t>(whole_.operand(0))];
    TensorView w = *args.in[static_cast<size_t>(whole_.operand(1))];
    const TensorView& y = *args.out[0];
    if (y.count() == 0) return;
    bool summed = false;
    if (by_library_) {
      const auto way = library_->run(args, x, w, attributes_);
      if (way == ConvLibrary::Way::whole) return;
      summed = way == ConvLibrary::Way::sums;
    }
    if (!w.is_dense() && !summed) {
      const TensorView dense = dense_view(
          w.type, w.extents(), static_cast<std::byte*>(args.workspace) + partial_bytes());
      copier_.copy(*args.stream, w, dense);
      w = dense;
    }
    const auto spatial = static_cast<size_t>(y.rank - 2);
    std::array<WindowAxis, kSpatial> axes;
    window_axes(attributes_, x, y, w.extents().subspan(2), std::span(axes).first(spatial));
    Problem problem;
    problem.n = w.dims[0] / groups_;
    problem.batches = problem.batch_sizes[0] = groups_;
    problem.batch_rank = 1;
    problem.row_rank = kRowAxes;
    problem.row_sizes = {y.dims[0], 1, 1, 1};
    int64_t taps = 1;
    const size_t skipped = kSpatial - spatial;
    for (size_t i = 0; i < spatial; ++i) {
      problem.row_sizes[1 + skipped + i] = y.dims[i + 2];
      taps *= w.dims[i + 2];
    }
    problem.m = 1;
    for (const int64_t size : problem.row_sizes) problem.m *= size;
    problem.k = w.dims[1] * taps;
    if (!direct_ && !summed) split(problem, args.workspace);
    Place a{.data = x.data, .batch = {w.dims[1] * x.strides[1]}, .row = {x.strides[0]}};
    Place b{.data = w.data, .batch = {problem.n * w.strides[0]}, .column = w.strides[0]};
    Arguments arguments;
    problem.append_to(arguments);
    a.append_to(arguments);
    arguments.add(int64_t{0});
    b.append_to(arguments);
    arguments.add(int64_t{1});  // weights are dense
    std::vector<Place> places{place_of(y.data, strides_over(y, y.rank), problem, spatial)};
    places[0].append_to(arguments);
    for (size_t i = 0; i < kSpatial; ++i) {
      if (i < skipped) {
        for (const int64_t value : {1, 1, 1, 0, 0, 0, 1}) arguments.add(value);
        continue;
      }
      const WindowAxis& axis = axes[i - skipped];
      for (const int64_t value :
           {axis.input, axis.stride, axis.dilation, axis.pad_begin, x.strides[2 + i - skipped],
            w.strides[2 + i - skipped], axis.kernel}) {
        arguments.add(value);
      }
    }
    arguments.add(taps);
    arguments.add(x.strides[1]);
    arguments.add(w.strides[1]);
    for (const int side : whole_.sides()) {
      const TensorView& view = *args.in[static_cast<size_t>(side)];
      std::array<int64_t, kMaxRank> strides = strides_over(view, y.rank);
      // The bias is a vector of channels.
      if (side == bias_) {
        strides = {};
        strides[1] = view.dims[view.rank - 1] == 1 ? 0 : view.strides[view.rank - 1];
      }
      places.push_back(place_of(view.data, strides, problem, spatial));
      places.back().append_to(arguments);
    }
    if (summed) return run_epilogue(args, problem, arguments, places);
    if (direct_) {
      return enqueue(code_->get(), args, arguments, {blocks_for(y.count(), kThreads), 1, 1},
                     kThreads);
    }
    run(args, problem, arguments);
  }

 private:
  static Place place_of(void* data, const std::array<int64_t, kMaxRank>& strides,
                        const Problem& problem, size_t spatial) {
    Place place{
        .data = data, .batch = {problem.n * strides[1]}, .row = {strides[0]}, .column = strides[1]};
    for (size_t i = 0; i < spatial; ++i) {
      place.row[1 + kSpatial - spatial + i] = strides[2 + i];
    }
    return place;
  }

  ElementCopier copier_;
  WindowAttributes attributes_;
  std::optional<ConvLibrary> library_;
  int64_t groups_;
  int bias_ = -1;
  bool direct_ = false;
};

std::string why_no_region(const Instruction& region) {
  const std::string reason = why_no_anchored_region(region);
  return reason.empty() ? "" : why_no_elementwise_region(region);
}

KernelChoice make_plain(const GpuDevice& device, const Instruction& instruction,
                        Constants constants) {
  return make_anchored(device, instruction, constants);
}

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

std::string why_no_conv(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const int rank = instruction.result()->type().rank();
  return rank < 3 || rank > 5 ? fmt::format("{} spatial axes", rank - 2) : "";
}

KernelChoice make_anchored(const GpuDevice& device, const Instruction& instruction,
                           Constants constants) {
  const Anchor anchor(instruction);
  if (anchor.anchor().op() == ops::conv) {
    return {std::make_unique<ConvKernel>(device, instruction, constants), ""};
  }
  if (anchor.anchor().op() == ops::matmul_n_bits)
    return {make_n_bits(device, instruction, constants), ""};
  return {std::make_unique<GemmKernel>(device, instruction, constants), ""};
}

extern const KernelEntry kAnchors[];
extern const size_t kAnchorCount;
const KernelEntry kAnchors[] = {
    {ops::matmul, why_no_gemm, make_plain},
    {ops::gemm, why_no_gemm, make_plain},
    {ops::conv, why_no_conv, make_plain},
};
const size_t kAnchorCount = std::size(kAnchors);

extern const KernelEntry kElementwise;
extern const KernelEntry kRegion;
const KernelEntry kRegion{
    ops::region, why_no_region,
    [](const GpuDevice& device, const Instruction& region, Constants constants) {
      return why_no_anchored_region(region).empty() ? make_anchored(device, region, constants)
                                                    : kElementwise.make(device, region, constants);
    }};

}  // namespace lathe::gpu
