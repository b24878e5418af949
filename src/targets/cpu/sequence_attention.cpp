// SPDX-License-Identifier: MIT
// sequence_attention: writes new keys and values into the pages of the KV caches and attends in
// place. An int8 KV cache is not converted: queries are multiplied by the key scales, results by
// the value scales.
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/sequence_step.h"
#include "ops/support/gqa.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/views.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/attention/attention.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/rope.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

enum Operand { kQuery, kKey, kValue, kCos, kSin, kPositions, kSink, kKeyScale, kValueScale };

constexpr int64_t kGrain = 8;  // tokens of a task that rotates and stores keys

bool has_dense_rows(const TensorView& view) { return view.strides[3] == 1 || view.dims[3] == 1; }

// Tokens of an item as [heads, tokens, size].
AttentionRows rows_of(const TensorView& view, const StepItem& item) {
  return {row_at(view, 0, item.begin), item.count * view.strides[2], view.strides[1],
          view.strides[2]};
}

AttentionCache paged_cache(const CachePages& pages, size_t item, int64_t size) {
  AttentionCache cache;
  cache.head = pages.rows * size;
  cache.row = size;
  cache.pages = pages.pages + static_cast<int64_t>(item) * pages.stride;
  cache.table_stride = pages.stride;
  cache.page_shift = std::countr_zero(static_cast<uint64_t>(pages.rows));
  return cache;
}

// Tokens of one launch.
class Rows {
 public:
  Rows(const GqaAttributes& a, const OpCall& c, const SequenceStep& step, CacheRole role, Isa isa)
      : step_(step),
        pool_(c.pool()),
        heads_(heads_of(a, c, role)),
        rope_(a, c, {kCos, kSin, kPositions}, heads_, step, isa),
        y_(split_heads(c.out(), a.heads)),
        group_(a.heads / a.kv_heads),
        key_scale_(c, kKeyScale, a.kv_heads, heads_.query.dims[3]),
        value_scale_(c, kValueScale, a.kv_heads, heads_.query.dims[3]) {
    if (!rope_.uses_reference()) return;
    thread_local std::vector<int64_t> angles;
    thread_local std::vector<std::byte> rotated;
    rope_.angles(step, angles);
    heads_.rotate(a, c, kCos, kSin, angles, rotated);
  }

  // Requirements of the kernels: contiguous elements of a head, and a page size that is a power of
  // two.
  static bool fit(const GqaAttributes& a, const OpCall& c, CacheRole role,
                  const CachePages& pages) {
    const GqaHeads heads = heads_of(a, c, role);
    const bool own =
        role != CacheRole::appended || (has_dense_rows(heads.key) && has_dense_rows(heads.value));
    return own && has_dense_rows(heads.query) && has_dense_rows(split_heads(c.out(), a.heads)) &&
           std::has_single_bit(static_cast<uint64_t>(pages.rows));
  }

  const GqaHeads& heads() const { return heads_; }
  const TensorView& y() const { return y_; }

  // Rotates queries and keys, and stores new keys and values in their pages.
  void rotate_and_store(const CachePages& keys, const CachePages& values) {
    const bool own = heads_.key.data != nullptr;
    if (!own && !rope_.in_place() && !key_scale_) return;
    const TensorView query = heads_.query;
    if (rope_.in_place() || key_scale_) {
      const auto count = static_cast<size_t>(query.count());
      const bool results = key_scale_ && y_.type != ElementType::f32;
      auto* memory = static_cast<float*>(scratch((results ? 2 : 1) * count * sizeof(float)));
      heads_.query = heads_in(memory, query);
      if (results) y_ = heads_in(memory + count, query);
    }
    const auto items = step_.items();
    parallel_for(pool_, query.dims[2], kGrain, [&](int64_t begin, int64_t end) {
      size_t i = 0;
      for (int64_t row = begin; row < end; ++row) {
        while (row >= items[i].begin + items[i].count) ++i;
        for (int64_t head = 0; rope_.in_place() && head < query.dims[1]; ++head) {
          rope_.rotate(row_at(query, head, row), items[i], row, row_at(heads_.query, head, row));
        }
        if (key_scale_) {
          scale_queries(rope_.in_place() ? heads_.query : query, row);
        }
        if (!own) continue;
        if (key_scale_) {
          store_int8(heads_.key, keys, key_scale_, i, row, rope_.in_place());
          store_int8(heads_.value, values, value_scale_, i, row, false);
        } else {
          store_row(heads_.key, keys, i, row, rope_.in_place());
          store_row(heads_.value, values, i, row, false);
        }
      }
    });
  }

