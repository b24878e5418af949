// SPDX-License-Identifier: MIT
// Tensors from and to DLPack's structs, which other libraries read and write.
#include <array>

#include "base/error_reason.h"
#include "capi/devices.h"

namespace lathe::capi {
namespace {

// The layout of DLPack 0.8 and 1.x.
struct DlType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlpackDevice device;
  int32_t rank;
  DlType type;
  int64_t* shape;
  int64_t* strides;  // null: dense
  uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged* self);
};
struct DlVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(DlVersioned* self);
  uint64_t flags;  // 1: read-only
  DlTensor tensor;
};

constexpr int32_t kDlCpu = 1;
constexpr uint32_t kDlMajor = 1;
constexpr uint32_t kDlMinor = 1;
constexpr uint64_t kDlReadOnly = 1;

struct TypeRow {
  ElementType type;
  DlType dl;
};
constexpr auto kTypes = std::to_array<TypeRow>({
    {ElementType::f32, {2, 32, 1}},        {ElementType::f64, {2, 64, 1}},
    {ElementType::f16, {2, 16, 1}},        {ElementType::bf16, {4, 16, 1}},
    {ElementType::i8, {0, 8, 1}},          {ElementType::i16, {0, 16, 1}},
    {ElementType::i32, {0, 32, 1}},        {ElementType::i64, {0, 64, 1}},
    {ElementType::u8, {1, 8, 1}},          {ElementType::u16, {1, 16, 1}},
    {ElementType::u32, {1, 32, 1}},        {ElementType::u64, {1, 64, 1}},
    {ElementType::boolean, {6, 8, 1}},     {ElementType::c64, {5, 64, 1}},
    {ElementType::c128, {5, 128, 1}},      {ElementType::f8e4m3fn, {10, 8, 1}},
    {ElementType::f8e4m3fnuz, {11, 8, 1}}, {ElementType::f8e5m2, {12, 8, 1}},
    {ElementType::f8e5m2fnuz, {13, 8, 1}}, {ElementType::f8e8m0, {14, 8, 1}},
});

// What an exported struct keeps alive.
template <class Managed>
struct Export {
  Managed managed{};
  Tensor tensor;
  Dims dims;
  Dims strides;
};

template <class Managed>
Export<Managed>* make_export(const lathe_tensor& handle, const DlType& type) {
  auto made = std::make_unique<Export<Managed>>();
  made->tensor = handle.box.tensor();
  made->dims = made->tensor.dims();
  made->strides = made->tensor.strides();
  DlTensor& out = made->managed.tensor;
  out.data = made->tensor.data();
  out.device = {kDlCpu, 0};
  if (handle.device != nullptr) out.device = dlpack_device_of(*handle.device);
  out.rank = made->tensor.rank();
  out.type = type;
  out.shape = made->dims.data();
  out.strides = made->strides.data();
  made->managed.context = made.get();
  made->managed.deleter = [](Managed* self) {
    delete static_cast<Export<Managed>*>(self->context);
  };
  return made.release();
}

lathe_error* to_dlpack(const lathe_tensor* tensor, int versioned, void** out) {
  return guarded([&] {
    const lathe_tensor& handle = demand(tensor, "tensor");
    demand(out, "managed");
    check(handle.box.is_tensor(), {ErrorKind::invalid_argument, reason::kType},
          "argument '{}' is not a tensor", "tensor");
    const ElementType type = handle.box.tensor().type();
    const auto* row = std::ranges::find(kTypes, type, &TypeRow::type);
    check(row != kTypes.end(), {ErrorKind::unsupported, reason::kType},
          "DLPack has no unpacked type for {}: convert the tensor first", info(type).name);
    if (versioned != 0) {
      Export<DlVersioned>* made = make_export<DlVersioned>(handle, row->dl);
      made->managed.major = kDlMajor;
      made->managed.minor = kDlMinor;
      *out = &made->managed;
    } else {
      *out = &make_export<DlManaged>(handle, row->dl)->managed;
    }
  });
}

