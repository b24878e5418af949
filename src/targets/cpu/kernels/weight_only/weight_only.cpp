// SPDX-License-Identifier: MIT
// Chooses the kernel and splits panels and rows into tasks; independent of the instruction set.
#include "targets/cpu/kernels/weight_only/weight_only.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/weight_only/weight_only_compact.h"
#include "targets/cpu/kernels/weight_only/weight_only_prefetch.h"
#include "targets/cpu/kernels/weight_only/weight_only_rows.h"
#include "targets/cpu/kernels/weight_only/weight_only_table.h"
#include "targets/cpu/kernels/weight_only/weight_only_tile.h"
#include "tensor/convert.h"

namespace lathe::cpu {

[[gnu::weak]] extern const WeightOnlyTable kWeightOnlyAvx2, kWeightOnlyAvx2Vnni, kWeightOnlyAvx512,
    kWeightOnlyAvx512Vnni, kWeightOnlyAmx;
[[gnu::weak]] extern const CompactTable kCompactAvx2, kCompactAvx2Vnni, kCompactAvx512,
    kCompactAvx512Vnni;

namespace {

// Rows times panels whose accumulators stay in a task's cache.
constexpr int64_t kTaskAccumulators = 1024;
constexpr int64_t kNarrowTaskRows = 128;
constexpr int64_t kManyTasks = 16;
constexpr int64_t kMaxTaskPanels = 4;
constexpr int64_t kF32Chunk = 256;        // elements along k unpacked to f32 at once
constexpr int64_t kTaskBytes = 64 << 10;  // weight bytes of a GEMV task
constexpr int64_t kMaxF32GemvRows = 8;
constexpr int64_t kMaxCompactGemvRows = 8;
constexpr int64_t kGemvPanels = 8;  // that GEMV multiplies before it stores rows of y

constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

const WeightOnlyTable& table(Isa isa) {
  constexpr const WeightOnlyTable* kTables[kIsaCount] = {
      &kWeightOnlyAvx2,       &kWeightOnlyAvx2Vnni,   &kWeightOnlyAvx512,
      &kWeightOnlyAvx512Vnni, &kWeightOnlyAvx512Vnni, &kWeightOnlyAmx};
  return *in_build(kTables[static_cast<size_t>(isa)], isa);
}

const CompactTable& compact_table(Isa isa) {
  constexpr const CompactTable* kTables[kIsaCount] = {&kCompactAvx2,       &kCompactAvx2Vnni,
                                                      &kCompactAvx512,     &kCompactAvx512Vnni,
                                                      &kCompactAvx512Vnni, &kCompactAvx512Vnni};
  return *in_build(kTables[static_cast<size_t>(isa)], isa);
}

size_t bits_index(int bits) { return bits == 8 ? 3 : static_cast<size_t>(bits - 2); }

// AMX has no kernels for zero points that are floats.
Isa isa_of(const WeightOnlyProblem& p, Isa isa) {
  return isa == Isa::amx && has_float_zeros(p) ? Isa::avx512_vnni : isa;
}

bool is_few_rows(const WeightOnlyProblem& p, int64_t m, const WeightOnlyTable& table) {
  const int64_t most = !has_int8_rows(p) ? kMaxF32GemvRows
                       : p.compact       ? kMaxCompactGemvRows
                                         : table.max_gemv_rows;
  return m * (has_digits(p) ? kDigits : 1) <= most;
}

bool multiplies_packed(const WeightOnlyProblem& p, int64_t m, const WeightOnlyTable& table) {
  return !is_few_rows(p, m, table) && has_int8_rows(p) &&
         table.packed_gemm[bits_index(p.bits)] != nullptr;
}

// Tiles of the GEMM end with swiglu; otherwise its result is stored first.
bool ends_with_swiglu(const WeightOnlyProblem& p, int64_t m, const WeightOnlyTable& table) {
  return !has_digits(p) && multiplies_packed(p, m, table);
}

size_t form_index(CompactForm form) {
  return static_cast<size_t>(std::ranges::find(kCompactForms, form) - kCompactForms.begin());
}

class WeightOnlyGemm {
 public:
  WeightOnlyGemm(const WeightOnlyProblem& p, const WeightOnlyLayout& layout, const void* packed,
                 const WeightOnlyCall& call, Isa isa, ThreadPool* pool)
      : p_(p),
        layout_(layout),
        packed_(static_cast<const uint8_t*>(packed)),
        call_(call),
        table_(table(isa_of(p, isa))),
        compact_(p.compact ? &compact_table(isa) : nullptr),
        form_(p.compact ? form_index(*p.compact) : 0),
        pool_(pool),
        int8_(has_int8_rows(p)),
        digits_(has_digits(p)),
        with_minimums_(p.compact && p.compact->minimums),
        few_(is_few_rows(p, call.m, table_)),
        swiglu_(row_ops(isa).swiglu),
        rows_(p, layout, packed, call, table_, few_) {}

