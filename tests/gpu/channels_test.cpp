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

TEST(GpuChannels, PaddingAddsZeros) {
  for (const Dims& dims : {Dims{2, 3, 5, 4}, Dims{1, 1, 7}, Dims{2, 7, 2, 3, 2}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(dims, ", ")));
    const Tensor x = numbers(ElementType::f16, dims);
    Dims padded = dims;
    padded[1] = gpu::ChannelPadding::channels();
    Tensor expected(ElementType::f16, padded);
    std::fill_n(expected.as<uint16_t>(), expected.count(), uint16_t{0});
    TensorView part = expected.view();
    part.dims = x.view().dims;
    copy_elements(x.view(), part);
    for (const auto& target : gpu_host_targets()) {
      const auto& device = dynamic_cast<const GpuTarget&>(*target).gpu_device();
      const std::unique_ptr<Stream> stream = device.make_stream();
      for (const bool last : {false, true}) {
        std::vector<int> order = channels_last(static_cast<int>(dims.size()));
        if (!last) std::sort(order.begin(), order.end());
        const Tensor from = upload(device, *stream, x, order);
        const TensorView view = ordered_view(x.type(), dims, order, from.data());
        ASSERT_TRUE(gpu::ChannelPadding::pays(view));
        EXPECT_EQ(gpu::ChannelPadding::padded_bytes(view), expected.byte_size());
        const gpu::ChannelPadding padding(device, view);
        const Tensor to = make_tensor(device, x.type(), padded);
        const TensorView made = padding.pad(*stream, view, to.data());
        Tensor found(x.type(), padded);
        stream->copy(found.data(), to.data(), static_cast<size_t>(found.byte_size()));
        stream->synchronize();
        TensorView there = made;
        there.data = found.data();
        Tensor dense(x.type(), padded);
        copy_elements(there, dense.view());
        EXPECT_TRUE(identical(dense, expected));
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test
