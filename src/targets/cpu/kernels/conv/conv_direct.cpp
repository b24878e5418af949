// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/conv_direct.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/common/transpose.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kMaxIm2col = 16 << 20;      // bytes of an image's im2col matrix
constexpr int64_t kMaxPaddedImage = 8 << 20;  // bytes of an image padded before its chunks

constexpr int64_t kPanelsOfCopy = 4;          // least panels per chunk for im2col by chunks
constexpr int64_t kManyRows = 24;             // output rows beyond which imbalance is negligible
constexpr int64_t kManyTiles = 16;            // GEMM tiles of rows, likewise
constexpr double kChunks = 16;                // of an image, if each is long enough
constexpr double kBytesPerMicrosecond = 8e3;  // of x and y that one thread moves
constexpr double kWeightBytesPerMicrosecond = 2e4;

constexpr size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

GemmType gemm_type_of(ElementType x) {
  switch (x) {
    case ElementType::bf16:
      return GemmType::bf16;
    case ElementType::u8:
      return GemmType::u8s8;
    case ElementType::i8:
      return GemmType::s8s8;
    default:
      return GemmType::f32;
  }
}

// Treats a pointwise convolution as a single row of positions.
ConvProblem as_row(ConvProblem p) {
  if (!p.is_pointwise()) return p;
  ConvAxis row;
  row.input = row.output = p.output_positions();
  p.axes = {ConvAxis{}, ConvAxis{}, row};
  p.transposed = false;
  return p;
}

// Channels-last images of a pointwise convolution follow each other: one row of positions, so that
// weights are read once and tiles are full.
ConvProblem join_images(ConvProblem p) {
  const bool follow = p.x_layout == ActivationLayout::channels_last && p.x_layout == p.y_layout;
  if (!p.is_pointwise() || !follow || p.batch < 2 || p.groups != 1 || p.scales_x || p.transposed)
    return p;
  ConvAxis row;
  row.input = row.output = p.batch * p.output_positions();
  p.axes = {ConvAxis{}, ConvAxis{}, row};
  p.batch = 1;
  return p;
}

// Elements of k in an AMX tile of A.
int64_t tile_elements(const ConvProblem& p) { return 64 / a_size(gemm_type_of(p.x_type)); }
int64_t whole_tiles(int64_t k, const ConvProblem& p) {
  return (k + tile_elements(p) - 1) / tile_elements(p);
}

// True if blocks of all taps leave less of the AMX tiles empty than blocks per kernel row.
bool fills_tiles(const ConvProblem& p) {
  if (p.x_type == ElementType::f32 || p.taps() == 1) return false;
  const int64_t width = p.axes[2].kernel, kernel_row = width * p.channels;
  const int64_t by_kernel_rows = p.axes[2].dilation == 1
                                     ? p.taps() / width * whole_tiles(kernel_row, p)
                                     : p.taps() * whole_tiles(p.channels, p);
  return whole_tiles(p.taps() * p.channels, p) < by_kernel_rows;
}

// True if adjacent positions have L1 set conflicts. Each chunk then copies its rows, which costs as
// much as a few columns of the GEMM.
bool gains_by_spreading(const ConvProblem& p, const BrgemmKernel& kernel) {
  return p.taps() == 1 && p.groups == 1 && !p.transposed &&
         p.x_layout == ActivationLayout::channels_last && p.outputs >= 2 * kernel.panel_columns &&
         p.axes[2].output >= kernel.row_tile &&
         has_set_conflicts(kernel, p.axes[2].stride * p.channels * a_size(gemm_type_of(p.x_type)));
}

// True if im2col costs less than GEMMs with a small M, each of which reloads the weights.
bool gains_by_im2col(const ConvProblem& p, Isa isa, const BrgemmKernel& kernel) {
  if (p.groups != 1 || p.transposed) return false;
  const int64_t matrix =
      p.output_positions() * p.taps() * p.channels * a_size(gemm_type_of(p.x_type));
  if (isa == Isa::amx && fills_tiles(p))
    return matrix <= kMaxIm2col || p.x_layout == ActivationLayout::channels_last;
  if (matrix > kMaxIm2col || p.outputs < 64) return false;
  // AMX: im2col costs as much as the GEMM itself.
  if (isa == Isa::amx && p.x_type != ElementType::f32) return p.taps() == 1 && p.axes[2].stride > 1;
  const int64_t width = p.axes[2].output, positions = p.output_positions();
  return width < 2 * kernel.row_tile && positions > width;
}

}  // namespace