  // Scales the results of attention to an int8 KV cache.
  void scale_results(const TensorView& to) const {
    parallel_for(pool_, y_.dims[2], kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t head = 0; head < y_.dims[1]; ++head) {
          auto* values = reinterpret_cast<float*>(row_at(y_, head, row));
          const float* scale = value_scale_.of(head / group_);
          for (int64_t i = 0; i < y_.dims[3]; ++i) values[i] *= scale[i];
          if (to.type == ElementType::f32) continue;
          convert(to.type, row_at(to, head, row), ElementType::f32, values, y_.dims[3]);
        }
      }
    });
  }

  // Consecutive items with the same number of tokens are one batch of the kernel.
  void attend(const CachePages& keys, const CachePages& values, const AttentionProblem& problem,
              const float* sinks, const float* slopes, Isa isa) const {
    const Attention attention(problem, isa);
    const auto items = step_.items();
    thread_local std::vector<int64_t> first, length;
    for (size_t from = 0, to = 0; from < items.size(); from = to) {
      const StepItem& item = items[from];
      first.clear();
      length.clear();
      for (to = from; to < items.size() && items[to].count == item.count; ++to) {
        first.push_back(items[to].past);
        length.push_back(items[to].past + items[to].count);
      }
      AttentionArguments x;
      x.batch = static_cast<int64_t>(to - from);
      x.queries = item.count;
      x.q = rows_of(heads_.query, item);
      x.y = rows_of(y_, item);
      x.k = paged_cache(keys, from, problem.size);
      x.v = paged_cache(values, from, problem.value_size);
      x.first = first.data();
      x.length = length.data();
      x.sinks = sinks;
      x.slopes = slopes;
      attention.run(x, pool_);
    }
  }

  // Cross-attention, to states that were written once.
  void cross_attend(std::span<const CacheRows> keys, std::span<const CacheRows> values,
                    const AttentionProblem& problem, const float* sinks, Isa isa) const {
    const Attention attention(problem, isa);
    const auto items = step_.items();
    const int64_t first = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].count == 0) continue;
      const int64_t length = keys[i].rows.dims[2];
      AttentionArguments x;
      x.batch = 1;
      x.queries = items[i].count;
      x.q = rows_of(heads_.query, items[i]);
      x.y = rows_of(y_, items[i]);
      x.k = cache_of(keys[i].rows);
      x.v = cache_of(values[i].rows);
      x.first = &first;
      x.length = &length;
      x.sinks = sinks;
      attention.run(x, pool_);
    }
  }

 private:
  static GqaHeads heads_of(const GqaAttributes& a, const OpCall& c, CacheRole role) {
    return role == CacheRole::appended ? GqaHeads(a, c, kQuery, kKey, kValue)
                                       : GqaHeads(a, c, kQuery);
  }
  static AttentionCache cache_of(const TensorView& rows) {
    AttentionCache cache;
    cache.data = rows.data;
    cache.head = rows.strides[1];
    cache.row = rows.strides[2];
    return cache;
  }

  // A dense view with the shape of `like`.
  static TensorView heads_in(float* memory, const TensorView& like) {
    const std::array<int64_t, 3> dims = {1, like.dims[2], like.dims[1] * like.dims[3]};
    return split_heads(dense_view(ElementType::f32, dims, memory), like.dims[1]);
  }

  // Address of a token in its page, for `bytes` bytes a head.
  std::byte* place_of(const CachePages& cache, size_t i, int64_t row, int64_t bytes) const {
    const StepItem& item = step_.items()[i];
    const int64_t position = item.past + row - item.begin;
    const int64_t entry = static_cast<int64_t>(i) * cache.stride + position / cache.rows;
    // The page list is const; this launch owns the pages it writes.
    return const_cast<std::byte*>(cache.pages[entry]) + position % cache.rows * bytes;
  }

  void scale_queries(const TensorView& from, int64_t row) const {
    for (int64_t head = 0; head < from.dims[1]; ++head) {
      auto* to = reinterpret_cast<float*>(row_at(heads_.query, head, row));
      if (from.data != heads_.query.data) {
        convert(ElementType::f32, to, from.type, row_at(from, head, row), from.dims[3]);
      }
      const float* scale = key_scale_.of(head / group_);
      for (int64_t i = 0; i < from.dims[3]; ++i) to[i] *= scale[i];
    }
  }

  void store_int8(const TensorView& heads, const CachePages& cache, const KvCacheScale& scale,
                  size_t i, int64_t row, bool rotated) const {
    const ScratchArray<float> elements(heads.dims[3]);
    std::byte* to = place_of(cache, i, row, heads.dims[3]);
    for (int64_t head = 0; head < heads.dims[1]; ++head, to += cache.rows * heads.dims[3]) {
      const std::byte* from = row_at(heads, head, row);
      if (rotated) {
        rope_.rotate(from, step_.items()[i], row, reinterpret_cast<std::byte*>(elements.data()));
      } else {
        convert(ElementType::f32, elements.data(), heads.type, from, heads.dims[3]);
      }
      scale.quantize(ElementType::i8, head, elements.data(), to);
    }
  }

  void store_row(const TensorView& heads, const CachePages& cache, size_t i, int64_t row,
                 bool rotated) const {
    const StepItem& item = step_.items()[i];
    const int64_t bytes = heads.dims[3] * (info(heads.type).bits / 8);
    std::byte* to = place_of(cache, i, row, bytes);
    for (int64_t head = 0; head < heads.dims[1]; ++head, to += cache.rows * bytes) {
      const std::byte* from = row_at(heads, head, row);
      if (rotated) {
        rope_.rotate(from, item, row, to);
      } else {
        std::memcpy(to, from, static_cast<size_t>(bytes));
      }
    }
  }

  const SequenceStep& step_;
  ThreadPool* pool_;
  GqaHeads heads_;
  Rope rope_;
  TensorView y_;
  int64_t group_;  // GQA: query heads per KV head
  KvCacheScale key_scale_;
  KvCacheScale value_scale_;
};

