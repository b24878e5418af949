// SPDX-License-Identifier: MIT
// Decode over a long paged KV cache, several key heads per task: the bits of the contiguous cache
// with one block per task. (Processors without the fused kernel run the same blocks in both cases.)
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/attention/attention.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

struct Shape {
  int64_t heads = 4;
  int64_t key_heads = 1;
  int64_t size = 64;
  int64_t value_size = 64;
  int64_t queries = 1;
  int64_t left = -1;
  std::vector<int64_t> lengths = {1100, 640, 130, 7};
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.heads << " heads, " << s.key_heads << " key heads, sizes " << s.size << " and "
             << s.value_size << ", " << s.queries << " queries, window " << s.left;
}

// One KV cache as a [batch, key heads, keys, size] tensor and as pages.
class PagedCache {
 public:
  PagedCache(const Shape& s, ElementType type)
      : shape_(s),
        longest_(*std::max_element(s.lengths.begin(), s.lengths.end())),
        random_(static_cast<uint32_t>(s.heads * 1000 + s.size + s.value_size)),
        q_(type, batch() * s.heads * s.queries * s.size),
        k_(type, batch() * s.key_heads * longest_ * s.size),
        v_(type, batch() * s.key_heads * longest_ * s.value_size),
        y_(ElementType::f32, batch() * s.heads * s.queries * s.value_size) {
    std::normal_distribution<double> normal;
    for (Guarded* to : {&q_, &k_, &v_}) {
      for (int64_t i = 0; i < to->count(); ++i) to->set(i, normal(random_));
    }
    for (const int64_t length : s.lengths)
      first_.push_back(std::max<int64_t>(0, length - s.queries));
    problem_.heads = s.heads;
    problem_.key_heads = s.key_heads;
    problem_.size = s.size;
    problem_.value_size = s.value_size;
    problem_.query = problem_.cache = type;
    problem_.result = ElementType::f32;
    problem_.use_bf16 = type == ElementType::bf16;
    problem_.scale = 1 / std::sqrt(static_cast<double>(s.size));
    problem_.causal = true;
    problem_.left = s.left;
  }
  // Sets every element of one key.
  void set_key(int64_t row, int64_t key_head, int64_t key, double value) {
    const int64_t at = (row * shape_.key_heads + key_head) * longest_ + key;
    for (int64_t i = 0; i < shape_.size; ++i) k_.set(at * shape_.size + i, value);
  }

  std::vector<float> run_contiguous(Isa isa, ThreadPool& pool) {
    AttentionArguments x;
    x.k.data = k_.data();
    x.k.batch = shape_.key_heads * longest_ * shape_.size;
    x.k.head = longest_ * shape_.size;
    x.k.row = shape_.size;
    x.v.data = v_.data();
    x.v.batch = shape_.key_heads * longest_ * shape_.value_size;
    x.v.head = longest_ * shape_.value_size;
    x.v.row = shape_.value_size;
    x.split = 1;
    return run(isa, x, pool);
  }

  // Copies the cache to pages of `rows` keys. `follow`: all key pages in order, then all value
  // pages; otherwise shuffled pages that hold keys and values.
  void make_pages(int64_t rows, bool follow) {
    const Shape& s = shape_;
    const int64_t stride = (longest_ + rows - 1) / rows;
    page_rows_ = rows;
    table_.resize(static_cast<size_t>(batch() * stride));
    std::iota(table_.begin(), table_.end(), 0);
    if (!follow) std::shuffle(table_.begin(), table_.end(), random_);
    const int64_t keys = s.key_heads * rows * s.size, values = s.key_heads * rows * s.value_size;
    k_page_ = follow ? keys : keys + values;
    v_page_ = follow ? values : keys + values;
    values_begin_ = follow ? std::ssize(table_) * keys : keys;
    memory_ = Guarded(k_.type(), std::ssize(table_) * (keys + values));
    k_pages_.assign(table_.size(), nullptr);
    v_pages_.assign(table_.size(), nullptr);
    for (int64_t b = 0; b < batch(); ++b) {
      const int64_t length = s.lengths[static_cast<size_t>(b)];
      for (int64_t key = 0; key < length; ++key) {
        const auto entry = static_cast<size_t>(b * stride + key / rows);
        const int64_t k = table_[entry] * k_page_, v = values_begin_ + table_[entry] * v_page_;
        for (int64_t h = 0; h < s.key_heads; ++h) {
          const int64_t from = (b * s.key_heads + h) * longest_ + key;
          const int64_t row = h * rows + key % rows;
          copy(k_, from, memory_, k + row * s.size, s.size);
          copy(v_, from, memory_, v + row * s.value_size, s.value_size);
        }
        const int64_t lowest = s.left < 0 ? 0 : first_[static_cast<size_t>(b)] - s.left;
        if (key < lowest) continue;
        k_pages_[entry] = memory_.data() + bytes_for(k_.type(), k);
        v_pages_[entry] = memory_.data() + bytes_for(k_.type(), follow ? v : k);
      }
    }
  }

