// SPDX-License-Identifier: MIT
// sequence_attention and cached_attention: write new keys and values into the pages of the KV
// caches and attend in place. An int8 KV cache is not converted: queries are multiplied by the key
// scales, results by the value scales.
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/support/gqa.h"
#include "ops/support/kv_cache_scale.h"
#include "ops/support/sequence_attention.h"
#include "ops/support/step_tables.h"
#include "ops/support/views.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/attention/attention.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/rope.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

using Operands = SequenceAttentionOperands;
constexpr size_t index(int operand) { return static_cast<size_t>(operand); }

constexpr int64_t kGrain = 8;  // tokens of a task that rotates and stores keys

bool has_dense_rows(const TensorView& view) { return view.strides[3] == 1 || view.dims[3] == 1; }

// Tokens of an item as [heads, tokens, size].
AttentionRows rows_of(const TensorView& view, const StepItem& item) {
  return {row_at(view, 0, item.begin), item.count * view.strides[2], view.strides[1],
          view.strides[2]};
}

// The pages of one launch, by address.
class Pages {
 public:
  Pages(const PagedCache& cache, size_t sequences, std::vector<const std::byte*>& memory)
      : cache_(cache), addresses_(memory) {
    addresses_.clear();
    for (size_t i = 0; i < sequences; ++i) {
      for (int64_t at = 0; at < cache.columns(); ++at) {
        const int32_t id = cache.page(i, at);
        addresses_.push_back(id < 0 ? nullptr : cache.address(id));
      }
    }
  }

  const PagedCache& cache() const { return cache_; }
  AttentionCache from(size_t sequence) const {
    AttentionCache cache;
    cache.head = cache_.view().strides[1];
    cache.row = cache_.view().strides[2];
    cache.pages = addresses_.data() + static_cast<int64_t>(sequence) * cache_.columns();
    cache.table_stride = cache_.columns();
    cache.page_shift = std::countr_zero(static_cast<uint64_t>(cache_.length()));
    return cache;
  }
  // Where a position of a sequence is stored; its heads are head_bytes() apart.
  std::byte* place(size_t sequence, int64_t position) const {
    return cache_.address(cache_.page(sequence, position / cache_.length())) +
           position % cache_.length() * cache_.view().strides[2] * element_bytes();
  }
  int64_t head_bytes() const { return cache_.view().strides[1] * element_bytes(); }

 private:
  int64_t element_bytes() const { return info(cache_.view().type).bits / 8; }

  const PagedCache& cache_;
  std::vector<const std::byte*>& addresses_;
};

// Tokens of one launch.
class Rows {
 public:
  Rows(const GqaAttributes& a, const OpCall& c, const Operands& o, std::span<const StepItem> items,
       Isa isa)
      : items_(items),
        pool_(c.pool()),
        heads_(heads_of(a, c, o)),
        rope_(a, c, {o.cos, o.sin, o.positions}, heads_, items, isa),
        y_(split_heads(c.out(), a.heads)),
        group_(a.heads / a.kv_heads),
        key_scale_(c, o.key_scale, a.kv_heads, heads_.query.dims[3]),
        value_scale_(c, o.value_scale, a.kv_heads, heads_.query.dims[3]) {
    if (!rope_.uses_reference()) return;
    thread_local std::vector<int64_t> angles;
    thread_local std::vector<std::byte> rotated;
    rope_.angles(items, angles);
    heads_.rotate(a, c, o.cos, o.sin, angles, rotated);
  }

  // Requirements of the kernels: contiguous elements of a head, and a page length that is a power
  // of two.
  static bool fit(const GqaAttributes& a, const OpCall& c, const Operands& o,
                  const PagedCache& keys, const PagedCache& values) {
    const GqaHeads heads = heads_of(a, c, o);
    const bool own = !o.appends() || (has_dense_rows(heads.key) && has_dense_rows(heads.value));
    return own && has_dense_rows(heads.query) && has_dense_rows(split_heads(c.out(), a.heads)) &&
           has_dense_rows(keys.view()) && has_dense_rows(values.view()) &&
           std::has_single_bit(static_cast<uint64_t>(keys.length()));
  }

  const GqaHeads& heads() const { return heads_; }
  const TensorView& y() const { return y_; }

