// SPDX-License-Identifier: MIT
#include "targets/gpu/conv_library.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/support/views.h"
#include "plan/literal_upload.h"
#include "targets/gpu/channel_padding.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kAlignment = 256;

int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<int> order_of(int rank, bool channels_last) {
  std::vector<int> order{0};
  for (int axis = channels_last ? 2 : 1; axis < rank; ++axis) order.push_back(axis);
  if (channels_last) order.push_back(1);
  return order;
}

// The strides of a dense view, also along axes of one element.
bool lies_in_order(const TensorView& view, bool channels_last) {
  const TensorView wanted =
      ordered_view(view.type, view.extents(), order_of(view.rank, channels_last), nullptr);
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != wanted.strides[axis]) return false;
  }
  return true;
}

int64_t bytes_of(const TensorView* view) {
  return view == nullptr ? 0 : rounded(bytes_for(view->type, view->count()));
}

}  // namespace

bool is_channels_last(const GpuDevice& device, const Instruction& conv) {
  const ElementType type = conv.result()->type().element;
  return (type == ElementType::f16 || type == ElementType::bf16) &&
         device.libraries().cudnn() != nullptr;
}

ConvLibrary::ConvLibrary(const GpuDevice& device, const Anchor& anchor, int bias,
                         std::span<const size_t> added, const WindowAttributes& attributes,
                         Constants constants)
    : device_(device),
      copier_(device),
      sides_(anchor.sides()),
      weights_(anchor.operand(1)),
      channels_last_(is_channels_last(device, anchor.anchor())) {
  // The bias of a convolution is a vector, which library_epilogue would take for one of columns.
  epilogue_ = library_epilogue(anchor, 1, {});
  if (bias >= 0) {
    epilogue_.complete = epilogue_.complete && epilogue_.bias < 0;
    epilogue_.bias = static_cast<int>(added[0]);
  }
  if (epilogue_.activation == Activation::gelu_tanh) epilogue_.complete = false;
  const Tensor* weights = constants[static_cast<size_t>(anchor.operand(1))];
  if (weights == nullptr || !channels_last_) return;
  const bool pads = InstructionReader(anchor.anchor()).integer("group") == 1 &&
                    ChannelPadding::pays(weights->view());
  if (pads) padding_.emplace(device, weights->view(), attributes);
  pack(*weights);
}

void ConvLibrary::pack(const Tensor& weights) {
  const TensorView view = weights.view();
  if (lies_in_order(view, true) && !padding_) return;
  Dims dims = padding_ ? padding_->weight_dims(view) : weights.dims();
  const TensorView wanted = ordered_view(view.type, dims, order_of(view.rank, true), nullptr);
  const int64_t bytes = bytes_for(wanted.type, wanted.count());
  Allocator& memory = device_.allocator();
  void* data = memory.allocate(static_cast<size_t>(bytes), kAlignment);
  check(data != nullptr, ErrorKind::out_of_memory, "no {} bytes of {} for packed weights", bytes,
        device_.name());
  std::shared_ptr<void> owner(data, [&memory, bytes](void* pointer) {
    memory.deallocate(pointer, static_cast<size_t>(bytes));
  });
  const std::unique_ptr<Stream> stream = device_.make_stream();
  TensorView ordered = wanted;
  const auto fill = [&](const auto& copy) {
    padding_ ? padding_->pack(view, ordered, copy) : copy(view, ordered);
  };
  std::vector<std::byte> host;
  if (device_.driver().is_on_device(view.data)) {
    LiteralUpload::settle_current();
    ordered.data = data;
    if (padding_) stream->fill(data, std::byte{0}, static_cast<size_t>(bytes));
    fill([&](const TensorView& from, const TensorView& to) { copier_.copy(*stream, from, to); });
  } else {
    host.resize(static_cast<size_t>(bytes));
    ordered.data = host.data();
    fill([](const TensorView& from, const TensorView& to) { copy_elements(from, to); });
    stream->copy(data, host.data(), host.size());
  }
  stream->synchronize();
  packed_ = Tensor(view.type, std::move(dims),
                   Dims(wanted.strides.begin(), wanted.strides.begin() + wanted.rank), data,
                   std::move(owner));
}

// Input, weights and scratch, in this order.
int64_t ConvLibrary::workspace_bytes(const TensorView* x, const TensorView* w) {
  const int64_t padded = x == nullptr || w == nullptr || !ChannelPadding::pays(*x)
                             ? bytes_of(x)
                             : rounded(ChannelPadding::most_bytes(*x, *w));
  return Cudnn::kWorkspaceBytes + padded + bytes_of(w);
}

// Two or three spatial axes; those of one element get the strides of a dense tensor.
LibraryTensor ConvLibrary::tensor(const TensorView& view) const {
  LibraryTensor out{.data = view.data};
  const TensorView ordered =
      ordered_view(view.type, view.extents(), order_of(view.rank, channels_last_), nullptr);
  size_t to = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    if (axis == 2 && view.rank == 3) {
      out.dims[to] = 1;
      out.strides[to++] = ordered.strides[2] * view.dims[2];
    }
    out.dims[to] = view.dims[axis];
    out.strides[to++] = ordered.strides[axis];
  }
  return out;
}