// Head size; none if it is dynamic.
std::optional<int64_t> head_size(const Instruction& instruction) {
  const Type& type = instruction.result(0)->type();
  if (!type.is_ranked()) return std::nullopt;
  const std::optional<int64_t> columns = type.dims->back().constant();
  return columns ? std::optional(*columns / attribute<int64_t>(instruction, "num_heads"))
                 : std::nullopt;
}

// Conditions of a run that the kernel does not support.
std::string fall_backs(const Instruction& instruction, CacheRole role) {
  std::string text = "; may fall back to ref if the elements of a head are not contiguous";
  if (role != CacheRole::cross) text += " or the page size is not a power of two";
  if (head_size(instruction)) return text;
  return text + fmt::format(" or the head size exceeds {}", Attention::kMaxHeadSize);
}

class SequenceAttention final : public Kernel {
 public:
  SequenceAttention(const Instruction& instruction, Constants constants, Isa isa)
      : origin_(instruction),
        attributes_(InstructionReader(instruction)),
        isa_(isa),
        key_state_(attribute<std::string>(instruction, "key_state")),
        value_state_(attribute<std::string>(instruction, "value_state")),
        role_(cache_role(attribute<std::string>(instruction, "cache"))),
        fall_backs_(fall_backs(instruction, role_)),
        reference_(make_reference_kernel(instruction).kernel) {
    problem_.heads = attribute<int64_t>(instruction, "num_heads");
    problem_.key_heads = attribute<int64_t>(instruction, "kv_num_heads");
    problem_.query = problem_.cache = problem_.result = element_of(instruction, kQuery);
    if (has_operand(instruction, kKeyScale)) {
      problem_.query = problem_.result = ElementType::f32;
      problem_.cache = attribute<ElementType>(instruction, "cache_type");
    }
    problem_.scale = attribute<double>(instruction, "scale");
    problem_.softcap = attribute<double>(instruction, "softcap");
    problem_.causal = role_ != CacheRole::cross;
    for (const double slope : attribute<Numbers>(instruction, "slopes")) {
      slopes_.push_back(static_cast<float>(slope));
    }
    const auto window = attribute<int64_t>(instruction, "local_window_size");
    problem_.left = window > 0 ? window - 1 : -1;
    if (const Tensor* sink = constant_at(constants, kSink)) {
      sinks_ = floats_of(*sink);
    } else if (attribute<bool>(instruction, "smooth_softmax")) {
      sinks_.assign(static_cast<size_t>(problem_.heads), 0.0F);
    }
  }

