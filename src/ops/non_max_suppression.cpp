// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"

namespace lathe {
namespace {

void infer_non_max_suppression(Infer& c) {
  c.check(c.rank(0) == 3, "boxes have rank {}, expected 3", c.rank(0));
  c.check(c.rank(1) == 3, "scores have rank {}, expected 3", c.rank(1));
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

// Whether intersection over union exceeds the threshold; boxes without area overlap nothing.
bool overlaps(const BoxEdges& a, const BoxEdges& b, float threshold) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (!(height > 0 && width > 0 && a.area > 0 && b.area > 0)) return false;
  const float common = height * width;
  const float either = a.area + b.area - common;
  return either > 0 && common / either > threshold;
}

struct Suppression {
  int64_t boxes;
  int64_t most;
  float overlap;
  float score;
  bool has_score;
};

// The boxes of one class that no better one overlaps, best first; of equal scores the first box.
std::vector<int64_t> select_boxes(const Suppression& s, const BoxEdges* edges,
                                  const float* scores) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < s.boxes; ++i) {
    if (!s.has_score || scores[i] > s.score) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  std::vector<int64_t> kept;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= s.most) break;
    const bool free = std::none_of(kept.begin(), kept.end(), [&](int64_t k) {
      return overlaps(edges[i], edges[k], s.overlap);
    });
    if (free) kept.push_back(i);
  }
  return kept;
}

void eval_non_max_suppression(Evaluation& c) {
  const Tensor boxes = dense_tensor(c.in(0), ElementType::f32);
  const Tensor scores = dense_tensor(c.in(1), ElementType::f32);
  const int64_t count = boxes.dims()[1];
  const int64_t classes = scores.dims()[1];
  const double most = single_number(c, 2, 0);
  const auto overlap = static_cast<float>(single_number(c, 3, 0));
  c.check(overlap >= 0 && overlap <= 1, "iou_threshold is {}, expected 0 to 1", overlap);
  const Suppression s{count, most > 0 ? static_cast<int64_t>(std::min(most, 1e18)) : 0, overlap,
                      static_cast<float>(single_number(c, 4, 0)), c.has(4) && c.in(4).count() > 0};
  std::vector<BoxEdges> edges;
  for (int64_t i = 0; i < boxes.dims()[0] * count; ++i) {
    edges.push_back(edges_of(boxes.as<float>() + i * 4, c.integer("center_point_box") != 0));
  }
  const int64_t rows = boxes.dims()[0] * classes;
  std::vector<std::vector<int64_t>> kept(static_cast<size_t>(rows));
  parallel_for(c.pool, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kept[static_cast<size_t>(row)] =
          select_boxes(s, edges.data() + row / classes * count, scores.as<float>() + row * count);
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
