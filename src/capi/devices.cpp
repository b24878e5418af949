// SPDX-License-Identifier: MIT
#include "capi/devices.h"

#include "base/error_reason.h"
#include "targets/target.h"

namespace lathe::capi {
namespace {

// "cpu", then the devices of targets, which are listed only if "auto" may choose them.
const std::vector<lathe_device>& all_devices() {
  static const std::vector<lathe_device> all = [] {
    std::vector<lathe_device> found{{"cpu", &host_device(), true}};
    for (const std::string_view name : target_names()) {
      const Device* device = find_target(name)->device();
      if (device != nullptr) found.push_back({std::string(name), device, false});
    }
    return found;
  }();
  return all;
}

std::vector<const lathe_device*> listed_devices() {
  std::vector<const lathe_device*> out;
  const std::vector<std::string_view> best = targets_best_first();
  for (const lathe_device& device : all_devices()) {
    if (device.on_host || std::ranges::find(best, device.name) != best.end()) {
      out.push_back(&device);
    }
  }
  return out;
}

const lathe_device* device_at(size_t index) {
  const std::vector<const lathe_device*> listed = listed_devices();
  return index < listed.size() ? listed[index] : nullptr;
}

lathe_error* find_device(const char* name, const lathe_device** out) {
  return guarded([&] {
    const std::string_view wanted = &demand(name, "name");
    demand(out, "device");
    std::vector<std::string_view> names;
    for (const lathe_device& device : all_devices()) {
      names.push_back(device.name);
      if (device.name != wanted) continue;
      *out = &device;
      return;
    }
    fail({ErrorKind::invalid_argument, reason::kUnknownName}, "unknown device '{}'{}; devices: {}",
         escape(wanted), did_you_mean(wanted, names), fmt::join(names, ", "));
  });
}

lathe_error* get_info(const lathe_device* device, lathe_device_info* info) {
  return guarded([&] {
    const lathe_device& handle = demand(device, "device");
    lathe_device_info out = known(&demand(info, "info"));
    out.size = info->size;
    out.name = handle.name.c_str();
    out.memory_bytes = handle.device->memory_bytes();
    out.host_accessible = handle.device->host_accessible() ? 1 : 0;
    std::memcpy(info, &out, std::min(info->size, sizeof out));
  });
}

std::string describe(const Tensor& tensor, const lathe_device* device) {
  return fmt::format("{} on '{}'", to_string(tensor.type(), tensor.dims()),
                     device == nullptr ? "cpu" : device->name);
}

Dims checked_dims(const int64_t* dims, int rank) {
  check(rank >= 0 && rank <= kMaxRank && (dims != nullptr || rank == 0),
        ErrorKind::invalid_argument, "rank is {} with dims {}, expected 0 to {}", rank,
        dims == nullptr ? "NULL" : "set", kMaxRank);
  Dims out(dims, dims + rank);
  static_cast<void>(element_count(out));  // throws for negative sizes and overflow
  return out;
}

ElementType plain_type(lathe_element_type type, const lathe_device& device) {
  const ElementType element = from_c(type);
  check(element != ElementType::string, {ErrorKind::invalid_argument, reason::kType},
        "strings cannot lie on device '{}'", device.name);
  return element;
}

lathe_error* create_on(const lathe_device* device, lathe_element_type type, const int64_t* dims,
                       int rank, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    const lathe_device& place = demand(device, "device");
    if (place.on_host) {
      *out = new lathe_tensor{Box{Tensor(from_c(type), checked_dims(dims, rank))}};
      return;
    }
    Tensor made = make_on(place, plain_type(type, place), checked_dims(dims, rank));
    const std::unique_ptr<Stream> stream = place.device->make_stream();
    stream->fill(made.data(), std::byte{0}, static_cast<size_t>(made.byte_size()));
    stream->synchronize();
    *out = new lathe_tensor{Box{std::move(made)}, &place};
  });
}

lathe_error* wrap_on(const lathe_device* device, lathe_element_type type, const int64_t* dims,
                     int rank, void* data, void (*release)(void* context), void* context,
                     lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    const lathe_device& place = demand(device, "device");
    const ElementType element = plain_type(type, place);
    Dims extents = checked_dims(dims, rank);
    check(data != nullptr || element_count(extents) == 0, ErrorKind::invalid_argument,
          "argument 'data' is NULL for {}", to_string(element, extents));
    std::shared_ptr<void> owner;
    if (release != nullptr) {
      owner = std::shared_ptr<void>(data, [release, context](void*) { release(context); });
    }
    Dims strides = Tensor::dense_strides(extents);
    *out = new lathe_tensor{
        Box{Tensor(element, std::move(extents), std::move(strides), data, std::move(owner))},
        off_host(&place)};
  });
}

const Tensor& tensor_in(const lathe_tensor& handle, std::string_view what) {
  check(handle.box.is_tensor() && handle.box.tensor().type() != ElementType::string,
        {ErrorKind::invalid_argument, reason::kType},
        "argument '{}' is not a tensor that can be copied between devices", what);
  return handle.box.tensor();
}