  void run() {
    rows_.prepare(pool_);
    if (few_ && compact_ != nullptr) {
      run_compact();
    } else if (few_) {
      run_gemv();
    } else if (multiplies_packed(p_, call_.m, table_)) {
      run_packed();
    } else {
      run_gemm();
    }
    if (digits_) add_non_finite(rows_.non_finite());
  }

 private:
  PackedPanels panels(int64_t first) const {
    PackedPanels out;
    out.data = packed_ + first * layout_.panel_bytes;
    out.panel_bytes = layout_.panel_bytes;
    out.cell_bytes = layout_.cell_bytes;
    out.scales_at = layout_.scales_at;
    out.zeros_at = layout_.zeros_at;
    out.blocks = layout_.blocks;
    out.block = p_.block;
    out.scales = p_.scale_type == ElementType::f32   ? ScaleKind::f32
                 : p_.scale_type == ElementType::f16 ? ScaleKind::f16
                                                     : ScaleKind::bf16;
    out.zeros = !p_.zero_type                      ? ZeroKind::middle
                : *p_.zero_type == ElementType::u8 ? ZeroKind::codes
                                                   : ZeroKind::floats;
    return out;
  }

  // `count` panels, each `step` behind the one before, in the plain form, with minimums in the
  // place of zero points; valid until the next call in this thread.
  PackedPanels plain_panels(int64_t first, int64_t count, int64_t step = 1) const {
    PackedPanels out = panels(first);
    out.panel_bytes *= step;
    if (compact_ == nullptr) return out;
    out.panel_bytes = layout_.panel_bytes;
    std::byte* const memory = thread_scratch(ScratchUse::gemm_panels, count * layout_.panel_bytes);
    for (int64_t i = 0; i < count; ++i) {
      compact_->expand[form_](compact_panels(first + i * step),
                              {reinterpret_cast<uint8_t*>(memory) + i * layout_.panel_bytes,
                               layout_.cell_bytes, layout_.scales_at, layout_.zeros_at});
    }
    out.data = reinterpret_cast<const uint8_t*>(memory);
    return out;
  }
  CompactPanels compact_panels(int64_t first) const {
    const int64_t bytes = layout_.packed_panel_bytes;
    return {packed_ + first * bytes, bytes, bytes / CompactCell(*p_.compact).bytes, p_.levels};
  }
  // Panels as packed, for prefetching.
  PackedPanels packed_panels(int64_t first) const {
    PackedPanels out = panels(first);
    if (compact_ == nullptr) return out;
    out.data = packed_ + first * layout_.packed_panel_bytes;
    out.panel_bytes = out.cell_bytes = layout_.packed_panel_bytes;
    out.blocks = 1;
    out.block = kTile;
    return out;
  }

  // Stores rows of accumulators to columns of y.
  void store(const float* acc, int64_t stride, int64_t row, int64_t rows, int64_t column,
             int64_t columns, const float* bias) const {
    columns = std::min(columns, p_.n - column);
    const int64_t at = row * call_.y_stride + column;
    const float* from = bias == nullptr ? nullptr : bias + column;
    if (p_.y_type == ElementType::f32) {
      table_.store_f32(acc, stride, rows, columns, from, static_cast<float*>(call_.y) + at,
                       call_.y_stride);
    } else if (p_.y_type == ElementType::f16) {
      table_.store_f16(acc, stride, rows, columns, from, static_cast<F16*>(call_.y) + at,
                       call_.y_stride);
    } else {
      table_.store_bf16(acc, stride, rows, columns, from, static_cast<Bf16*>(call_.y) + at,
                        call_.y_stride);
    }
  }