  // `by_address`: the call has page addresses, null outside the window, instead of a block table.
  std::vector<float> run_pages(Isa isa, bool by_address, int64_t split, ThreadPool& pool) {
    const Shape& s = shape_;
    const int64_t rows = page_rows_;
    AttentionArguments x;
    for (AttentionCache* cache : {&x.k, &x.v}) {
      const bool values = cache == &x.v;
      const int64_t offset = bytes_for(k_.type(), values ? values_begin_ : 0);
      cache->row = values ? s.value_size : s.size;
      cache->head = rows * cache->row;
      cache->table_stride = (longest_ + rows - 1) / rows;
      cache->page_shift = std::countr_zero(static_cast<uint64_t>(rows));
      if (by_address) {
        cache->pages = (values ? v_pages_ : k_pages_).data();
        cache->page_offset = k_pages_ == v_pages_ ? offset : 0;
      } else {
        cache->data = memory_.data() + offset;
        cache->table = table_.data();
        cache->batch = values ? v_page_ : k_page_;
      }
    }
    x.split = split;
    return run(isa, x, pool);
  }

 private:
  int64_t batch() const { return std::ssize(shape_.lengths); }
  static void copy(const Guarded& from, int64_t row, Guarded& to, int64_t at, int64_t count) {
    std::memcpy(to.data() + bytes_for(to.type(), at),
                from.data() + bytes_for(from.type(), row * count),
                static_cast<size_t>(bytes_for(to.type(), count)));
  }

  std::vector<float> run(Isa isa, AttentionArguments& x, ThreadPool& pool) {
    const Shape& s = shape_;
    std::fill_n(reinterpret_cast<float*>(y_.data()), y_.count(), 0.0F);
    x.batch = batch();
    x.queries = s.queries;
    x.q = {q_.data(), s.heads * s.queries * s.size, s.queries * s.size, s.size};
    x.y = {y_.data(), s.heads * s.queries * s.value_size, s.queries * s.value_size, s.value_size};
    x.first = first_.data();
    x.length = s.lengths.data();
    Attention(problem_, isa).run(x, &pool);
    EXPECT_TRUE(y_.guards_hold());
    const auto* results = reinterpret_cast<const float*>(y_.data());
    return {results, results + y_.count()};
  }

  const Shape shape_;
  const int64_t longest_;
  std::mt19937 random_;
  Guarded q_, k_, v_, y_;
  std::vector<int64_t> first_;
  int64_t page_rows_ = 0;
  std::vector<int32_t> table_;
  int64_t k_page_ = 0;  // elements between the keys of two pages
  int64_t v_page_ = 0;
  int64_t values_begin_ = 0;  // elements before the values of the first page
  std::vector<const std::byte*> k_pages_, v_pages_;
  Guarded memory_{ElementType::f32, 0};
  AttentionProblem problem_;
};

// Compares bits; any NaN equals any NaN.
void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const bool same = std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i]);
    ASSERT_TRUE(same || (std::isnan(found[i]) && std::isnan(expected[i])))
        << "result " << i << ": expected " << expected[i] << ", found " << found[i];
  }
}

const Shape kShapes[] = {
    {.heads = 8, .key_heads = 2},
    {.heads = 9, .key_heads = 3, .size = 32},
    {.heads = 4, .key_heads = 4, .size = 80, .value_size = 128},
    {.heads = 6, .key_heads = 3, .size = 128, .value_size = 128, .left = 300},
    {.heads = 4, .key_heads = 2, .size = 128, .queries = 2, .left = 600},
    {.heads = 5, .key_heads = 5, .size = 24, .queries = 3},
    {.heads = 4, .lengths = {5000}},  // several fused calls
    {.heads = 32, .key_heads = 8, .lengths = {512, 1300}},
};

TEST(PagedDecode, HasTheBitsOfTheContiguousCache) {
  ThreadPool one(1), three(3);
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    int64_t other = 32;  // a second page size, doubled for each shape
    for (const Shape& shape : kShapes) {
      PagedCache cache(shape, type);
      for (const int64_t rows : {-other, int64_t{-16}, int64_t{16}, other}) {  // below 0: shuffled
        cache.make_pages(std::abs(rows), rows > 0);
        for (const Isa isa : host_isas()) {
          if (isa < Isa::avx512 && rows != 16) continue;  // one code path, slow to emulate
          SCOPED_TRACE(testing::Message() << to_string(isa) << ", " << to_string(type) << ", "
                                          << shape << ", pages of " << rows);
          const std::vector<float> expected = cache.run_contiguous(isa, three);
          const bool by_address = std::abs(rows) != 32 && std::abs(rows) != 128;
          expect_same(cache.run_pages(isa, by_address, 0, three), expected);
          if (isa < Isa::avx512) continue;
          expect_same(cache.run_pages(isa, by_address, 1, one), expected);
          expect_same(cache.run_pages(isa, by_address, 3, three), expected);
        }
      }
      other = other < 256 ? 2 * other : 32;
    }
  }
}

// A non-finite key affects the same results as in the contiguous cache.
TEST(PagedDecode, NonFiniteKeysHaveTheSameEffectAsInTheContiguousCache) {
  ThreadPool pool(2);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Shape shape{.heads = 8, .key_heads = 2, .lengths = {1300}};
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    for (const double value : {kInfinity, -kInfinity, std::nan("")}) {
      for (const int64_t key : {5, 140, 400}) {
        PagedCache cache(shape, type);
        cache.set_key(0, 1, key, value);
        cache.make_pages(16, true);
        for (const Isa isa : host_isas()) {
          SCOPED_TRACE(testing::Message() << to_string(isa) << ", " << to_string(type) << ", key "
                                          << key << " of " << value);
          expect_same(cache.run_pages(isa, true, 0, pool), cache.run_contiguous(isa, pool));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