std::string why_not_direct(const ConvProblem& p, Isa) {
  if (p.scales_x && (!p.is_pointwise() || p.groups != 1 || p.is_integer() ||
                     p.x_layout != ActivationLayout::channels_last)) {
    return fmt::format("{}: scaled x must be the floats of a pointwise convolution", p.text());
  }
  if (p.transposed && p.y_layout == ActivationLayout::channels_first &&
      !std::all_of(p.axes.begin(), p.axes.end(), [](const ConvAxis& a) { return a.stride == 1; }))
    return "a transposed convolution with strides writes channels-last only";
  return {};
}

DirectConvolution::DirectConvolution(const ConvProblem& problem, Isa isa)
    : DirectConvolution(join_images(problem), isa, Joined()) {
  if (original_.batch == problem.batch) return;
  by_image_.reset(new DirectConvolution(problem, isa, Joined()));
  image_positions_ = problem.output_positions();
}

DirectConvolution::DirectConvolution(const ConvProblem& problem, Isa isa, Joined)
    : DirectConvolution(problem, isa, !has_integer_sums(gemm_type_of(problem.x_type))) {
  if ((in_place_ && !im2col_) || shift_ != 0) return;
  std::unique_ptr<DirectConvolution> other(new DirectConvolution(problem, isa, true));
  if (other->skips_padding_) for_zeros_ = std::move(other);
}

DirectConvolution::DirectConvolution(const ConvProblem& problem, Isa isa, bool pads_with_zeros)
    : original_(problem),
      p_(as_row(problem)),
      isa_(fastest_isa(isa, gemm_type_of(problem.x_type),
                       problem.batch * problem.output_positions(), problem.group_outputs(),
                       problem.taps() * problem.group_channels())),
      type_(gemm_type_of(problem.x_type)),
      kernel_(&brgemm_kernel(isa_, type_)) {
  check_problem(problem);
  if (problem.transposed && problem.is_pointwise()) p_.transposed = true;
  padded_.group_pitch = p_.group_channels();
  padded_.element_bytes = static_cast<int>(a_size(type_));
  flip_signs();
  through_sums_ = p_.y_layout == ActivationLayout::channels_first;
  for (const ConvPart& part : conv_parts(p_)) add_part(part);
  const bool spreads = problem.scales_x || gains_by_spreading(p_, *kernel_);
  skips_padding_ = pads_with_zeros && !spreads && !reads_in_place() && gains_by_skipping();
  if (spreads || (!skips_padding_ && gains_by_im2col(p_, isa_, *kernel_))) im2col_positions();
  in_place_ = skips_padding_ || (reads_in_place() && (!flips_ || im2col_));
  im2col_chunks_ = spreads || (im2col_ && isa_ == Isa::amx && fills_tiles(original_) &&
                               original_.x_layout == ActivationLayout::channels_last);
  if (!in_place_) find_padded_box();
  if (pads_image_ && has_tiles()) make_flat();
  for (size_t i = 0; i < parts_.size(); ++i) add_chunks(i);
  // With few panels per chunk, each chunk would repeat im2col; one im2col before them is cheaper.
  if (spreads && chunks_.front().panels < std::min(kPanelsOfCopy, group_panels()))
    im2col_chunks_ = false;
  if (pads_image_ && !flat_ && pads_by_chunk()) pads_image_ = false;
  for (const Chunk& chunk : chunks_) {
    const Part& part = parts_[chunk.part];
    const int64_t rows = chunk.extent[0] * chunk.extent[1] * chunk.extent[2];
    if (im2col_chunks_) {
      const int64_t bytes = std::min(rows, kIm2colRows) * p_.channels * padded_.element_bytes;
      scratch_box_ = std::max(scratch_box_, round_up(static_cast<size_t>(bytes)));
    } else if (skips_padding_ && pads_columns(part, chunk)) {
      int64_t bytes = 0;
      each_column(part, chunk, [&](int64_t w) { bytes += box_bytes(column_box(part, chunk, w)); });
      scratch_box_ = std::max(scratch_box_, static_cast<size_t>(bytes));
    } else if (!in_place_ && !pads_image_) {
      const auto bytes =
          box(part, chunk).positions() * p_.channels * padded_.element_bytes + kReadPastEnd;
      scratch_box_ = std::max(scratch_box_, round_up(static_cast<size_t>(bytes)));
    }
    scratch_rows_ = std::max(scratch_rows_, round_up(static_cast<size_t>(rows * 4)));
    if (through_sums_) {
      const int64_t columns = chunk.panels * kernel_->panel_columns;
      const int64_t all = flat_ ? chunk.extent[1] * padded_box_.extent[2] : rows;
      scratch_sums_ = std::max(scratch_sums_, round_up(static_cast<size_t>(all * columns * 4)));
    }
  }
}