// Describes the call; data of views and the workspace may be null.
std::optional<ConvLibrary::Call> ConvLibrary::call_of(const LaunchArgs& args, TensorView x,
                                                      TensorView w,
                                                      const WindowAttributes& attributes) const {
  const TensorView& y = *args.out[0];
  if (!lies_in_order(y, channels_last_) || x.count() == 0) return std::nullopt;
  Call call;
  auto* extra = static_cast<std::byte*>(args.workspace) + Cudnn::kWorkspaceBytes;
  const auto order = [&](const TensorView& view, std::optional<TensorView>& copy) {
    if (lies_in_order(view, channels_last_)) return tensor(view);
    copy = ordered_view(view.type, view.extents(), order_of(view.rank, channels_last_), extra);
    extra += bytes_of(&view);
    return tensor(*copy);
  };
  if (packed_.data() != nullptr) w = packed_.view();

  LibraryConvolution& c = call.convolution;
  c.type = y.type;
  const auto axes = static_cast<size_t>(y.rank - 2);
  std::array<WindowAxis, 3> windows;
  window_axes(attributes, x, y, args.in[static_cast<size_t>(weights_)]->extents().subspan(2),
              std::span(windows).first(axes));
  const size_t first = axes == 1 ? 1 : 0;
  c.axes = std::max<size_t>(axes, 2);
  for (size_t i = 0; i < axes; ++i) {
    c.strides[first + i] = windows[i].stride;
    c.dilations[first + i] = windows[i].dilation;
    c.pad_begin[first + i] = windows[i].pad_begin;
    c.pad_end[first + i] = windows[i].pad_end;
  }
  if (padding_) {
    c.w = tensor(w);
    const int64_t most = ChannelPadding::most_bytes(x, *args.in[static_cast<size_t>(weights_)]);
    call.image = padding_->adjust(c, x, y.extents().subspan(2), most);
    if (!call.image) return std::nullopt;
    call.place = extra;
    c.x = tensor(ordered_view(x.type, call.image->dims, order_of(x.rank, true), extra));
  } else {
    c.x = order(x, call.x_copy);
  }
  c.w = order(w, call.w_copy);
  c.y = tensor(y);
  const auto side = [&](int index) -> const TensorView& {
    return *args.in[static_cast<size_t>(sides_[static_cast<size_t>(index)])];
  };
  call.whole = epilogue_.complete;
  if (call.whole && epilogue_.residual >= 0) {
    const TensorView& residual = side(epilogue_.residual);
    call.whole = lies_in_order(residual, channels_last_);
    c.residual = tensor(residual);
    c.has_residual = true;
  }
  if (call.whole && epilogue_.bias >= 0) {
    const TensorView& bias = side(epilogue_.bias);
    call.whole = bias.count() == y.dims[1] && bias.is_dense();
    c.bias = {.data = bias.data};
    c.bias.dims.fill(1);
    c.bias.dims[1] = y.dims[1];
    c.bias.strides.fill(channels_last_ ? y.dims[1] : 1);
    c.bias.strides[0] = y.dims[1];
    c.bias.strides[1] = 1;
    c.has_bias = true;
  }
  c.relu = call.whole && epilogue_.activation == Activation::relu;
  if (!call.whole) c.has_residual = c.has_bias = false;
  return call;
}

void ConvLibrary::expect(const LaunchArgs& args, const TensorView& x, const TensorView& w,
                         const WindowAttributes& attributes) const {
  const std::optional<Call> call = call_of(args, x, w, attributes);
  if (call) device_.libraries().cudnn()->expect(call->convolution);
}

ConvLibrary::Way ConvLibrary::run(const LaunchArgs& args, const TensorView& x, const TensorView& w,
                                  const WindowAttributes& attributes) const {
  std::optional<Call> call = call_of(args, x, w, attributes);
  if (!call) return Way::none;
  if (call->image) padding_->pad(*args.stream, x, *call->image, call->place);
  if (call->x_copy) copier_.copy(*args.stream, x, *call->x_copy);
  const TensorView weights = packed_.data() != nullptr ? packed_.view() : w;
  if (call->w_copy) copier_.copy(*args.stream, weights, *call->w_copy);
  LibraryConvolution& c = call->convolution;
  auto* cudnn = device_.libraries().cudnn();
  const StreamHandle stream = static_cast<GpuStream*>(args.stream)->handle_for_other();
  if (call->whole && cudnn->run(stream, c, args.workspace)) return Way::whole;
  if (call->whole && !c.has_residual && !c.has_bias && !c.relu) return Way::none;
  c.has_residual = c.has_bias = c.relu = false;
  return cudnn->run(stream, c, args.workspace) ? Way::sums : Way::none;
}

}  // namespace lathe::gpu
