// SPDX-License-Identifier: MIT
// Quantised matrices of the decoder's builder.
#include "import/checkpoint/decoder_builder.h"
#include "ir/ops.h"
#include "ops/support/block_format.h"

namespace lathe::checkpoint {

const DecoderBuilder::PackedLiterals* DecoderBuilder::packed_literals(const StoredTensor& stored,
                                                                      const std::string& name) {
  const auto known = packed_.find(name);
  if (known != packed_.end()) return known->second ? &*known->second : nullptr;
  std::optional<PackedLiterals>& packed = packed_[name];
  if (stored.rank() != 2) return nullptr;
  if (const BlockFormat* format = find_block_format(stored.type)) {
    Instruction* split = builder_.add(lathe::ops::quantize_blocks, {blocks_literal(stored, name)},
                                      {{"type", stored.type}});
    packed = {.codes = split->result(0),
              .scales = split->result(1),
              .zeros = format->has_minimum ? split->result(2) : nullptr,
              .order = nullptr,
              .bits = SplitForm(*format).bits,
              .block = format->group};
    return &*packed;
  }
  const std::optional<PackedMatrix> matrix =
      stored.quantised == nullptr ? std::nullopt : stored.quantised->packed();
  if (!matrix) return nullptr;
  packed = {.codes = literal(matrix->codes, name + ".codes"),
            .scales = literal(matrix->scales, name + ".scales"),
            .zeros = nullptr,
            .order = nullptr,
            .bits = matrix->bits,
            .block = matrix->block};
  if (matrix->zeros.data() != nullptr) packed->zeros = literal(matrix->zeros, name + ".zeros");
  if (matrix->order.data() != nullptr)
    packed->order = order_literal(matrix->order, name + ".order");
  return &*packed;
}

Value* DecoderBuilder::blocks_literal(const StoredTensor& stored, const std::string& name) {
  const std::string key = name + ".blocks";
  const auto known = literals_.find(key);
  if (known != literals_.end()) return known->second;
  const BlockFormat& format = *find_block_format(stored.type);
  Dims dims = stored.dims;
  dims.back() = dims.back() / format.elements * format.bytes;
  auto made = std::make_shared<Literal>();
  made->tensor =
      Tensor(ElementType::u8, dims, Tensor::dense_strides(dims),
             const_cast<char*>(stored.bytes.data()), std::const_pointer_cast<void>(stored.owner));
  made->file = stored.file;
  made->offset = static_cast<int64_t>(stored.offset);
  return literals_[key] = builder_.literal(LiteralRef(made), key);
}

// Matrices that were quantised together often have one order.
Value* DecoderBuilder::order_literal(const Tensor& order, const std::string& name) {
  const std::string_view bytes(order.as<char>(), static_cast<size_t>(order.byte_size()));
  const auto [at, fresh] = orders_.try_emplace(std::string(bytes), nullptr);
  if (fresh) at->second = literal(order, name);
  return at->second;
}

Value* DecoderBuilder::reorder(Value* x, Value* order) {
  Value*& sorted = reordered_[{x, order}];
  if (sorted == nullptr) {
    sorted = builder_(lathe::ops::gather, {x, order}, {{"axis", int64_t{2}}});
  }
  return sorted;
}

}  // namespace lathe::checkpoint
