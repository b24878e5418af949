// SPDX-License-Identifier: MIT
// Kernels of images whose channels lie last, launched on views that no plan here makes: libraries
// of convolutions request them.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ops/support/views.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/channel_padding.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

Tensor numbers(ElementType type, Dims dims) {
  Tensor made(type, std::move(dims));
  uint32_t state = 99;
  for (int64_t i = 0; i < made.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    store_double(type, made.data(), i, static_cast<double>(state >> 24) / 2 - 64);
  }
  return made;
}

std::vector<int> channels_last(int rank) {
  std::vector<int> order{0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

// A tensor on the device in that order, and back.
Tensor upload(const Device& device, Stream& stream, const Tensor& values,
              const std::vector<int>& order) {
  Tensor host(values.type(), values.dims());
  const TensorView ordered = ordered_view(values.type(), values.dims(), order, host.data());
  copy_elements(values.view(), ordered);
  Tensor there = make_tensor(device, values.type(), values.dims());
  stream.copy(there.data(), host.data(), static_cast<size_t>(host.byte_size()));
  stream.synchronize();
  return there;
}

struct Case {
  std::string_view type;
  std::string_view op;
  Dims x;
  Dims y;
};

TEST(GpuChannels, PoolingTakesThemInPieces) {
  const std::vector<Case> cases{
      {"f16",
       "max_pool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}",
       {2, 16, 9, 7},
       {2, 16, 5, 4}},
      {"f32",
       "average_pool(%x) {kernel_shape = [2, 3], pads = [0, 1, 1, 1], count_include_pad = true}",
       {1, 12, 4, 5},
       {1, 12, 4, 5}},
      {"bf16", "average_pool(%x) {kernel_shape = [3], pads = [1, 1]}", {3, 8, 6}, {3, 8, 6}},
      {"i8",
       "max_pool(%x) {kernel_shape = [2, 2], dilations = [2, 1]}",
       {1, 32, 6, 5},
       {1, 32, 4, 4}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.type, c.op));
    const bool max = c.op.starts_with("max");
    const std::string text = fmt::format(
        "program \"pool\" stage imported {{\n  module @main(%x: {}[{}]) {{\n    %y{} = {}\n    "
        "return %y as \"y\"\n  }}\n}}",
        c.type, fmt::join(c.x, ", "), max ? ", %indices" : "", c.op);
    Session reference(compile(parse_program(text), {.target = find_target("ref")}));
    const ElementType type = reference.plan().program->main().parameters()[0]->type().element;
    const Tensor x = numbers(type, c.x);
    const std::vector<Box> inputs{Box{x}};
    const Tensor expected = reference.run(inputs)[0].tensor();
    ASSERT_EQ(expected.dims(), c.y);
    const std::vector<int> order = channels_last(static_cast<int>(c.x.size()));
    for (const auto& target : gpu_host_targets()) {
      const std::shared_ptr<const Plan> plan = compile(parse_program(text), {.target = target});
      const Launch* pool = nullptr;
      for (const Launch& launch : plan->modules[0].launches) {
        if (launch.kernel != nullptr && launch.kernel->name().ends_with("_pool")) pool = &launch;
      }
      ASSERT_NE(pool, nullptr);
      const std::unique_ptr<Stream> stream = plan->device->make_stream();
      const Tensor from = upload(*plan->device, *stream, x, order);
      const Tensor to = make_tensor(*plan->device, type, c.y);
      const TensorView in_view = ordered_view(type, c.x, order, from.data());
      TensorView out_view = ordered_view(type, c.y, order, to.data());
      const TensorView* const in[] = {&in_view};
      TensorView* const out[] = {&out_view, nullptr};
      LaunchArgs args;
      args.in = in;
      args.out = std::span(out).first(pool->results.size());
      args.stream = stream.get();
      pool->kernel->launch(args);
      Tensor found(type, c.y);
      stream->copy(found.data(), to.data(), static_cast<size_t>(found.byte_size()));
      stream->synchronize();
      Tensor dense(type, c.y);
      copy_elements(ordered_view(type, c.y, order, found.data()), dense.view());
      for (int64_t i = 0; i < dense.count(); ++i) {
        ASSERT_NEAR(load_double(type, dense.data(), i), load_double(type, expected.data(), i),
                    type == ElementType::bf16 ? 0.25 : 1e-3)
            << i;
      }
    }
  }
}

struct PaddedCase {
  Dims x;
  Dims w;
  int64_t stride = 1;
  std::array<int64_t, 4> pads{};
};

Tensor as_f32(const TensorView& view) {
  Tensor dense(view.type, Dims(view.extents().begin(), view.extents().end()));
  copy_elements(view, dense.view());
  Tensor wide(ElementType::f32, dense.dims());
  convert(wide.type(), wide.data(), dense.type(), dense.data(), dense.count());
  return wide;
}

Tensor convolved(const Tensor& x, const Tensor& w, const gpu::LibraryConvolution& c) {
  const std::string text = fmt::format(
      "program \"conv\" stage imported {{\n  module @main(%x: f32[{}], %w: f32[{}]) {{\n    %y = "
      "conv(%x, %w) {{strides = [{}, {}], pads = [{}, {}, {}, {}]}}\n    return %y as \"y\"\n  "
      "}}\n}}",
      fmt::join(x.dims(), ", "), fmt::join(w.dims(), ", "), c.strides[0], c.strides[1],
      c.pad_begin[0], c.pad_begin[1], c.pad_end[0], c.pad_end[1]);
  Session session(compile(parse_program(text), {.target = find_target("ref")}));
  const std::vector<Box> inputs{Box{x}, Box{w}};
  return session.run(inputs)[0].tensor();
}

// Numbers are such that every sum is exact.
TEST(GpuChannels, PaddedImagesConvolveAlike) {
  const std::vector<PaddedCase> cases{
      {{2, 3, 10, 9}, {4, 3, 7, 7}, 2, {3, 3, 3, 3}},
      {{1, 3, 12, 8}, {2, 3, 3, 3}, 2, {0, 1, 1, 1}},
      {{1, 4, 9, 7}, {2, 4, 2, 1}, 2, {0, 0, 0, 0}},
      {{1, 5, 6, 5}, {3, 5, 3, 3}, 2, {1, 1, 1, 1}},
      {{2, 3, 6, 5}, {3, 3, 3, 2}, 1, {1, 0, 1, 1}},
  };
  for (const PaddedCase& one : cases) {
    SCOPED_TRACE(fmt::format("{} by {}", fmt::join(one.x, ", "), fmt::join(one.w, ", ")));
    const Tensor x = numbers(ElementType::f16, one.x);
    const Tensor w = numbers(ElementType::f16, one.w);
    gpu::LibraryConvolution c;
    c.type = x.type();
    c.strides = {one.stride, one.stride, 1};
    c.pad_begin = {one.pads[0], one.pads[1], 0};
    c.pad_end = {one.pads[2], one.pads[3], 0};
    const Tensor expected = convolved(as_f32(x.view()), as_f32(w.view()), c);
    WindowAttributes attributes;
    attributes.strides = {one.stride, one.stride};
    attributes.dilations = {1, 1};
    attributes.pads = Integers(one.pads.begin(), one.pads.end());
    for (const auto& target : gpu_host_targets()) {
      const auto& device = dynamic_cast<const GpuTarget&>(*target).gpu_device();
      ASSERT_TRUE(gpu::ChannelPadding::pays(x.view()));
      const gpu::ChannelPadding padding(device, w.view(), attributes);
      Tensor weights(w.type(), padding.weight_dims(w.view()));
      std::fill_n(weights.as<uint16_t>(), weights.count(), uint16_t{0});
      padding.pack(w.view(), weights.view(),
                   [](const TensorView& from, const TensorView& to) { copy_elements(from, to); });
      for (size_t axis = 0; axis < 4; ++axis) c.w.dims[axis] = weights.dims()[axis];
      gpu::LibraryConvolution padded = c;
      const int64_t most = gpu::ChannelPadding::most_bytes(x.view(), w.view());
      const auto image =
          padding.adjust(padded, x.view(), std::span(expected.dims()).subspan(2), most);
      ASSERT_TRUE(image);
      EXPECT_EQ(padded.strides[0], one.x[1] > 4 ? one.stride : 1);
      const std::unique_ptr<Stream> stream = device.make_stream();
      for (const bool last : {false, true}) {
        std::vector<int> order = channels_last(4);
        if (!last) std::sort(order.begin(), order.end());
        const Tensor from = upload(device, *stream, x, order);
        const Tensor to = make_tensor(device, ElementType::u8, {most});
        const TensorView view = ordered_view(x.type(), one.x, order, from.data());
        TensorView made = padding.pad(*stream, view, *image, to.data());
        ASSERT_LE(bytes_for(made.type, made.count()), to.byte_size());
        Tensor found(ElementType::u8, to.dims());
        stream->copy(found.data(), to.data(), static_cast<size_t>(found.byte_size()));
        stream->synchronize();
        made.data = found.data();
        EXPECT_TRUE(identical(convolved(as_f32(made), as_f32(weights.view()), padded), expected));
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test