  std::string_view name() const override { return "cpu.sequence_attention"; }
  std::string detail() const override {
    return fmt::format(
        "{}, reads {}{}{}{}{}", to_string(isa_),
        role_ == CacheRole::cross ? "cross-attention states" : "a paged KV cache",
        problem_.cache == ElementType::i8 ? " of i8" : "",
        problem_.left >= 0 ? fmt::format(", sliding window of {}", problem_.left + 1) : "",
        slopes_.empty() ? "" : ", ALiBi slopes", fall_backs_);
  }

  void launch(const LaunchArgs& args) const override {
    LaunchViews views(args);
    const OpCall c(origin_, views);
    SequenceStep& step = step_of(origin_, views, c.in(kQuery).dims[1]);
    if (role_ == CacheRole::cross) return launch_cross(args, c, step);
    const CachePages keys = step.pages(key_state_), values = step.pages(value_state_);
    if (!Rows::fit(attributes_, c, role_, keys)) return reference_->launch(args);
    Rows rows(attributes_, c, step, role_, isa_);
    AttentionProblem problem = problem_;
    problem.size = problem.value_size = rows.heads().query.dims[3];
    if (problem.scale == 0) problem.scale = 1 / std::sqrt(static_cast<double>(problem.size));
    if (!Attention::refuse(problem, isa_).empty()) return reference_->launch(args);
    rows.rotate_and_store(keys, values);
    rows.attend(keys, values, problem, sinks_.empty() ? nullptr : sinks_.data(),
                slopes_.empty() ? nullptr : slopes_.data(), isa_);
    if (problem.cache == ElementType::i8) {
      rows.scale_results(split_heads(c.out(), problem.heads));
    }
  }

 private:
  void launch_cross(const LaunchArgs& args, const OpCall& c, SequenceStep& step) const {
    thread_local std::vector<CacheRows> keys, values;
    keys.clear();
    values.clear();
    std::vector<std::byte> none;  // cross-attention states are contiguous
    bool dense = true;
    for (size_t i = 0; i < step.items().size(); ++i) {
      keys.push_back(step.rows(key_state_, i, none));
      values.push_back(step.rows(value_state_, i, none));
      dense = dense && has_dense_rows(keys.back().rows) && has_dense_rows(values.back().rows);
    }
    Rows rows(attributes_, c, step, role_, isa_);
    AttentionProblem problem = problem_;
    problem.size = problem.value_size = rows.heads().query.dims[3];
    if (problem.scale == 0) problem.scale = 1 / std::sqrt(static_cast<double>(problem.size));
    const bool fits = dense && has_dense_rows(rows.heads().query) && has_dense_rows(rows.y());
    if (!fits || !Attention::refuse(problem, isa_).empty()) return reference_->launch(args);
    rows.cross_attend(keys, values, problem, sinks_.empty() ? nullptr : sinks_.data(), isa_);
  }

  OpOrigin origin_;
  GqaAttributes attributes_;
  Isa isa_;
  std::string key_state_;
  std::string value_state_;
  CacheRole role_;
  AttentionProblem problem_;
  std::vector<float> sinks_;
  std::vector<float> slopes_;
  std::string fall_backs_;
  std::unique_ptr<const Kernel> reference_;
};

std::string why_not(const Instruction& instruction, Isa isa) {
  AttentionProblem problem;
  problem.query = problem.cache = problem.result = element_of(instruction, kQuery);
  if (problem.query == ElementType::f64) return "operands are f64";
  if (has_operand(instruction, kKeyScale)) {
    problem.cache = attribute<ElementType>(instruction, "cache_type");
  }
  problem.size = problem.value_size = head_size(instruction).value_or(1);
  return Attention::refuse(problem, isa);
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  if (has_operand(instruction, kSink)) {
    const Tensor* sink = constant_at(constants, kSink);
    if (sink == nullptr) return {nullptr, "the attention sinks are not constant"};
    if (sink->count() != attribute<int64_t>(instruction, "num_heads")) {
      return {nullptr, fmt::format("{} attention sinks, expected one per head", sink->count())};
    }
  }
  const auto slopes = attribute<Numbers>(instruction, "slopes").size();
  if (slopes != 0 && std::cmp_not_equal(slopes, attribute<int64_t>(instruction, "num_heads"))) {
    return {nullptr, fmt::format("{} ALiBi slopes, expected one per head", slopes)};
  }
  return {std::make_unique<SequenceAttention>(instruction, constants, isa), ""};
}

}  // namespace

const KernelEntry kSequenceAttention{ops::sequence_attention, why_not, make};

}  // namespace lathe::cpu