// A kernel without a signed dot product flips the signs of i8 for each panel; one flipped copy of x
// costs less.
void DirectConvolution::flip_signs() {
  constexpr int kSign = 0x80;
  shift_ = kernel_->a_zero_shift;
  flips_ = shift_ == kSign && p_.group_outputs() >= kernel_->panel_columns;
  if (!flips_) return;
  type_ = GemmType::u8s8;
  kernel_ = &brgemm_kernel(isa_, type_);
  padded_.flip = kSign;
}

// 8-bit value of positions outside x.
int DirectConvolution::padding(const ConvCall& call) const {
  return has_integer_sums(type_) ? static_cast<uint8_t>(call.x_zero) ^ padded_.flip : 0;
}

// Replaces the problem by its im2col form: one part, one block of all taps, rows of the im2col
// matrix.
void DirectConvolution::im2col_positions() {
  im2col_ = true;
  for (const ConvPartAxis& output_rows : axis_parts(original_.axes[1], false))
    original_height_ = output_rows;
  int64_t k = original_.taps() * original_.channels;
  if (isa_ == Isa::amx && fills_tiles(original_))
    k = whole_tiles(k, original_) * tile_elements(original_);
  Part part;
  part.blocks.resize(1);
  part.k = k;
  for (int64_t tap = 0; tap < original_.taps(); ++tap) part.blocks[0].taps.push_back(tap);
  ConvAxis row;
  row.input = row.output = original_.output_positions();
  p_.axes = {ConvAxis{}, ConvAxis{}, row};
  const int64_t row_bytes = part.k * padded_.element_bytes;
  p_.channels = has_set_conflicts(*kernel_, row_bytes)
                    ? conflict_free_row_bytes(row_bytes) / padded_.element_bytes
                    : part.k;
  p_.x_layout = ActivationLayout::channels_last;
  part.geometry.axes = {axis_parts({}, false)[0], axis_parts({}, false)[0],
                        axis_parts(row, false)[0]};
  panel_bytes_ = static_cast<size_t>(group_panels() * panel_stride(part));
  parts_ = {part};
}

void DirectConvolution::add_part(const ConvPart& geometry) {
  Part part;
  part.geometry = geometry;
  part.k = p_.group_channels();
  part.packed = panel_bytes_;
  const auto& [depth, height, width] = geometry.axes;
  bool contiguous_taps = p_.groups == 1;
  for (size_t i = 1; i < width.taps.size(); ++i)
    contiguous_taps =
        contiguous_taps && width.taps[i].offset == width.taps[0].offset + static_cast<int64_t>(i);
  for (const ConvTap& d : depth.taps) {
    for (const ConvTap& h : height.taps) {
      for (size_t i = 0; i < width.taps.size(); ++i) {
        if (i == 0 || !contiguous_taps)
          part.blocks.push_back({{d.offset, h.offset, width.taps[i].offset}, {}});
        part.blocks.back().taps.push_back(
            (d.kernel * p_.axes[1].kernel + h.kernel) * p_.axes[2].kernel + width.taps[i].kernel);
      }
    }
  }
  part.contiguous_taps = contiguous_taps;
  for (int64_t i = 0; i < width.count; ++i) {
    const ConvTaps taps = taps_inside(width, p_.axes[2].input, i);
    if (part.segments.empty() || part.segments.back().taps != taps)
      part.segments.push_back({i, 0, taps});
    ++part.segments.back().count;
  }
  std::sort(part.segments.begin(), part.segments.end(), [](const Segment& a, const Segment& b) {
    return std::pair(-a.count, a.begin) < std::pair(-b.count, b.begin);
  });
  if (contiguous_taps) part.k *= static_cast<int64_t>(std::max<size_t>(1, width.taps.size()));
  panel_bytes_ += static_cast<size_t>(p_.groups * group_panels() * panel_stride(part));
  parts_.push_back(std::move(part));
}

