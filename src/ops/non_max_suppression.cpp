// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <limits>

#include "base/thread_pool.h"
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_non_max_suppression(Infer& c) {
  require_ranks(c, {3, 3});
  c.require_equal(c.dim(0, 2), 4, "numbers per box");
  c.require_equal(c.dim(0, 0), c.dim(1, 0), "batch of boxes and scores");
  c.require_equal(c.dim(0, 1), c.dim(1, 2), "boxes and scores per class");
  const Range all = element_count(c.dims(1)).range();
  c.result(ElementType::i64, {c.found("boxes", {0, all.max}), 3});
}

struct BoxEdges {
  float y0, x0, y1, x1, area;
};

// Corners in any order, or centre and size.
BoxEdges edges_of(const float* box, bool centred) {
  float x0 = box[1], y0 = box[0], x1 = box[3], y1 = box[2];
  if (centred) {
    x0 = box[0] - box[2] / 2;
    x1 = box[0] + box[2] / 2;
    y0 = box[1] - box[3] / 2;
    y1 = box[1] + box[3] / 2;
  }
  if (x0 > x1) std::swap(x0, x1);
  if (y0 > y1) std::swap(y0, y1);
  return {y0, x0, y1, x1, (y1 - y0) * (x1 - x0)};
}

struct Suppression {
  int64_t boxes;
  int64_t most;
  float overlap;
  float score;
  bool has_score;
  bool centred;
};

// The edges of kept boxes, one list per edge, for vector instructions.
class KeptBoxes {
 public:
  bool overlap(const BoxEdges& box, float threshold) const {
    constexpr size_t kBlock = 16;
    for (size_t first = 0; first < area_.size(); first += kBlock) {
      int hits = 0;
      for (size_t i = first; i < std::min(first + kBlock, area_.size()); ++i) {
        const float height = std::min(box.y1, y1_[i]) - std::max(box.y0, y0_[i]);
        const float width = std::min(box.x1, x1_[i]) - std::max(box.x0, x0_[i]);
        const float common = height * width;
        const float either = box.area + area_[i] - common;
        // Boxes without area overlap nothing.
        hits |= (height > 0) & (width > 0) & (box.area > 0) & (area_[i] > 0) & (either > 0) &
                (common / either > threshold);
      }
      if (hits != 0) return true;
    }
    return false;
  }
  void add(const BoxEdges& box) {
    y0_.push_back(box.y0);
    x0_.push_back(box.x0);
    y1_.push_back(box.y1);
    x1_.push_back(box.x1);
    area_.push_back(box.area);
  }

 private:
  std::vector<float> y0_, x0_, y1_, x1_, area_;
};

// Orders by score, then by the lower index: the score's bits as an ordered integer above the
// inverted index.
uint64_t rank_of(float score, int64_t box) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // no negative zero
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return uint64_t{ordered} << 32 | ~static_cast<uint32_t>(box);
}

// The boxes of one class that no better one overlaps, best first; of equal scores the first box.
std::vector<int64_t> select_boxes(const Suppression& s, const float* boxes, const float* scores) {
  std::vector<uint64_t> heap(static_cast<size_t>(s.boxes));
  size_t count = 0;
  for (int64_t i = 0; i < s.boxes; ++i) {
    heap[count] = rank_of(scores[i], i);
    count += !s.has_score || scores[i] > s.score ? 1 : 0;
  }
  heap.resize(count);
  // A heap sorts the candidates up to the last one needed.
  std::make_heap(heap.begin(), heap.end());
  std::vector<int64_t> kept;
  KeptBoxes kept_boxes;
  for (auto end = heap.end(); end != heap.begin() && std::ssize(kept) < s.most; --end) {
    std::pop_heap(heap.begin(), end);
    const int64_t box = ~static_cast<uint32_t>(end[-1]);
    const BoxEdges edges = edges_of(boxes + box * 4, s.centred);
    if (kept_boxes.overlap(edges, s.overlap)) continue;
    kept.push_back(box);
    kept_boxes.add(edges);
  }
  return kept;
}

void eval_non_max_suppression(Evaluation& c) {
  const DenseOperand boxes(c.in(0), ElementType::f32);
  const DenseOperand scores(c.in(1), ElementType::f32);
  const int64_t count = boxes.extent(1);
  const int64_t classes = scores.extent(1);
  c.check(count <= UINT32_MAX, "{} boxes are too many, expected at most 2^32 - 1", count);
  const double most = single_number(c, 2, 0);
  const auto overlap = static_cast<float>(single_number(c, 3, 0));
  c.check(overlap >= 0 && overlap <= 1, "iou_threshold is {}, expected 0 to 1", overlap);
  const Suppression s{count,
                      most > 0 ? static_cast<int64_t>(std::min(most, 1e18)) : 0,
                      overlap,
                      static_cast<float>(single_number(c, 4, 0)),
                      c.has(4) && c.in(4).count() > 0,
                      c.integer("center_point_box") != 0};
  const int64_t rows = boxes.extent(0) * classes;
  std::vector<std::vector<int64_t>> kept(static_cast<size_t>(rows));
  parallel_for(c.pool, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kept[static_cast<size_t>(row)] = select_boxes(
          s, boxes.as<float>() + row / classes * count * 4, scores.as<float>() + row * count);
    }
  });
  std::vector<int64_t> triples;
  for (int64_t row = 0; row < rows; ++row) {
    for (const int64_t box : kept[static_cast<size_t>(row)]) {
      triples.insert(triples.end(), {row / classes, row % classes, box});
    }
  }
  const Dims dims = {static_cast<int64_t>(triples.size()) / 3, 3};
  const Tensor selected(ElementType::i64, dims);
  std::copy(triples.begin(), triples.end(), selected.as<int64_t>());
  store_tensor(selected, c.out(0, dims));
}

}  // namespace

static const Register non_max_suppression{{
    .name = "non_max_suppression",
    .doc = "Boxes of each class that overlap no better one, as [batch, class, box] triples.",
    .operands = {{"boxes", kFloats},
                 {"scores", kFloats},
                 {"max_output_boxes_per_class", kIndices, Arity::optional},
                 {"iou_threshold", kFloats, Arity::optional},
                 {"score_threshold", kFloats, Arity::optional}},
    .attributes = {{"center_point_box", 0}},
    .on_host = {2, 3, 4},
    .infer = infer_non_max_suppression,
    .eval = eval_non_max_suppression,
}};

}  // namespace lathe
