// SPDX-License-Identifier: MIT
#include "capi/devices.h"

namespace lathe::capi {
namespace {

Dims dims_from(const int64_t* dims, int rank) {
  check(rank >= 0 && rank <= kMaxRank && (dims != nullptr || rank == 0),
        ErrorKind::invalid_argument, "rank is {} with dims {}, expected 0 to {}", rank,
        dims == nullptr ? "NULL" : "set", kMaxRank);
  Dims out(dims, dims + rank);
  static_cast<void>(element_count(out));  // throws for negative sizes and overflow
  return out;
}

lathe_error* create(lathe_element_type type, const int64_t* dims, int rank, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    *out = new lathe_tensor{Box{Tensor(from_c(type), dims_from(dims, rank))}};
  });
}

lathe_error* wrap(lathe_element_type type, const int64_t* dims, const int64_t* strides, int rank,
                  void* data, void (*release)(void* context), void* context, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    const ElementType element = from_c(type);
    const Dims extents = dims_from(dims, rank);
    check(element != ElementType::string, ErrorKind::invalid_argument,
          "memory of {} cannot be wrapped: strings have no C layout", to_string(element, extents));
    check(data != nullptr || element_count(extents) == 0, ErrorKind::invalid_argument,
          "argument 'data' is NULL for {}", to_string(element, extents));
    const Dims steps =
        strides == nullptr ? Tensor::dense_strides(extents) : Dims(strides, strides + rank);
    std::shared_ptr<void> owner;
    if (release != nullptr) {
      owner = std::shared_ptr<void>(data, [release, context](void*) { release(context); });
    }
    *out = new lathe_tensor{Box{Tensor(element, extents, steps, data, std::move(owner))}};
  });
}

lathe_error* make_sequence(lathe_tensor* const* items, size_t count, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "sequence");
    auto boxes = std::make_shared<std::vector<Box>>();
    for (size_t i = 0; i < count; ++i) {
      boxes->push_back(host_box(items[i], fmt::format("items[{}]", i)));
    }
    *out = new lathe_tensor{Box{BoxSequence(std::move(boxes))}};
  });
}

lathe_value_kind kind(const lathe_tensor* tensor) {
  if (tensor->box.is_tensor()) return LATHE_VALUE_TENSOR;
  if (tensor->box.is_sequence()) return LATHE_VALUE_SEQUENCE;
  return tensor->box.empty() ? LATHE_VALUE_NONE : LATHE_VALUE_MAP;
}

size_t item_count(const lathe_tensor* tensor) {
  return tensor->box.is_sequence() ? tensor->box.sequence().size() : 0;
}

lathe_error* item(const lathe_tensor* tensor, size_t index, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "item");
    const size_t count = item_count(&demand(tensor, "tensor"));
    check(index < count, ErrorKind::invalid_argument,
          "index {} is out of range for a sequence of {} items", index, count);
    *out = new lathe_tensor{tensor->box.sequence()[index]};
  });
}

const Tensor* tensor_of(const lathe_tensor* tensor) {
  return tensor->box.is_tensor() ? &tensor->box.tensor() : nullptr;
}

std::string& string_at(const lathe_tensor* tensor, int64_t index) {
  const Tensor* found = tensor_of(&demand(tensor, "tensor"));
  check(found != nullptr && found->type() == ElementType::string && found->is_dense(),
        ErrorKind::invalid_argument, "element {} requires a dense tensor of strings", index);
  check(index >= 0 && index < found->count(), ErrorKind::invalid_argument,
        "index {} is out of range for {} elements", index, found->count());
  return found->as<std::string>()[index];
}

lathe_error* get_string(const lathe_tensor* tensor, int64_t index, const char** text,
                        size_t* bytes) {
  return guarded([&] {
    const std::string& found = string_at(tensor, index);
    demand(text, "text") = found.c_str();
    if (bytes != nullptr) *bytes = found.size();
  });
}

lathe_error* set_string(lathe_tensor* tensor, int64_t index, const char* text, size_t bytes) {
  return guarded([&] {
    check(text != nullptr || bytes == 0, ErrorKind::invalid_argument,
          "argument 'text' is NULL for {} bytes", bytes);
    string_at(tensor, index).assign(text == nullptr ? "" : text, bytes);
  });
}

void* data(const lathe_tensor* tensor) {
  const Tensor* found = tensor_of(tensor);
  return found == nullptr || found->type() == ElementType::string ? nullptr : found->data();
}

int64_t bytes(const lathe_tensor* tensor) {
  const Tensor* found = tensor_of(tensor);
  return found == nullptr || found->type() == ElementType::string ? 0 : found->byte_size();
}

}  // namespace

void add_tensors(lathe_api& api) {
  api.tensor_create = create;
  api.tensor_wrap = wrap;
  api.tensor_sequence = make_sequence;
  api.tensor_kind = kind;
  api.tensor_item_count = item_count;
  api.tensor_item = item;
  api.tensor_type = [](const lathe_tensor* tensor) {
    const Tensor* found = tensor_of(tensor);
    return found == nullptr ? lathe_element_type{} : to_c(found->type());
  };
  api.tensor_rank = [](const lathe_tensor* tensor) {
    const Tensor* found = tensor_of(tensor);
    return found == nullptr ? 0 : found->rank();
  };
  api.tensor_dims = [](const lathe_tensor* tensor) {
    const Tensor* found = tensor_of(tensor);
    return found == nullptr ? nullptr : found->dims().data();
  };
  api.tensor_strides = [](const lathe_tensor* tensor) {
    const Tensor* found = tensor_of(tensor);
    return found == nullptr ? nullptr : found->strides().data();
  };
  api.tensor_count = [](const lathe_tensor* tensor) {
    const Tensor* found = tensor_of(tensor);
    return found == nullptr ? int64_t{0} : found->count();
  };
  api.tensor_bytes = bytes;
  api.tensor_data = data;
  api.tensor_string = get_string;
  api.tensor_set_string = set_string;
  api.tensor_free = [](lathe_tensor* tensor) { delete tensor; };
}

}  // namespace lathe::capi