int64_t DirectConvolution::panel_stride(const Part& part) const {
  return static_cast<int64_t>(part.blocks.size()) * packed_panel_bytes(*kernel_, part.k);
}

// Panels per tile, or 1 if that many would not stay in L2 until the next rows.
int64_t DirectConvolution::tile_panels(const Part& part) const {
  const int64_t together = kernel_->panels_per_tile;
  return has_tiles() || together * panel_stride(part) <= kWeightsInCache ? together : 1;
}

const std::byte* DirectConvolution::panels(const std::byte* packed, const Part& part, int64_t group,
                                           int64_t panel) const {
  return packed + part.packed + (group * group_panels() + panel) * panel_stride(part);
}

// Elements of a row of A read per block. Copied int8 input is read in whole groups, which is
// faster; weights beyond the block are zero.
int64_t DirectConvolution::elements_read(const Part& part) const {
  const bool whole = has_integer_sums(type_) && !in_place_ && !im2col_;
  const int64_t group = whole ? kernel_->k_group : 1;
  return (part.k + group - 1) / group * group;
}

bool DirectConvolution::reads_in_place() const {
  if (p_.x_layout == ActivationLayout::channels_first) return false;
  for (const Part& part : parts_) {
    for (size_t i = 0; i < kConvAxes; ++i) {
      const ConvPartAxis& axis = part.geometry.axes[i];
      if (axis.taps.empty()) continue;
      const int64_t last = (axis.count - 1) * axis.step + axis.taps.back().offset;
      if (axis.taps.front().offset < 0 || last >= p_.axes[i].input) return false;
    }
  }
  return true;
}

// True if most outputs of a row read the same taps and fill a tile. The taps that remain at edges
// must start at a whole group.
bool DirectConvolution::gains_by_skipping() const {
  if (has_tiles() || shift_ != 0 || p_.x_layout == ActivationLayout::channels_first) return false;
  const int64_t channels = p_.group_channels();
  const bool is_short = channels * padded_.element_bytes < 64;
  if (channels % kernel_->k_group != 0 || (is_short && type_ != GemmType::f32)) return false;
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return !part.segments.empty() && part.segments[0].count >= kMinOutputs;
  });
}

// Finds the box of positions that any output reads. It is copied once for all chunks, up to
// kMaxPaddedImage.
void DirectConvolution::find_padded_box() {
  for (size_t i = 0; i < kConvAxes; ++i) {
    int64_t begin = 0, end = 1;
    bool first = true;
    for (const Part& part : parts_) {
      const ConvPartAxis& axis = part.geometry.axes[i];
      if (axis.taps.empty()) continue;
      const int64_t low = axis.taps.front().offset;
      const int64_t high = (axis.count - 1) * axis.step + axis.taps.back().offset + 1;
      begin = first ? low : std::min(begin, low);
      end = first ? high : std::max(end, high);
      first = false;
    }
    padded_box_.begin[i] = begin;
    padded_box_.extent[i] = end - begin;
  }
  pads_image_ = padded_box_.positions() * p_.channels * padded_.element_bytes <= kMaxPaddedImage;
}