  // Rotates queries and keys, and stores new keys and values in their pages.
  void rotate_and_store(const Pages& keys, const Pages& values) {
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
    const auto items = items_;
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
  void attend(const Pages& keys, const Pages& values, const AttentionProblem& problem,
              const float* sinks, const float* slopes, Isa isa) const {
    const Attention attention(problem, isa);
    thread_local std::vector<int64_t> first, length;
    for (size_t from = 0, to = 0; from < items_.size(); from = to) {
      const StepItem& item = items_[from];
      first.clear();
      length.clear();
      for (to = from; to < items_.size() && items_[to].count == item.count; ++to) {
        const int64_t past = items_[to].past;
        first.push_back(problem.causal ? past : 0);
        length.push_back(problem.causal ? past + items_[to].count : past);
      }
      AttentionArguments x;
      x.batch = static_cast<int64_t>(to - from);
      x.queries = item.count;
      x.q = rows_of(heads_.query, item);
      x.y = rows_of(y_, item);
      x.k = keys.from(from);
      x.v = values.from(from);
      x.first = first.data();
      x.length = length.data();
      x.sinks = sinks;
      x.slopes = slopes;
      attention.run(x, pool_);
    }
  }

 private:
  static GqaHeads heads_of(const GqaAttributes& a, const OpCall& c, const Operands& o) {
    return o.appends() ? GqaHeads(a, c, o.query, o.key, o.value) : GqaHeads(a, c, o.query);
  }

  // A dense view with the shape of `like`.
  static TensorView heads_in(float* memory, const TensorView& like) {
    const std::array<int64_t, 3> dims = {1, like.dims[2], like.dims[1] * like.dims[3]};
    return split_heads(dense_view(ElementType::f32, dims, memory), like.dims[1]);
  }

  int64_t position_of(size_t i, int64_t row) const {
    return items_[i].past + row - items_[i].begin;
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

  void store_int8(const TensorView& heads, const Pages& pages, const KvCacheScale& scale, size_t i,
                  int64_t row, bool rotated) const {
    const ScratchArray<float> elements(heads.dims[3]);
    std::byte* to = pages.place(i, position_of(i, row));
    for (int64_t head = 0; head < heads.dims[1]; ++head, to += pages.head_bytes()) {
      const std::byte* from = row_at(heads, head, row);
      if (rotated) {
        rope_.rotate(from, items_[i], row, reinterpret_cast<std::byte*>(elements.data()));
      } else {
        convert(ElementType::f32, elements.data(), heads.type, from, heads.dims[3]);
      }
      scale.quantize(ElementType::i8, head, elements.data(), to);
    }
  }

  void store_row(const TensorView& heads, const Pages& pages, size_t i, int64_t row,
                 bool rotated) const {
    const auto bytes = static_cast<size_t>(heads.dims[3] * (info(heads.type).bits / 8));
    std::byte* to = pages.place(i, position_of(i, row));
    for (int64_t head = 0; head < heads.dims[1]; ++head, to += pages.head_bytes()) {
      const std::byte* from = row_at(heads, head, row);
      if (rotated) {
        rope_.rotate(from, items_[i], row, to);
      } else {
        std::memcpy(to, from, bytes);
      }
    }
  }

  std::span<const StepItem> items_;
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
std::string fall_backs(const Instruction& instruction) {
  const std::string text =
      "; may fall back to ref if the elements of a head are not contiguous or the page length is "
      "not a power of two";
  if (head_size(instruction)) return text;
  return text + fmt::format(" or the head size exceeds {}", Attention::kMaxHeadSize);
}

Operands operands_of(const Instruction& instruction) {
  return sequence_attention_operands(instruction.op() == ops::sequence_attention);
}

class SequenceAttention final : public Kernel {
 public:
  SequenceAttention(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        operands_(operands_of(instruction)),
        attributes_(InstructionReader(instruction)),
        isa_(isa),
        fall_backs_(fall_backs(instruction)),
        reference_(make_reference_kernel(instruction).kernel) {
    problem_.heads = attribute<int64_t>(instruction, "num_heads");
    problem_.key_heads = attribute<int64_t>(instruction, "kv_num_heads");
    problem_.query = problem_.result = element_of(instruction, index(operands_.query));
    problem_.cache = element_of(instruction, index(operands_.key_cache));
    if (has_operand(instruction, index(operands_.key_scale))) {
      problem_.query = problem_.result = ElementType::f32;
    }
    problem_.scale = attribute<double>(instruction, "scale");
    problem_.softcap = attribute<double>(instruction, "softcap");
    problem_.causal = operands_.appends() || attribute<bool>(instruction, "causal");
    for (const double slope : attribute<Numbers>(instruction, "slopes")) {
      slopes_.push_back(static_cast<float>(slope));
    }
    const auto window = attribute<int64_t>(instruction, "local_window_size");
    problem_.left = window > 0 ? window - 1 : -1;
    if (const Tensor* sink = constant_at(constants, index(operands_.sink))) {
      sinks_ = floats_of(*sink);
    } else if (attribute<bool>(instruction, "smooth_softmax")) {
      sinks_.assign(static_cast<size_t>(problem_.heads), 0.0F);
    }
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format(
        "{}, reads {}{}{}{}{}", to_string(isa_),
        problem_.causal ? "a paged KV cache" : "cross-attention states",
        problem_.cache == ElementType::i8 ? " of i8" : "",
        problem_.left >= 0 ? fmt::format(", sliding window of {}", problem_.left + 1) : "",
        slopes_.empty() ? "" : ", ALiBi slopes", fall_backs_);
  }

  void launch(const LaunchArgs& args) const override {
    LaunchViews views(args);
    const OpCall c(origin_, views);
    const Operands& o = operands_;
    // Reused by later launches.
    thread_local std::vector<StepItem> items;
    thread_local std::vector<const std::byte*> key_pages, value_pages;
    read_items(origin_, c.in(o.bounds), c.in(o.past), c.in(o.query).dims[1], items);
    const PagedCache key_cache(o.appends() ? c.out(1) : c.in(o.key_cache), c.in(o.table));
    const PagedCache value_cache(o.appends() ? c.out(2) : c.in(o.value_cache), c.in(o.table));
    if (!Rows::fit(attributes_, c, o, key_cache, value_cache)) return reference_->launch(args);
    Rows rows(attributes_, c, o, items, isa_);
    AttentionProblem problem = problem_;
    problem.size = problem.value_size = rows.heads().query.dims[3];
    if (problem.scale == 0) problem.scale = 1 / std::sqrt(static_cast<double>(problem.size));
    if (!Attention::refuse(problem, isa_).empty()) return reference_->launch(args);
    check_pages(key_cache, items);
    if (o.appends()) {
      continue_version(c.in(o.key_cache), key_cache.view());
      continue_version(c.in(o.value_cache), value_cache.view());
    }
    const Pages keys(key_cache, items.size(), key_pages);
    const Pages values(value_cache, items.size(), value_pages);
    rows.rotate_and_store(keys, values);
    rows.attend(keys, values, problem, sinks_.empty() ? nullptr : sinks_.data(),
                slopes_.empty() ? nullptr : slopes_.data(), isa_);
    if (problem.cache == ElementType::i8) {
      rows.scale_results(split_heads(c.out(), problem.heads));
    }
  }

 private:
  void check_pages(const PagedCache& cache, std::span<const StepItem> items) const {
    for (size_t i = 0; i < items.size(); ++i) {
      const StepItem& item = items[i];
      if (item.count == 0) continue;
      const int64_t first =
          problem_.left >= 0 ? std::max<int64_t>(item.past - problem_.left, 0) : 0;
      cache.check(origin_, i, first, problem_.causal ? item.past + item.count : item.past);
    }
  }

  std::string name_;
  OpOrigin origin_;
  Operands operands_;
  GqaAttributes attributes_;
  Isa isa_;
  AttentionProblem problem_;
  std::vector<float> sinks_;
  std::vector<float> slopes_;
  std::string fall_backs_;
  std::unique_ptr<const Kernel> reference_;
};

std::string why_not(const Instruction& instruction, Isa isa) {
  const Operands o = operands_of(instruction);
  AttentionProblem problem;
  problem.query = problem.result = element_of(instruction, index(o.query));
  if (problem.query == ElementType::f64) return "operands are f64";
  problem.cache = element_of(instruction, index(o.key_cache));
  problem.size = problem.value_size = head_size(instruction).value_or(1);
  return Attention::refuse(problem, isa);
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  const auto at = index(operands_of(instruction).sink);
  if (has_operand(instruction, at)) {
    const Tensor* sink = constant_at(constants, at);
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
const KernelEntry kCachedAttention{ops::cached_attention, why_not, make};

}  // namespace lathe::cpu
