// SPDX-License-Identifier: MIT
// Operators of earlier opsets. Expected values are computed by hand, or by ONNX Runtime where
// noted.
#include "tests/import/onnx/import_support.h"

namespace lathe {
namespace {

using namespace test;
using Floats = std::vector<float>;

// Runs one node `y = …` on x and, if it is used, z.
Floats run_node(int opset, std::string_view node, std::vector<Box> inputs,
                std::string_view types = "float[?] x") {
  return run_floats(fmt::format(R"(<ir_version: 3, opset_import: ["" : {}]>
                                g ({}) => (float[?] y) {{ {} }})",
                                opset, types, node),
                    std::move(inputs));
}

const Box kMatrix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(OldOpsets, AddBroadcastsFromAnAxis) {
  EXPECT_EQ(run_node(6, "y = Add<axis = 0, broadcast = 1>(x, z)", {kMatrix, floats({2}, {10, 20})},
                     "float[2, 3] x, float[2] z"),
            (Floats{11, 12, 13, 24, 25, 26}));
  EXPECT_EQ(run_node(1, "y = Mul<broadcast = 1, consumed_inputs = [0, 1]>(x, z)",
                     {kMatrix, floats({3}, {1, 0, 2})}, "float[2, 3] x, float[3] z"),
            (Floats{1, 0, 6, 4, 0, 12}));
}

TEST(OldOpsets, ClipHasItsBoundsAsAttributes) {
  EXPECT_EQ(run_node(6, "y = Clip<min = 2.0, max = 5.0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{2, 2, 3, 4, 5, 5}));
  EXPECT_EQ(run_node(6, "y = Clip<max = 3.0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{1, 2, 3, 3, 3, 3}));
}

TEST(OldOpsets, ReductionsAndShapesHaveTheirAxesAsAttributes) {
  EXPECT_EQ(run_node(11, "y = ReduceMax<axes = [0], keepdims = 0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{4, 5, 6}));
  EXPECT_EQ(run_node(11, "y = ReduceSum(x)", {kMatrix}, "float[2, 3] x"), (Floats{21}));
  const auto results = run_text(R"(<ir_version: 6, opset_import: ["" : 11]>
      g (float[2, 3] x) => (float[2, 1, 3] y, float[2, 3] z) {
        y = Unsqueeze<axes = [1]>(x)
        z = Squeeze<axes = [1]>(y)
      })",
                                {kMatrix});
  EXPECT_EQ(results[0].tensor().dims(), (Dims{2, 1, 3}));
  EXPECT_EQ(results[1].tensor().dims(), (Dims{2, 3}));
}

TEST(OldOpsets, SliceSplitAndPadHaveAttributes) {
  EXPECT_EQ(
      run_node(9, "y = Slice<starts = [1, 0], ends = [2, -1]>(x)", {kMatrix}, "float[2, 3] x"),
      (Floats{4, 5}));
  EXPECT_EQ(run_node(9, "y = Slice<axes = [1], starts = [-1], ends = [100]>(x)", {kMatrix},
                     "float[2, 3] x"),
            (Floats{3, 6}));
  EXPECT_EQ(run_node(2, "y = Pad<pads = [0, 1, 0, 0], value = 7.0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{7, 1, 2, 3, 7, 4, 5, 6}));
  EXPECT_EQ(run_node(1, "y = Pad<paddings = [1, 0, 0, 0]>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{0, 0, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run_node(2, "t, y = Split<axis = 1, split = [1, 2]>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{2, 3, 5, 6}));
  EXPECT_EQ(run_node(2, "t, u, y = Split<axis = 1>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{3, 6}));
}

TEST(OldOpsets, ReshapeTileAndTopKHaveAttributes) {
  EXPECT_EQ(
      run_node(1, "t = Reshape<shape = [3, -1]>(x) y = ReduceSum<axes = [1], keepdims = 0>(t)",
               {kMatrix}, "float[2, 3] x"),
      (Floats{3, 7, 11}));
  EXPECT_EQ(run_floats(R"(<ir_version: 3, opset_import: ["" : 5]>
                g (float[1, 2] x) => (float[2, 2] y) <float n = {2}, float a = {0}> {
                  y = Tile(x, n, a) })",
                       {floats({1, 2}, {1, 2})}),
            (Floats{1, 2, 1, 2}));
  EXPECT_EQ(run_node(9, "y, t = TopK<k = 2>(x)", {kMatrix}, "float[2, 3] x"), (Floats{3, 2, 6, 5}));
}

// The operand is a matrix split at the axis: here one row of six.
TEST(OldOpsets, SoftmaxCoversAllAxesFromItsOwn) {
  EXPECT_EQ(run_node(11, "y = Hardmax<axis = 0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(run_node(13, "y = Hardmax<axis = 0>(x)", {kMatrix}, "float[2, 3] x"),
            (Floats{0, 0, 0, 1, 1, 1}));
  const Floats soft = run_node(9, "y = Softmax<axis = 0>(x)", {floats({2, 1, 2}, {0, 0, 0, 0})},
                               "float[2, 1, 2] x");
  EXPECT_EQ(soft, (Floats{0.25F, 0.25F, 0.25F, 0.25F}));
}

TEST(OldOpsets, CastNamesItsType) {
  const auto results = run_text(R"(<ir_version: 3, opset_import: ["" : 5]>
      g (float[2] x) => (int64[2] y) { y = Cast<to = "INT64">(x) })",
                                {floats({2}, {1.7F, -2.2F})});
  EXPECT_EQ(results[0].tensor().type(), ElementType::i64);
  EXPECT_EQ(results[0].tensor().as<int64_t>()[1], -2);
  EXPECT_TRUE(contains(import_error(R"(<ir_version: 3, opset_import: ["" : 5]>
      g (float[2] x) => (int64[2] y) { y = Cast<to = "INT65">(x) })"),
                       "attribute 'to' is 'INT65', which is not an element type"));
}

TEST(OldOpsets, DropoutKeepsEverything) {
  const auto results = run_text(R"(<ir_version: 3, opset_import: ["" : 7]>
      g (float[2] x) => (float[2] y, float[2] mask) { y, mask = Dropout<ratio = 0.9>(x) })",
                                {floats({2}, {1, 2})});
  EXPECT_EQ(values_of(results[0]), (Floats{1, 2}));
  EXPECT_EQ(values_of(results[1]), (Floats{1, 1}));
  EXPECT_TRUE(contains(import_error(R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout(x, r, t) })"),
                       "Unsupported: training_mode (input 2 of 3) requires attribute 'seed'"));
}

TEST(OldOpsets, MaxPoolReturnsNoIndices) {
  EXPECT_EQ(run_node(7, "y = MaxPool<kernel_shape = [2]>(x)", {floats({1, 1, 3}, {1, 3, 2})},
                     "float[1, 1, 3] x"),
            (Floats{3, 3}));
  EXPECT_TRUE(contains(import_error(R"(<ir_version: 3, opset_import: ["" : 7]>
      g (float[1, 1, 3] x) => (float[1, 1, 2] y, int64[1, 1, 2] i) {
        y, i = MaxPool<kernel_shape = [2]>(x) })"),
                       "output 1 is used, MaxPool has 1 outputs before opset 8"));
}

TEST(OldOpsets, BatchNormalizationNamesStatisticsOfTraining) {
  EXPECT_EQ(run_floats(R"(<ir_version: 3, opset_import: ["" : 6]>
      g (float[1, 2] x) => (float[1, 2] y)
      <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {1, 1}, float[2] v = {1, 4}> {
        y, mean, variance, a, c = BatchNormalization<is_test = 1, spatial = 1, epsilon = 0.0>
                                      (x, s, b, m, v) })",
                       {floats({1, 2}, {3, 5})}),
            (Floats{2, 5}));
}

// Scale and bias are per group; every group of two channels is normalised to -1 and 1.
TEST(OldOpsets, GroupNormalizationScalesGroups) {
  EXPECT_EQ(run_floats(R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[1, 4, 1] x) => (float[1, 4, 1] y) <float[2] s = {2, 3}, float[2] b = {10, 20}> {
        y = GroupNormalization<num_groups = 2, epsilon = 0.0>(x, s, b) })",
                       {floats({1, 4, 1}, {0, 2, 5, 7})}),
            (Floats{8, 12, 17, 23}));
}

TEST(OldOpsets, UpsampleAndResizeRepeatElements) {
  const Floats wide = {1, 1, 2, 2, 3, 3};
  const Box image = floats({1, 1, 1, 3}, {1, 2, 3});
  EXPECT_EQ(run_node(1, "y = Upsample<width_scale = 2.0, height_scale = 1.0>(x)", {image},
                     "float[1, 1, 1, 3] x"),
            wide);
  EXPECT_EQ(
      run_node(7, "y = Upsample<scales = [1.0, 1.0, 1.0, 2.0]>(x)", {image}, "float[1, 1, 1, 3] x"),
      wide);
  const std::string sized = R"(<ir_version: 5, opset_import: ["" : 10]>
      g (float[1, 1, 1, 3] x) => (float[1, 1, 1, ?] y) <float[4] s = {{1, 1, 1, {}}}> {{
        y = Resize(x, s) }})";
  EXPECT_EQ(run_floats(fmt::format(fmt::runtime(sized), "2"), {image}), wide);
  // ONNX Runtime: 3 elements at scale 0.67, coordinates 0 and 1.49, rounded up.
  EXPECT_EQ(run_floats(fmt::format(fmt::runtime(sized), "0.67"), {image}), (Floats{1, 3}));
}

TEST(OldOpsets, SlopesOfRankOneArePerChannel) {
  EXPECT_EQ(
      run_node(6, "y = PRelu(x, z)", {floats({1, 2, 2}, {-1, 1, -1, -2}), floats({2}, {10, 100})},
               "float[1, 2, 2] x, float[2] z"),
      (Floats{-10, 1, -100, -200}));
}

TEST(OldOpsets, FlattenSplitsAtAnAxis) {
  const auto dims = [&](int axis) {
    return run_text(fmt::format(R"(<opset_import: ["" : 18]>
        g (float[2, 3, n] x) => (float[?, ?] y) {{ y = Flatten<axis = {}>(x) }})",
                                axis),
                    {floats({2, 3, 0}, {})})[0]
        .tensor()
        .dims();
  };
  EXPECT_EQ(dims(0), (Dims{1, 0}));
  EXPECT_EQ(dims(1), (Dims{2, 0}));
  EXPECT_EQ(dims(2), (Dims{6, 0}));
  EXPECT_EQ(dims(3), (Dims{0, 1}));
  EXPECT_EQ(dims(-1), (Dims{6, 0}));
}

}  // namespace
}  // namespace lathe