void check_copy(const lathe_tensor& from, const lathe_tensor& to) {
  const Tensor& source = tensor_in(from, "from");
  const Tensor& target = tensor_in(to, "to");
  const bool same = source.type() == target.type() && source.dims() == target.dims();
  check(same,
        {ErrorKind::invalid_argument,
         source.type() == target.type() ? reason::kShape : reason::kType},
        "cannot copy {} to {}", describe(source, from.device), describe(target, to.device));
  const bool both_host = from.device == nullptr && to.device == nullptr;
  check(both_host || (source.is_dense() && target.is_dense()), ErrorKind::invalid_argument,
        "cannot copy {} to {}: both must be dense", describe(source, from.device),
        describe(target, to.device));
}

lathe_error* copy(const lathe_tensor* from, lathe_tensor* to, lathe_stream* stream) {
  return guarded([&] {
    const lathe_tensor& source = demand(from, "from");
    lathe_tensor& target = demand(to, "to");
    check_copy(source, target);
    if (stream == nullptr) {
      copy_now(source.box.tensor(), source.device, target.box.tensor(), target.device);
      return;
    }
    const auto fits = [&](const lathe_device* device) {
      return device == nullptr || device == stream->device;
    };
    check(
        fits(source.device) && fits(target.device),
        {ErrorKind::invalid_argument, reason::kWrongDevice},
        "the stream is of device '{}', but the copy is from {} to {}: use a stream of that device",
        stream->device->name, describe(source.box.tensor(), source.device),
        describe(target.box.tensor(), target.device));
    const std::scoped_lock lock(stream->mutex);
    stream->held.push_back(source.box);
    stream->held.push_back(target.box);
    if (source.device == nullptr && target.device == nullptr) {
      stream->stream->synchronize();
      copy_elements(source.box.tensor().view(), target.box.tensor().view());
      return;
    }
    stream->stream->copy(target.box.tensor().data(), source.box.tensor().data(),
                         static_cast<size_t>(source.box.tensor().byte_size()));
  });
}

lathe_error* copy_to(const lathe_tensor* from, const lathe_device* device, lathe_tensor** out) {
  return guarded([&] {
    const lathe_tensor& source = demand(from, "tensor");
    demand(out, "copy");
    const lathe_device* place = off_host(device);
    Tensor dense = tensor_in(source, "tensor");
    if (source.device == nullptr) dense = dense.dense();
    Tensor made = place == nullptr ? Tensor(dense.type(), dense.dims())
                                   : make_on(*place, dense.type(), dense.dims());
    copy_now(dense, source.device, made, place);
    *out = new lathe_tensor{Box{std::move(made)}, place};
  });
}

const lathe_device* get_device(const lathe_tensor* tensor) {
  return tensor->device != nullptr ? tensor->device : &all_devices().front();
}

lathe_error* create_stream(const lathe_device* device, lathe_stream** out) {
  return guarded([&] {
    demand(out, "stream");
    auto made = std::make_unique<lathe_stream>();
    made->device = &demand(device, "device");
    made->stream = device->device->make_stream();
    *out = made.release();
  });
}

lathe_error* synchronize(lathe_stream* stream) {
  return guarded([&] {
    lathe_stream& handle = demand(stream, "stream");
    const std::scoped_lock lock(handle.mutex);
    handle.stream->synchronize();
    handle.held.clear();
  });
}

void free_stream(lathe_stream* stream) {
  if (stream == nullptr) return;
  lathe_error* error = synchronize(stream);
  delete error;
  delete stream;
}

}  // namespace

const lathe_device* device_of(const Device* device) {
  if (device == nullptr) return nullptr;
  for (const lathe_device& known : all_devices()) {
    if (known.device == device) return off_host(&known);
  }
  return nullptr;
}

const lathe_device* off_host(const lathe_device* device) {
  return device == nullptr || device->on_host ? nullptr : device;
}

const Box& host_box(const lathe_tensor* tensor, std::string_view what) {
  const lathe_tensor& handle = demand(tensor, what);
  if (handle.device != nullptr) {
    fail({ErrorKind::invalid_argument, reason::kWrongDevice},
         "'{}' is {}, but the host must read it: copy it with tensor_copy_to and device 'cpu'",
         what, describe(handle.box.tensor(), handle.device));
  }
  return handle.box;
}

Tensor make_on(const lathe_device& device, ElementType type, Dims dims) {
  return make_tensor(*device.device, type, std::move(dims));
}

void copy_now(const Tensor& from, const lathe_device* from_device, const Tensor& to,
              const lathe_device* to_device) {
  if (from_device == nullptr && to_device == nullptr) {
    copy_elements(from.view(), to.view());
    return;
  }
  const auto bytes = static_cast<size_t>(from.byte_size());
  if (from_device != nullptr && to_device != nullptr && from_device != to_device) {
    const Tensor between(from.type(), from.dims());
    copy_now(from, from_device, between, nullptr);
    copy_now(between, nullptr, to, to_device);
    return;
  }
  const lathe_device& device = from_device != nullptr ? *from_device : *to_device;
  const std::unique_ptr<Stream> stream = device.device->make_stream();
  stream->copy(to.data(), from.data(), bytes);
  stream->synchronize();
}

void add_devices(lathe_api& api) {
  api.device_count = [] { return listed_devices().size(); };
  api.device_at = device_at;
  api.device_find = find_device;
  api.device_info = get_info;
  api.tensor_create_on = create_on;
  api.tensor_wrap_on = wrap_on;
  api.tensor_device = get_device;
  api.tensor_copy = copy;
  api.tensor_copy_to = copy_to;
  api.stream_create = create_stream;
  api.stream_synchronize = synchronize;
  api.stream_free = free_stream;
}

}  // namespace lathe::capi
