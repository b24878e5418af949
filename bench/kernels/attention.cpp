// SPDX-License-Identifier: MIT
// attention: batch, heads, kv_heads, size, m queries at the end of n keys, causal. int8: an int8 KV
// cache with one scale per head and key. page: keys per page of a paged KV cache.
#include "bench/kernels/attention.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "bench/kernels/inputs.h"
#include "bench/kernels/peak.h"
#include "targets/cpu/kernels/attention/attention.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace lathe::bench {
namespace {

constexpr float kLargest = 127;
constexpr int64_t kStreamed = int64_t{768} << 20;  // larger than any L3
constexpr int64_t kReadAtOnce = int64_t{192} << 20;

Tensor filled(ElementType type, uint64_t operand, const Dims& dims) {
  const Tensor out(type, dims);
  std::vector<float> from = operand_values(operand, out.count(), Range::real);
  if (type == ElementType::i8) {
    for (float& x : from) x = std::round(x * kLargest);
  }
  convert(type, out.data(), ElementType::f32, from.data(), out.count());
  return out;
}

class ReadyAttention final : public Ready {
 public:
  ReadyAttention(const Problem& p, ThreadPool& pool, cpu::Isa isa)
      : p_(p), pool_(pool), attention_(problem_of(p), isa) {
    const ElementType type = attention_.problem().query, cache = attention_.problem().cache;
    // A decode step reads the KV cache of each layer once, from memory.
    const int64_t copies = p["m"] == 1 ? kStreamed / p.bytes() + 1 : rotations(p);
    for (int64_t i = 0; i < copies; ++i) {
      q_.push_back(filled(type, 0, {p["batch"], p["m"], p["heads"], p["size"]}));
      if (i == 0) {
        k_.push_back(filled(cache, 1, {p["batch"], p["kv_heads"], p["n"], p["size"]}));
        v_.push_back(filled(cache, 2, {p["batch"], p["kv_heads"], p["n"], p["size"]}));
      } else {
        k_.push_back(k_[0].clone());
        v_.push_back(v_[0].clone());
      }
      y_.emplace_back(type, q_[0].dims());
    }
    first_.assign(static_cast<size_t>(p["batch"]), p["causal"] != 0 ? p["n"] - p["m"] : 0);
    length_.assign(first_.size(), p["n"]);
    for (int64_t i = 0; p["page"] > 0 && i < p["batch"] * p["n"] / p["page"]; ++i) {
      table_.push_back(static_cast<int32_t>(i));
    }
    scales_.assign(static_cast<size_t>(p["batch"] * p["kv_heads"] * p["n"]), 1.0F / kLargest);
  }

  void run(int64_t count) override {
    for (; count > 0; --count, at_ = (at_ + 1) % q_.size()) run_one(at_);
  }

  std::vector<float> result() override {
    run_one(0);
    std::vector<float> out(static_cast<size_t>(y_[0].count()));
    convert(ElementType::f32, out.data(), y_[0].type(), y_[0].data(), y_[0].count());
    return out;
  }

  // Reads the KV caches of the case: bandwidth depends on their pages and varies over time.
  double read_rate() override {
    if (p_["m"] != 1) return 0;
    int64_t bytes = 0;
    std::vector<std::span<const std::byte>> parts;
    for (; bytes < kReadAtOnce; at_ = (at_ + 1) % k_.size()) {
      for (const Tensor* t : {&k_[at_], &v_[at_]}) {
        parts.emplace_back(static_cast<const std::byte*>(t->data()),
                           static_cast<size_t>(t->byte_size()));
        bytes += t->byte_size();
      }
    }
    const auto begin = std::chrono::steady_clock::now();
    read_memory(parts, pool_);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(bytes) / seconds.count();
  }

  std::string_view isa() const override { return to_string(attention_.isa()); }

 private:
  static cpu::AttentionProblem problem_of(const Problem& p) {
    cpu::AttentionProblem out;
    out.heads = p["heads"];
    out.key_heads = p["kv_heads"];
    out.size = out.value_size = p["size"];
    out.query = out.cache = out.result = p.type == "bf16" ? ElementType::bf16 : ElementType::f32;
    if (p.type == "int8") out.cache = ElementType::i8;
    out.use_bf16 = p.type != "f32";
    out.scale = 1 / std::sqrt(static_cast<double>(out.size));
    out.causal = p["causal"] != 0;
    return out;
  }

  void run_one(size_t i) {
    cpu::AttentionArguments x;
    x.batch = p_["batch"];
    x.queries = p_["m"];
    x.q = {q_[i].data(), q_[i].strides()[0], q_[i].strides()[2], q_[i].strides()[1]};
    x.y = {y_[i].data(), y_[i].strides()[0], y_[i].strides()[2], y_[i].strides()[1]};
    const auto cache = [&](const Tensor& from) {
      cpu::AttentionCache out;
      out.data = from.data();
      out.batch = from.strides()[0];
      out.head = from.strides()[1];
      out.row = from.strides()[2];
      out.scales = scales_.data();
      out.scale_batch = p_["kv_heads"] * p_["n"];
      out.scale_head = p_["n"];
      out.scale_row = 1;
      if (const int64_t page = p_["page"]; page > 0) {  // [pages, heads, page, size]
        out.batch = p_["kv_heads"] * page * p_["size"];
        out.head = page * p_["size"];
        out.scale_batch = p_["kv_heads"] * page;
        out.scale_head = page;
        out.table = table_.data();
        out.table_stride = p_["n"] / page;
        out.page_shift = std::countr_zero(static_cast<uint64_t>(page));
      }
      return out;
    };
    x.k = cache(k_[i]);
    x.v = cache(v_[i]);
    x.first = first_.data();
    x.length = length_.data();
    attention_.run(x, &pool_);
  }

  const Problem p_;
  ThreadPool& pool_;
  const cpu::Attention attention_;
  std::vector<Tensor> q_, k_, v_, y_;
  std::vector<int64_t> first_, length_;
  std::vector<float> scales_;
  std::vector<int32_t> table_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Ready> prepare_attention(const Problem& p, ThreadPool& pool) {
  const std::optional<cpu::Isa> isa = cpu::best_isa();
  check(isa.has_value(), ErrorKind::unsupported, "attention of {} requires AVX2", p.type);
  return std::make_unique<ReadyAttention>(p, pool, *isa);
}

}  // namespace lathe::bench