// True if chunks overlap little and each one's input fits half of L1: each chunk then copies its
// own input, which saves a parallel region before the GEMMs.
bool DirectConvolution::pads_by_chunk() const {
  constexpr int64_t kHalfCache = 24 << 10;
  int64_t read = 0, largest = 0;
  for (const Chunk& chunk : chunks_) {
    const int64_t positions = box(parts_[chunk.part], chunk).positions();
    read += positions;
    largest = std::max(largest, positions);
  }
  return read <= padded_box_.positions() * 5 / 4 &&
         largest * p_.channels * padded_.element_bytes <= kHalfCache;
}

// GEMM rows are positions `step` apart, so image rows must be a multiple of `step` long.
void DirectConvolution::make_flat() {
  const ConvPartAxis& height = parts_[0].geometry.axes[1];
  const int64_t across = parts_[0].geometry.axes[2].step;
  flat_ = parts_.size() == 1;
  if (!flat_) return;
  padded_box_.extent[2] = (padded_box_.extent[2] + across - 1) / across * across;
  phase_rows_ = (padded_box_.extent[1] + height.step - 1) / height.step;
  padded_box_.extent[1] = phase_rows_ * height.step;
}

ConvBox DirectConvolution::box(const Part& part, const Chunk& chunk) const {
  ConvBox box;
  for (size_t i = 0; i < kConvAxes; ++i) {
    const ConvPartAxis& axis = part.geometry.axes[i];
    if (axis.taps.empty()) continue;
    box.begin[i] = chunk.begin[i] * axis.step + axis.taps.front().offset;
    box.extent[i] =
        (chunk.extent[i] - 1) * axis.step + axis.taps.back().offset - axis.taps.front().offset + 1;
  }
  return box;
}

// True if the chunk's edge columns also read padding above or below. A padded copy of the column is
// then one GEMM; a single output would take as long as two.
bool DirectConvolution::pads_columns(const Part& part, const Chunk& chunk) const {
  const int64_t first = chunk.begin[1], last = first + chunk.extent[1] - 1;
  const ConvPartAxis& height = part.geometry.axes[1];
  const int64_t output_rows = p_.axes[1].input;
  return taps_inside(height, output_rows, first) != taps_inside(height, output_rows, last);
}

// Box read by the outputs w of the chunk.
ConvBox DirectConvolution::column_box(const Part& part, const Chunk& chunk, int64_t w) const {
  ConvBox read = box(part, chunk);
  const ConvPartAxis& width = part.geometry.axes[2];
  const auto [first, end] = taps_inside(width, p_.axes[2].input, w);
  read.begin[2] = w * width.step;
  read.extent[2] = 0;
  if (first == end) return read;
  read.begin[2] += width.taps[first].offset;
  read.extent[2] = width.taps[end - 1].offset - width.taps[first].offset + 1;
  return read;
}

