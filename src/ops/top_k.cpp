// SPDX-License-Identifier: MIT
// Ties take the lower index first; NaN is greater than any number. Results are always sorted.
#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/support/convert_operands.h"
#include "ops/support/indices.h"
#include "ops/support/views.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

void infer_top_k(Infer& c) {
  const int axis = c.axis("axis", c.rank(0));
  c.require_equal(element_count(c.dims(1)), 1, "number of values of k");
  std::vector<Dim> dims = c.dims(0);
  Dim& extent = dims[static_cast<size_t>(axis)];
  if (const std::vector<Dim>* k = c.elements(1)) {
    c.require_less_equal(0, k->front(), "k");
    c.require_less_equal(k->front(), extent, "k and the size of the axis");
    extent = k->front();
  } else {
    extent = c.found("top_k", {0, extent.range().max});
  }
  c.result(c.element(0), dims);
  c.result(ElementType::i64, dims);
}

// A number whose order is that of the elements by compare(), as an unsigned integer of 32 or 64
// bits.
template <class T>
auto ordered(T x) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~Key{0};
    const auto bits = std::bit_cast<Key>(x + T{0});  // -0 as 0
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<Key>(x) ^ kSign);
  } else {
    return static_cast<Key>(x);
  }
}

// The k least entries come first, in order. `room` has at least k; at(i) is entry i of `extent`.
template <class Entry, class At>
void select_least(int64_t extent, int64_t k, At&& at, std::vector<Entry>& room) {
  const auto first = room.begin();
  const auto last = first + k;
  auto end = first;
  Entry limit = at(0);
  bool limited = false;
  for (int64_t i = 0; i < extent; ++i) {
    const Entry entry = at(i);
    if (limited && !(entry < limit)) continue;
    *end++ = entry;
    if (end != room.end()) continue;
    std::nth_element(first, last - 1, end);
    limit = *(last - 1);
    limited = true;
    end = last;
  }
  if (end != last) std::nth_element(first, last - 1, end);
  std::sort(first, last);
}

// The places of the k first elements of a row.
template <class T>
class TopOfRow {
 public:
  TopOfRow(int64_t extent, int64_t k, bool largest)
      : extent_(extent), k_(k), flip_(largest ? ~Key{0} : Key{0}) {
    constexpr int64_t kRoom = 256;
    const auto room = static_cast<size_t>(std::min(extent, k + std::max(k, kRoom)));
    if (packs()) {
      packed_.resize(room);
    } else {
      pairs_.resize(room);
    }
  }

  template <class Write>
  void operator()(const T* row, int64_t stride, Write&& write) {
    if (packs()) {
      select_least(
          extent_, k_, [&](int64_t i) { return uint64_t{key(row[i * stride])} << 32 | index(i); },
          packed_);
      for (int64_t i = 0; i < k_; ++i)
        write(i, static_cast<int64_t>(packed_[static_cast<size_t>(i)] & 0xffffffff));
    } else {
      select_least(
          extent_, k_, [&](int64_t i) { return std::pair(key(row[i * stride]), i); }, pairs_);
      for (int64_t i = 0; i < k_; ++i) write(i, pairs_[static_cast<size_t>(i)].second);
    }
  }

 private:
  using Key = decltype(ordered(T{}));

  bool packs() const { return sizeof(Key) == 4 && extent_ <= int64_t{1} << 32; }
  Key key(T x) const { return ordered(x) ^ flip_; }
  static uint64_t index(int64_t i) { return static_cast<uint64_t>(i); }

  int64_t extent_;
  int64_t k_;
  Key flip_;
  std::vector<uint64_t> packed_;  // key, index
  std::vector<std::pair<Key, int64_t>> pairs_;
};

void eval_top_k(Evaluation& c) {
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand x(c.in(0), type);
  const int axis = c.axis("axis", x.view().rank);
  const int64_t extent = x.view().dims[axis];
  const int64_t k = single_value(c, 1);
  c.check(k >= 0 && k <= extent, "k is {}, the axis has size {}", k, extent);
  const TensorView groups = narrow(x.view(), axis, 0, std::min<int64_t>(extent, 1));
  Dims dims = dims_of(x.view());
  dims[static_cast<size_t>(axis)] = k;
  const ConvertedResult values(c.out(0, dims), type);
  const TensorView& places = c.out(1, dims);
  if (values.view().count() == 0) return;
  const bool largest = c.boolean("largest");
  const int64_t grain = std::max<int64_t>(1, 8192 / extent);
  with_number_type(type, [&]<class T>(T*) {
    const int64_t stride = x.view().strides[axis];
    parallel_for(c.pool, groups.count(), grain, [&](int64_t begin, int64_t end) {
      TopOfRow<T> top(extent, k, largest);
      for (int64_t flat = begin; flat < end; ++flat) {
        const T* row = x.view().as<const T>();
        T* value = values.view().as<T>();
        int64_t* place = places.as<int64_t>();
        int64_t rest = flat;
        for (int at = groups.rank - 1; at >= 0; --at) {
          const int64_t index = rest % groups.dims[at];
          rest /= groups.dims[at];
          row += index * groups.strides[at];
          value += index * values.view().strides[at];
          place += index * places.strides[at];
        }
        top(row, stride, [&](int64_t i, int64_t from) {
          value[i * values.view().strides[axis]] = row[from * stride];
          place[i * places.strides[axis]] = from;
        });
      }
    });
  });
  values.store();
}

}  // namespace

static const Register top_k{{
    .name = "top_k",
    .doc = "The k largest or smallest elements along an axis, in order, and their indices.",
    .operands = {{"x", kNumeric}, {"k", types(ElementType::i64)}},
    .attributes = {{"axis", -1}, {"largest", Attribute(true)}, {"sorted", Attribute(true)}},
    .on_host = {1},
    .results = 2,
    .infer = infer_top_k,
    .eval = eval_top_k,
    .tokens = tokens_beside_axis_attribute,
}};

}  // namespace lathe