  int64_t gemv_grain() const {
    return std::max(int64_t{1}, kTaskBytes / layout_.packed_panel_bytes);
  }

  void run_compact() {
    parallel_for(pool_, layout_.panels, gemv_grain(), [&](int64_t begin, int64_t end) {
      if (p_.y_type == ElementType::f32 && !digits_) {
        ColumnRange range = results(begin, end - begin, 0);
        return multiply_compact(begin, range);
      }
      alignas(64) std::array<float, kMaxCompactGemvRows * kGemvPanels * kPanel> y;
      constexpr int64_t kStride = kGemvPanels * kPanel;
      for (int64_t i = begin; i < end; i += kGemvPanels) {
        const int64_t count = std::min(kGemvPanels, end - i);
        multiply_compact(i, {count, count * kPanel, nullptr, y.data(), kStride});
        if (digits_) add_digits(y.data(), kStride, call_.m, count * kPanel);
        store(y.data(), kStride, 0, call_.m, i * kPanel, count * kPanel, call_.bias);
      }
    });
  }

  void multiply_compact(int64_t panel, ColumnRange to) const {
    const CompactTable::Gemvs& kernels = compact_->gemv[form_];
    QuantisedRows rows = rows_.all();
    for (int64_t row = 0; row < rows_.height();) {
      const int64_t count = std::min<int64_t>(compact_->max_rows, rows_.height() - row);
      kernels[static_cast<size_t>(count - 1)](compact_panels(panel), rows, rows_.height(), to);
      row += count;
      rows.codes += count * kStep;
      rows.scales += count;
      rows.starts += count;
      to.y += count * to.y_stride;
    }
  }

  // Adds the kDigits rows of each row, in order.
  static void add_digits(float* y, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = y + r * kDigits * stride;
      for (int64_t c = 0; c < columns; ++c) {
        y[r * stride + c] = from[c] + from[stride + c] + from[2 * stride + c];
      }
    }
  }

  // An element of a panel in the plain form of compact weights.
  float weight(const PackedPanels& plain, int64_t k, int64_t column) const {
    const uint8_t* const cell = plain.data + k / kTile * plain.cell_bytes;
    Tile codes;
    read_column(cell, p_.bits, column, codes);
    const int64_t at = k % kTile / p_.block * kPanel + column;
    float scale = 0;
    convert(ElementType::f32, &scale, p_.scale_type,
            cell + plain.scales_at + at * bytes_for(p_.scale_type, 1), 1);
    const auto code = static_cast<float>(codes[static_cast<size_t>(k % kTile)]);
    if (!with_minimums_) return (code - static_cast<float>(1 << (p_.bits - 1))) * scale;
    float minimum = 0;
    std::memcpy(&minimum, cell + plain.zeros_at + at * 4, 4);
    return code * scale + minimum;
  }