// Splits a part into chunks of about equal time: arithmetic, the bytes of x and y, which take
// longer where channels are few, and the bytes of the weights, where positions are. The split
// minimises bytes read: chunks of positions reload the weights, chunks of panels reload x.
void DirectConvolution::add_chunks(size_t index) {
  const Part& part = parts_[index];
  const auto& axes = part.geometry.axes;
  const double k = static_cast<double>(part.k) * static_cast<double>(part.blocks.size());
  const double columns =
      static_cast<double>(kernel_->panel_columns) * static_cast<double>(p_.groups);
  const double positions = static_cast<double>(part.geometry.outputs());
  const double all_positions = static_cast<double>(std::max<int64_t>(1, p_.output_positions()));
  const double read_bytes = static_cast<double>(p_.input_positions() * p_.channels) *
                            static_cast<double>(a_size(type_)) / all_positions;
  const double column_bytes = columns * static_cast<double>(info(p_.y_type).bits) / 8;
  const double per_microsecond =
      8e4 * 4 / static_cast<double>(a_size(type_)) * (has_tiles() ? 4 : 1);
  // Microseconds of a position.
  const auto row_time = [&](int64_t panels) {
    const double n = static_cast<double>(panels);
    return n * columns * k / per_microsecond +
           (read_bytes + n * column_bytes) / kBytesPerMicrosecond;
  };
  const auto weight_bytes = [&](int64_t panels) {
    return static_cast<double>(panels) * columns * k * static_cast<double>(a_size(type_));
  };
  const auto weight_time = [&](int64_t panels) {
    return weight_bytes(panels) / kWeightBytesPerMicrosecond;
  };
  const double all_time = positions * row_time(group_panels()) + weight_time(group_panels());
  const double share = std::clamp(all_time / kChunks, 4.0, 60.0);
  // im2col by chunks writes the rows and reads them again.
  const double x_bytes =
      static_cast<double>(p_.channels * a_size(type_) * (im2col_chunks_ ? 3 : 1));
  int64_t best_panels = group_panels(), best_rows = part.geometry.outputs();
  double best = -1;
  const int64_t together = tile_panels(part);
  const int64_t tiles = (group_panels() + together - 1) / together;
  for (int64_t cut = 1; cut <= tiles; cut *= 2) {
    const int64_t panels = std::min(group_panels(), (tiles + cut - 1) / cut * together);
    const double time = row_time(panels), loading = weight_time(panels);
    double rows = std::clamp((share - loading) / std::max(1e-6, time), 1.0, positions);
    const double least = (skips_padding_ ? 12.0 : 4.0) * kernel_->row_tile;
    rows = std::max(rows, std::min(positions, least));
    const double read = static_cast<double>(cut) * positions * x_bytes +
                        positions / rows * weight_bytes(panels) * static_cast<double>(cut);
    const bool too_large = loading + time * rows > 2 * share && cut * 2 <= tiles;
    if (too_large || (best >= 0 && read >= best)) continue;
    best = read;
    best_panels = panels;
    best_rows = static_cast<int64_t>(rows);
  }
  // A chunk has whole output rows, or an even part of one. An even number of chunks balances two
  // threads.
  const int64_t all = group_panels();
  if (all == 0) return;
  const int64_t panel_sets = (all + best_panels - 1) / best_panels;
  const int64_t height = axes[1].count, width = std::max<int64_t>(1, axes[2].count);
  const int64_t target_rows = std::clamp<int64_t>((best_rows + width / 2) / width, 1, height);
  const int64_t tile = kernel_->row_tile, width_tiles = (width + tile - 1) / tile;
  const bool splits_rows = target_rows == 1 && best_rows < width;
  const bool shares_weights =
      static_cast<double>(all) * columns * k * static_cast<double>(a_size(type_)) <=
      static_cast<double>(kSharedWeights);
  int64_t row_chunks = (height + target_rows - 1) / target_rows;
  int64_t pieces = splits_rows ? std::min((width + best_rows - 1) / best_rows, width_tiles) : 1;
  if (const int64_t count = axes[0].count * row_chunks * pieces * panel_sets;
      shares_weights && count > 1 && count % 2 != 0) {
    if (splits_rows && pieces < width_tiles) {
      ++pieces;
    } else if (row_chunks < height) {
      ++row_chunks;
    }
  }
  // Each thread gets contiguous chunks. With few weights these are output rows: threads do not
  // share cache lines of y and read their own rows in the next layer. Large weights are read by one
  // thread each, and few output rows do not divide evenly.
  const bool even_rows =
      height == 1 ? width_tiles >= kManyTiles : height % 2 == 0 || height >= kManyRows;
  const int64_t outer_panels = shares_weights && even_rows ? all : best_panels;
  for (int64_t outer = 0; outer < all; outer += outer_panels)
    for (int64_t d = 0; d < axes[0].count; ++d)
      for (int64_t i = 0; i < row_chunks; ++i)
        for (int64_t j = 0; j < pieces; ++j)
          for (int64_t panel = outer; panel < std::min(all, outer + outer_panels);
               panel += best_panels) {
            const int64_t h = i * height / row_chunks, h_end = (i + 1) * height / row_chunks;
            const int64_t w = j * width_tiles / pieces * tile;
            const int64_t w_end = std::min(axes[2].count, (j + 1) * width_tiles / pieces * tile);
            chunks_.push_back({index,
                               {d, h, w},
                               {1, h_end - h, w_end - w},
                               panel,
                               std::min(best_panels, all - panel)});
          }
}

}  // namespace lathe::cpu