// The tensor of an unread struct; throws before anything is taken over.
lathe_tensor read(const DlTensor& given, std::shared_ptr<void> owner) {
  check(given.rank >= 0 && given.rank <= kMaxRank && (given.rank == 0 || given.shape != nullptr),
        {ErrorKind::invalid_argument, reason::kRank},
        "the DLPack tensor has rank {}, expected 0 to {}", given.rank, kMaxRank);
  const auto* row = std::ranges::find_if(kTypes, [&](const TypeRow& known) {
    return known.dl.code == given.type.code && known.dl.bits == given.type.bits &&
           known.dl.lanes == given.type.lanes;
  });
  check(row != kTypes.end(), {ErrorKind::unsupported, reason::kType},
        "the DLPack type with code {}, {} bits and {} lanes is not supported", given.type.code,
        given.type.bits, given.type.lanes);
  const lathe_device* device = nullptr;
  if (given.device.type != kDlCpu) {
    device = find_dlpack_device(given.device);
    check(device != nullptr, {ErrorKind::invalid_argument, reason::kWrongDevice},
          "the DLPack tensor is on device {} of type {}: copy it to the host first",
          given.device.id, given.device.type);
  }
  Dims dims(given.shape, given.shape + given.rank);
  const int64_t count = element_count(dims);  // throws for negative sizes and overflow
  static_cast<void>(bytes_for(row->type, count));
  check(given.data != nullptr || count == 0, ErrorKind::invalid_argument,
        "the DLPack tensor {} has no data", to_string(row->type, dims));
  Dims strides = given.strides == nullptr ? Tensor::dense_strides(dims)
                                          : Dims(given.strides, given.strides + given.rank);
  auto* data = static_cast<std::byte*>(given.data);
  if (data != nullptr) data += given.byte_offset;
  Tensor made(row->type, std::move(dims), std::move(strides), data, std::move(owner));
  check(device == nullptr || made.is_dense(), ErrorKind::invalid_argument,
        "the DLPack tensor {} on device '{}' is not dense", to_string(made.type(), made.dims()),
        device == nullptr ? "cpu" : device->name);
  return {Box{std::move(made)}, device};
}

// The producer's deleter takes a pointer to its own declaration of the struct.
template <class Managed>
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void delete_managed(void* pointer) {
  auto* self = static_cast<Managed*>(pointer);
  if (self->deleter != nullptr) self->deleter(self);
}

// Reads with a plain pointer first: on an error the caller keeps the struct.
template <class Managed>
lathe_tensor* take(Managed* managed) {
  auto made = std::make_unique<lathe_tensor>(read(managed->tensor, nullptr));
  const std::shared_ptr<void> owner(managed, delete_managed<Managed>);
  const Tensor& plain = made->box.tensor();
  made->box = Box{Tensor(plain.type(), plain.dims(), plain.strides(), plain.data(), owner)};
  return made.release();
}

lathe_error* from_dlpack(void* managed, int versioned, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    check(managed != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "managed");
    if (versioned == 0) {
      *out = take(static_cast<DlManaged*>(managed));
      return;
    }
    auto* given = static_cast<DlVersioned*>(managed);
    check(given->major == kDlMajor, ErrorKind::unsupported,
          "the tensor has DLPack's version {}.{}, expected {}.x", given->major, given->minor,
          kDlMajor);
    check((given->flags & kDlReadOnly) == 0 || versioned == 2, ErrorKind::invalid_argument,
          "the DLPack tensor with the flags {} is read-only: pass 2 for a tensor that is only read",
          given->flags);
    *out = take(given);
  });
}

}  // namespace

void add_dlpack(lathe_api& api) {
  api.tensor_to_dlpack = to_dlpack;
  api.tensor_from_dlpack = from_dlpack;
}

}  // namespace lathe::capi