  // Adds these elements times their weights to y.
  void add_non_finite(const std::vector<NonFinite>& all) const {
    if (all.empty()) return;
    const int64_t size = bytes_for(p_.y_type, 1);
    parallel_for(pool_, layout_.panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const PackedPanels plain = plain_panels(i, 1);
        for (auto first = all.begin(); first != all.end();) {
          const int64_t row = first->row;
          const auto end_of_row =
              std::find_if(first, all.end(), [row](const NonFinite& x) { return x.row != row; });
          for (int64_t c = 0; c < std::min(kPanel, p_.n - i * kPanel); ++c) {
            auto* const at =
                static_cast<uint8_t*>(call_.y) + (row * call_.y_stride + i * kPanel + c) * size;
            float y = 0;
            convert(ElementType::f32, &y, p_.y_type, at, 1);
            for (auto x = first; x != end_of_row && !std::isnan(y); ++x) {
              y += x->value * weight(plain, x->k, c);
            }
            convert(p_.y_type, at, ElementType::f32, &y, 1);
          }
          first = end_of_row;
        }
      }
    });
  }

  void run_gemv() {
    parallel_for(pool_, layout_.panels, gemv_grain(), [&](int64_t begin, int64_t end) {
      if (p_.y_type == ElementType::f32) {
        multiply_gemv(begin, end, static_cast<float*>(call_.y) + begin * kPanel, call_.y_stride);
        return;
      }
      std::array<float, kMaxF32GemvRows * kPanel> y;
      for (int64_t i = begin; i < end; ++i) {
        multiply_gemv(i, i + 1, y.data(), kPanel);
        store(y.data(), kPanel, 0, call_.m, i * kPanel, kPanel, nullptr);
      }
    });
  }

  void multiply_gemv(int64_t begin, int64_t end, float* y, int64_t stride) const {
    ColumnRange range;
    range.panels = end - begin;
    range.columns = std::min(p_.n, end * kPanel) - begin * kPanel;
    range.bias = call_.bias == nullptr ? nullptr : call_.bias + begin * kPanel;
    range.y = y;
    range.y_stride = stride;
    const PackedPanels from = panels(begin);
    const size_t bits = bits_index(p_.bits);
    if (p_.compute == WeightOnlyCompute::int8) {
      (*table_.gemv)[bits][static_cast<size_t>(call_.m - 1)](from, rows_.all(), range);
      return;
    }
    for (int64_t row = 0; row < call_.m; row += 4) {
      const int64_t rows = std::min(int64_t{4}, call_.m - row);
      range.y = y + row * stride;
      table_.f32->gemv[bits][static_cast<size_t>(rows - 1)](
          from, rows_.floats() + row * rows_.width(), rows_.width(), range);
    }
  }

  // A task multiplies some rows by two packed panels. Consecutive tasks share the rows.
  void run_packed() {
    constexpr int64_t kTasks = 96;  // lower bound, to keep the wait for the last task short
    constexpr int64_t kMinTaskRows = 64, kMaxTaskRows = 512;
    const int64_t pairs = (layout_.panels + 1) / 2;
    const int64_t max_rows = std::clamp(rows_.count() * pairs / kTasks, kMinTaskRows, kMaxTaskRows);
    const int64_t min_groups = (rows_.count() + max_rows - 1) / max_rows;
    const int64_t task_rows = round_up((rows_.count() + min_groups - 1) / min_groups, kPanel);
    const int64_t groups = (rows_.count() + task_rows - 1) / task_rows;
    parallel_for(pool_, groups * pairs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / pairs * task_rows;
        multiply_packed(i % pairs, row, std::min(task_rows, rows_.count() - row));
      }
    });
  }

  // Neighbours, or a panel of each half of the columns if swiglu follows.
  struct PanelPair {
    int64_t first, count, step;
  };
  PanelPair pair_at(int64_t pair) const {
    if (p_.swiglu) return {pair, 2, layout_.panels / 2};
    return {pair * 2, std::min(int64_t{2}, layout_.panels - pair * 2), 1};
  }

  void multiply_packed(int64_t pair, int64_t row, int64_t rows) const {
    const auto& kernels = with_minimums_ ? table_.minimums_gemm : table_.packed_gemm;
    const auto multiply = kernels[bits_index(p_.bits)];
    const auto [panel, count, step] = pair_at(pair);
    PackedPanels from = plain_panels(panel, count, step);
    if (count == 1) from.panel_bytes = 0;
    const PanelPair following = pair_at((pair + 1) * 2 < layout_.panels ? pair + 1 : 0);
    PackedPanels ahead = packed_panels(following.first);
    ahead.panel_bytes *= following.step;
    PanelPrefetcher prefetcher(ahead, following.count, 0, layout_.blocks,
                               (rows + kPanel - 1) / kPanel);
    for (int64_t r = 0; r < rows; r += kPanel) {
      prefetcher.fetch();
      const int64_t valid = rows_.valid(row + r, rows - r);
      QuantisedRows here = rows_.from(row + r, 0);
      here.prefetch = rows_.from(r + kPanel < rows ? row + r + kPanel : row, 0).codes;
      if (p_.swiglu) {
        multiply_halves(multiply, from, here, valid, panel, row + r);
        continue;
      }
      if (p_.y_type == ElementType::f32 && !digits_) {
        multiply(from, here, valid, results(panel, count, row + r));
        continue;
      }
      const auto [first, kept] = rows_.rows_of_y(row + r, valid);
      prefetch_y(panel, count, first, kept);
      alignas(64) std::array<float, kPanel * 2 * kPanel> acc;
      ColumnRange to;
      to.panels = count;
      to.columns = count * kPanel;
      to.y = acc.data();
      to.y_stride = 2 * kPanel;
      multiply(from, here, valid, to);
      if (digits_) add_digits(acc.data(), 2 * kPanel, kept, count * kPanel);
      store(acc.data(), 2 * kPanel, first, kept, panel * kPanel, count * kPanel, call_.bias);
    }
  }

  // swiglu of a panel and the one half the columns further, `count` rows of y from `row` on.
  void multiply_halves(WeightOnlyTable::PackedGemm multiply, const PackedPanels& from,
                       const QuantisedRows& rows, int64_t count, int64_t panel, int64_t row) const {
    constexpr int64_t kStride = 2 * kPanel;
    alignas(64) std::array<float, kPanel * kStride> acc;
    alignas(64) std::array<float, kStride> bias;
    auto* y = static_cast<float*>(call_.y) + row * call_.y_stride + panel * kPanel;
    for (int64_t r = 0; r < count; ++r) __builtin_prefetch(y + r * call_.y_stride, 1);
    if (call_.bias != nullptr) {
      std::copy_n(call_.bias + panel * kPanel, kPanel, bias.data());
      std::copy_n(call_.bias + p_.n / 2 + panel * kPanel, kPanel, bias.data() + kPanel);
    }
    multiply(from, rows, count,
             {2, kStride, call_.bias == nullptr ? nullptr : bias.data(), acc.data(), kStride});
    for (int64_t r = 0; r < count; ++r, y += call_.y_stride) {
      const float* const at = acc.data() + r * kStride;
      swiglu_(*p_.swiglu, at, at + kPanel, y, kPanel);
    }
  }

  void run_gemm() {
    const int64_t task_panels = table_.task_panels;
    const int64_t columns = (layout_.panels + task_panels - 1) / task_panels;
    // With few panels, a task takes fewer rows. Each task then unpacks the panels again.
    const int64_t task_rows =
        columns < kManyTasks ? kNarrowTaskRows : kTaskAccumulators / task_panels;
    const int64_t rows = (rows_.count() + task_rows - 1) / task_rows;
    parallel_for(pool_, columns * rows, 1, [&](int64_t begin, int64_t end) {
      if (table_.begin != nullptr) table_.begin(p_.block);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i % rows * task_rows;
        multiply_gemm(i / rows * task_panels, row, std::min(task_rows, rows_.count() - row));
      }
      if (table_.end != nullptr) table_.end();
    });
  }

  // A task unpacks one chunk of its panels at a time. An odd last panel is used twice.
  struct Unpacked {
    alignas(64) std::array<uint8_t, kMaxTaskPanels * kF32Chunk * kPanel * 4> codes;
    alignas(64) std::array<float, kMaxTaskPanels * kMaxBlocks * kPanel> scales;
    alignas(64) std::array<int32_t, kMaxTaskPanels * kMaxBlocks * kPanel> zeros;
    std::array<UnpackedChunk, kMaxTaskPanels> chunks;
  };

  // Unpacks `blocks` blocks from `block` on, of `count` panels.
  void unpack(const PackedPanels& panels, int64_t count, int64_t block, int64_t blocks,
              Unpacked& to) const {
    const size_t bits = bits_index(p_.bits);
    PackedPanels from = panels;
    for (int64_t i = 0; i < count; ++i, from.data += from.panel_bytes) {
      uint8_t* codes = to.codes.data() + i * kF32Chunk * kPanel * 4;
      float* scales = to.scales.data() + i * kMaxBlocks * kPanel;
      int32_t* zeros = to.zeros.data() + i * kMaxBlocks * kPanel;
      UnpackedChunk& chunk = to.chunks[static_cast<size_t>(i)];
      chunk = {blocks, p_.block, codes, scales, zeros, has_float_zeros(p_)};
      if (!int8_) {
        table_.f32->unpack[bits](from, block, blocks, reinterpret_cast<float*>(codes), scales);
      } else if (!table_.unpack[bits](from, block, blocks, codes, scales, zeros)) {
        chunk.zeros = nullptr;
      }
    }
    if (count % 2 != 0) {
      to.chunks[static_cast<size_t>(count)] = to.chunks[static_cast<size_t>(count - 1)];
    }
  }

  // Blocks of a chunk. Chunks are about equal: a short last one pays the same fixed cost as a full
  // one.
  int64_t chunk_blocks() const {
    if (!int8_) return kF32Chunk / p_.block;
    const int64_t unit = std::max(p_.block, kStep);
    const int64_t max_elements = table_.chunk / unit * unit;
    const int64_t chunks = (rows_.width() + max_elements - 1) / max_elements;
    return round_up((rows_.width() + chunks - 1) / chunks, unit) / p_.block;
  }

  // A task unpacks its panels chunk by chunk and multiplies each chunk by all its rows.
  void multiply_gemm(int64_t panel, int64_t row, int64_t rows) const {
    Unpacked unpacked;
    alignas(64) std::array<float, kTaskAccumulators * kPanel> acc;
    const int64_t count = std::min(table_.task_panels, layout_.panels - panel);
    const int64_t following = panel + table_.task_panels;
    const PackedPanels plain = plain_panels(panel, count);
    const int64_t max_blocks = chunk_blocks();
    const int64_t steps = (rows + kPanel - 1) / kPanel;
    std::fill_n(acc.data(), steps * kPanel * table_.task_panels * kPanel, 0.0F);
    for (int64_t block = 0; block < layout_.blocks; block += max_blocks) {
      const int64_t blocks = std::min(max_blocks, layout_.blocks - block);
      const bool last = block + blocks == layout_.blocks;
      unpack(plain, count, block, blocks, unpacked);
      PanelPrefetcher prefetcher =
          last ? PanelPrefetcher(packed_panels(following),
                                 std::min(count, layout_.panels - following), 0, max_blocks, steps)
               : PanelPrefetcher(plain, count, block + blocks, max_blocks, steps);
      for (int64_t r = 0; r < rows; r += kPanel) {
        prefetcher.fetch();
        const RowBlock here{row + r, rows_.valid(row + r, rows - r), block};
        const RowBlock next = r + kPanel < rows ? RowBlock{row + r + kPanel, 0, block}
                                                : RowBlock{row, 0, last ? 0 : block + blocks};
        multiply_chunk(unpacked, panel, count, here, next, last,
                       acc.data() + r * table_.task_panels * kPanel);
      }
    }
  }

  // Up to 16 rows from `row` on, and the chunk of k from `block` on.
  struct RowBlock {
    int64_t row;
    int64_t valid;
    int64_t block;
  };

  // Adds a chunk times a block of rows to the accumulators. The last chunk stores them to y.
  void multiply_chunk(const Unpacked& unpacked, int64_t panel, int64_t count, const RowBlock& here,
                      const RowBlock& next, bool last, float* acc) const {
    const auto [first, kept] = rows_.rows_of_y(here.row, here.valid);
    if (last) prefetch_y(panel, count, first, kept);
    const int64_t even = round_up(count, 2);
    const int64_t k = here.block * p_.block;
    if (int8_) {
      QuantisedRows rows = rows_.from(here.row, here.block);
      rows.prefetch = rows_.from(next.row, next.block).codes;
      const auto multiply = with_minimums_ ? table_.gemm_with_minimums : table_.gemm;
      multiply(unpacked.chunks.data(), even, rows, here.valid, acc);
    } else {
      table_.f32->gemm(unpacked.chunks.data(), even, rows_.floats() + here.row * rows_.width() + k,
                       rows_.width(), here.valid, acc);
    }
    for (int64_t i = 0; last && i < count; ++i) {
      float* const from = acc + i * kPanel * kPanel;
      if (digits_) add_digits(from, kPanel, kept, kPanel);
      store(from, kPanel, first, kept, (panel + i) * kPanel, kPanel, call_.bias);
    }
  }

  // The f32 range of y for `count` panels, from `row` on.
  ColumnRange results(int64_t panel, int64_t count, int64_t row) const {
    const int64_t column = panel * kPanel;
    ColumnRange out;
    out.panels = count;
    out.columns = std::min(p_.n - column, count * kPanel);
    out.bias = call_.bias == nullptr ? nullptr : call_.bias + column;
    out.y = static_cast<float*>(call_.y) + row * call_.y_stride + column;
    out.y_stride = call_.y_stride;
    return out;
  }

  // Rows of y are strided: without prefetch, each store misses.
  void prefetch_y(int64_t panel, int64_t count, int64_t row, int64_t rows) const {
    const int64_t size = bytes_for(p_.y_type, 1);
    const int64_t bytes = std::min(count * kPanel, p_.n - panel * kPanel) * size;
    for (int64_t r = 0; r < rows; ++r) {
      const auto* from = static_cast<const uint8_t*>(call_.y) +
                         ((row + r) * call_.y_stride + panel * kPanel) * size;
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 1);
    }
  }

  const WeightOnlyProblem& p_;
  const WeightOnlyLayout& layout_;
  const uint8_t* packed_;
  const WeightOnlyCall& call_;
  const WeightOnlyTable& table_;
  const CompactTable* compact_;  // null: weights are in the plain form
  size_t form_;
  ThreadPool* pool_;
  const bool int8_;           // rows are quantised
  const bool digits_;         // kDigits of them per row
  const bool with_minimums_;  // in the place of zero points; starts are totals of elements
  const bool few_;            // rows are multiplied by GEMV
  decltype(RowOps::swiglu) const swiglu_;
  WeightOnlyRows rows_;
};

}  // namespace

