// SPDX-License-Identifier: MIT
#include "targets/gpu/unpacked_product.h"

#include <algorithm>
#include <utility>

#include "ops/support/views.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/normalization.h"

namespace lathe::gpu {
namespace {

constexpr size_t kBias = 5;  // operand of the product

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::string n_bits_text(const std::string& epilogue) {
  return Anchor::kernel_with("n_bits_weights.gpu", epilogue) +
         std::string(kernel_text("n_bits.gpu"));
}
Source unpack_source(const std::string& weights) {
  return {"n_bits", fmt::format("{}#define TWIN 0\n#define SIDES 0\n#define NORM 0\n#define UNPACK "
                                "1\n#define FINISH 0\n{}",
                                weights, n_bits_text(""))};
}
Source finish_source(const Anchor& whole, const std::string& weights) {
  const std::string kernel = n_bits_text(whole.epilogue_text("float", ""));
  return {"n_bits",
          fmt::format("{}#define TWIN {}\n#define SIDES {}\n#define NORM 0\n#define "
                      "UNPACK 0\n#define FINISH 1\n{}",
                      weights, whole.twin() != nullptr ? 1 : 0, whole.sides().size(), kernel)};
}

}  // namespace

std::optional<int64_t> row_stride(const TensorView& view) {
  std::optional<int64_t> stride;
  int64_t expected = 0;
  for (int axis = view.rank - 1; axis-- > 0;) {
    if (view.dims[axis] == 1) continue;
    if (stride && view.strides[axis] != expected) return std::nullopt;
    if (!stride) stride = view.strides[axis];
    expected = view.strides[axis] * view.dims[axis];
  }
  return stride ? stride : std::optional<int64_t>(0);
}

Arguments arguments_of(const PackedShape& shape, const PackedOperands& operands) {
  const auto& [a, y, m, weights, sides] = operands;
  Arguments arguments;
  for (const TensorView* rows : {&a, &y}) {
    arguments.add(rows->data);
    arguments.add(*row_stride(*rows));
    arguments.add(rows->strides[rows->rank - 1]);
  }
  for (const int64_t value : {m, shape.n, shape.k, shape.blocks}) arguments.add(value);
  arguments.add((shape.blocks * shape.bits + 7) / 8);
  for (const PackedWeights& own : weights) {
    for (const void* data : own.data) arguments.add(data);
    arguments.add(own.bias == nullptr ? nullptr : own.bias->data);
    arguments.add(column_stride(own.bias));
  }
  for (const TensorView& side : sides) {
    arguments.add(side.data);
    arguments.add(*row_stride(side));
    arguments.add(side.strides[side.rank - 1]);
  }
  return arguments;
}

UnpackedProduct::UnpackedProduct(const GpuDevice& device, const Anchor& whole,
                                 const PackedShape& shape, const std::string& weights)
    : device_(device),
      whole_(whole),
      shape_(shape),
      type_(whole.type().element),
      epilogue_(library_epilogue(whole, whole.type().rank() - 1, {})),
      product_(device, type_),
      unpack_(device, unpack_source(weights), false),
      finish_(device, finish_source(whole, weights), false) {
  const auto& operands = whole.anchor().operands();
  const bool has_bias = operands.size() > kBias && operands[kBias] != nullptr;
  bias_fits_ = has_bias && operands[kBias]->type().element == type_;
  epilogue_.complete = epilogue_.complete && whole.twin() == nullptr &&
                       (!has_bias || (bias_fits_ && epilogue_.bias < 0));
}

int64_t UnpackedProduct::columns_at_once() const {
  constexpr int64_t kMostBytes = int64_t{128} << 20;
  constexpr int64_t kShare = 64;      // of the device's memory
  constexpr int64_t kTogether = 256;  // whole tiles
  const int64_t bytes = std::min(kMostBytes, device_.memory_bytes() / kShare);
  const int64_t most = bytes / std::max<int64_t>(bytes_for(type_, padded()), 1);
  return std::min(std::max<int64_t>(most / kTogether, 1) * kTogether, shape_.n);
}

// Unpacked weights, the product's, normalised rows, the twin's product.
int64_t UnpackedProduct::workspace_bytes(int64_t m) const {
  const int64_t columns = columns_at_once();
  return rounded(bytes_for(type_, columns * padded())) + rounded(product_.workspace_bytes()) +
         (whole_.norm() != nullptr ? rounded(bytes_for(type_, m * shape_.k)) : 0) +
         (whole_.twin() != nullptr ? rounded(bytes_for(type_, m * columns)) : 0);
}

// What the library adds to its product, if it has one.
UnpackedProduct::Additions UnpackedProduct::additions(const PackedOperands& operands) const {
  Additions out{.complete = epilogue_.complete};
  const auto lies_along = [&](const TensorView& view) {
    return view.strides[view.rank - 1] == 1 || shape_.n == 1;
  };
  for (size_t way = 0; way < operands.weights.size(); ++way) {
    const TensorView* bias = operands.weights[way].bias;
    if (bias == nullptr) continue;
    if (bias_fits_ && (column_stride(bias) == 1 || shape_.n == 1)) out.bias[way] = bias->data;
    out.complete = out.complete && out.bias[way] != nullptr;
  }
  const auto side = [&](int i) { return operands.sides[static_cast<size_t>(i)]; };
  if (epilogue_.bias >= 0) out.complete = out.complete && lies_along(side(epilogue_.bias));
  if (epilogue_.residual >= 0) {
    const TensorView view = side(epilogue_.residual);
    out.complete = out.complete && lies_along(view) && *row_stride(view) >= shape_.n;
  }
  if (!out.complete) return out;
  if (epilogue_.bias >= 0) out.bias[0] = side(epilogue_.bias).data;
  if (epilogue_.residual >= 0) {
    const TensorView view = side(epilogue_.residual);
    out.residual = {view.data, *row_stride(view)};
  }
  out.activation = epilogue_.activation;
  return out;
}

bool UnpackedProduct::run(const LaunchArgs& args, PackedOperands operands,
                          const RowsPrologue& prologue, std::byte* workspace) const {
  const auto along = [](const TensorView& view, int64_t columns) {
    return (view.strides[view.rank - 1] == 1 || columns == 1) && *row_stride(view) >= columns;
  };
  if (shape_.k == 0 || !along(operands.a, shape_.k) || !along(operands.y, shape_.n)) return false;
  const int64_t most = columns_at_once();
  const auto take = [&](int64_t bytes) {
    return std::exchange(workspace, workspace + rounded(bytes));
  };
  std::byte* const unpacked = take(bytes_for(type_, most * padded()));
  std::byte* const scratch = take(product_.workspace_bytes());
  if (whole_.norm() != nullptr) {
    const TensorView rows = operands.a;
    operands.a = dense_view(type_, rows.extents(), take(bytes_for(type_, operands.m * shape_.k)));
    prologue.normalise(args, rows, operands.a);
  }
  const Additions additions = this->additions(operands);
  const auto from = [&](const void* data, int64_t column) {
    return data == nullptr
               ? nullptr
               : static_cast<std::byte*>(const_cast<void*>(data)) + bytes_for(type_, column);
  };
  for (int64_t first = 0; first < shape_.n; first += most) {
    const int64_t columns = std::min(most, shape_.n - first);
    std::array<bool, 2> added{};
    // The twin's first: its unpacked weights are needed no more when the others are.
    for (size_t way = operands.weights.size(); way-- > 0;) {
      unpack(args, operands.weights[way], first, columns, unpacked);
      PlainProduct::Operands product{.m = operands.m,
                                     .n = columns,
                                     .k = shape_.k,
                                     .a = {operands.a.data, *row_stride(operands.a)},
                                     .b = {unpacked, padded()},
                                     .y = {from(operands.y.data, first), *row_stride(operands.y)},
                                     .bias = from(additions.bias[way], first),
                                     .rows_vary = rows_vary(whole_.type())};
      if (way == 0) {
        product.residual = {from(additions.residual.data, first), additions.residual.stride};
        product.activation = additions.activation;
      } else {
        product.y = {workspace, columns};
      }
      added[way] = product_.run(args, product, scratch);
    }
    if (added[0] && additions.complete) continue;
    if (whole_.chain().empty() && operands.weights[0].bias == nullptr) continue;
    PackedOperands rest = operands;
    for (size_t way = 0; way < rest.weights.size(); ++way) {
      if (added[way] && additions.bias[way] != nullptr) rest.weights[way].bias = nullptr;
    }
    finish(args, rest, first, columns, workspace);
  }
  return true;
}

// The epilogue of sums that lie in y, of some columns.
void UnpackedProduct::finish(const LaunchArgs& args, PackedOperands operands, int64_t first,
                             int64_t columns, const void* twin) const {
  std::vector<TensorView> biases(operands.weights.size());
  const auto shift = [&](TensorView& view) {
    view.data = static_cast<std::byte*>(view.data) +
                bytes_for(view.type, first * view.strides[view.rank - 1]);
  };
  for (size_t way = 0; way < biases.size(); ++way) {
    const TensorView*& bias = operands.weights[way].bias;
    if (bias == nullptr) continue;
    biases[way] = *bias;
    if (column_stride(bias) != 0) shift(biases[way]);
    bias = &biases[way];
  }
  shift(operands.y);
  for (TensorView& side : operands.sides) shift(side);
  PackedShape shape = shape_;
  shape.n = columns;
  Arguments arguments = arguments_of(shape, operands);
  arguments.add(twin);
  constexpr int64_t kTogether = 8;  // elements of a thread
  launch_code(device_, finish_.get(), args, arguments,
              {blocks_for(device_, operands.m * columns / kTogether, kThreads), 1, 1}, kThreads);
}

void UnpackedProduct::unpack(const LaunchArgs& args, const PackedWeights& weights, int64_t first,
                             int64_t columns, std::byte* to) const {
  Arguments arguments;
  for (int i = 0; i < 3; ++i) arguments.add(int64_t{0});  // a
  arguments.add(to);
  for (const int64_t value : {padded(), int64_t{1}, first, columns, shape_.k, shape_.blocks}) {
    arguments.add(value);
  }
  arguments.add((shape_.blocks * shape_.bits + 7) / 8);
  for (const void* data : weights.data) arguments.add(data);
  for (int i = 0; i < 2; ++i) arguments.add(int64_t{0});  // bias
  launch_code(device_, unpack_.get(), args, arguments,
              {blocks_for(device_, columns * kThreads, kThreads), 1, 1}, kThreads);
}

}  // namespace lathe::gpu