int64_t weight_only_workspace(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                              int64_t m) {
  const int64_t product = problem.swiglu ? m * problem.n * int64_t{sizeof(float)} : 0;
  return RowsWorkspace(problem, layout, m).bytes + product;
}

std::string_view weight_only_variant(const WeightOnlyProblem& p, int64_t m, Isa isa) {
  isa = isa_of(p, isa);
  if (p.compute == WeightOnlyCompute::int8) {
    return m <= (p.compact ? kMaxCompactGemvRows : table(isa).max_gemv_rows) ? "int8 GEMV"
           : isa == Isa::amx                                                 ? "int8 GEMM on AMX"
                                                                             : "int8 GEMM";
  }
  const int64_t gemv_rows = p.compact ? kMaxCompactGemvRows / kDigits : kMaxF32GemvRows;
  return m <= gemv_rows ? "f32 GEMV" : "f32 GEMM";
}

FitBlock weight_only_fit(Isa isa) { return table(isa).f32->fit; }

void run_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                     const void* packed, const WeightOnlyCall& call, Isa isa, ThreadPool* pool) {
  if (call.m == 0) return;
  if (!problem.swiglu || ends_with_swiglu(problem, call.m, table(isa_of(problem, isa)))) {
    WeightOnlyGemm(problem, layout, packed, call, isa, pool).run();
    return;
  }
  WeightOnlyProblem product = problem;
  product.swiglu.reset();
  auto* const memory = static_cast<std::byte*>(call.workspace);
  auto* const halves =
      reinterpret_cast<float*>(memory + RowsWorkspace(problem, layout, call.m).bytes);
  WeightOnlyCall own = call;
  own.y = halves;
  own.y_stride = product.n;
  WeightOnlyGemm(product, layout, packed, own, isa, pool).run();
  constexpr int64_t kGrain = 16384;  // elements
  const int64_t half = product.n / 2;
  parallel_for(pool, call.m, std::max<int64_t>(kGrain / half, 1), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* const at = halves + r * product.n;
      row_ops(isa).swiglu(*problem.swiglu, at, at + half,
                          static_cast<float*>(call.y) + r * call.y_stride, half);
    }
  });
}

}  // namespace lathe::cpu
