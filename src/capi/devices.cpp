// SPDX-License-Identifier: MIT
#include "capi/devices.h"

#include <deque>

#include "base/error_reason.h"
#include "targets/gpu_library.h"
#include "targets/target.h"

namespace lathe::capi {
namespace {

// DLPack's types of devices. One outside of its list has its number among all but the host.
constexpr int32_t kCuda = 2;
constexpr int32_t kRocm = 10;
constexpr int32_t kExtension = 12;

// "cpu", the devices of targets, then those of GPU targets that were requested. Handles stay where
// they are.
class Devices {
 public:
  Devices() {
    all_.push_back({"cpu", &host_device(), true});
    for (const std::string_view name : target_names()) {
      const Device* device = find_target(name)->device();
      if (device != nullptr) all_.push_back({std::string(name), device, false});
    }
  }
  // Null if there is none of the name.
  const lathe_device* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(all_, name, &lathe_device::name);
    return at == all_.end() ? nullptr : &*at;
  }
  const lathe_device* of(const Device& device) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(all_, &device, &lathe_device::device);
    if (at != all_.end()) return &*at;
    return &all_.emplace_back(lathe_device{std::string(device.name()), &device, false});
  }
  // Those that "auto" may choose.
  std::vector<const lathe_device*> listed() {
    const std::vector<std::string_view> best = targets_best_first();
    const std::lock_guard lock(mutex_);
    std::vector<const lathe_device*> out;
    for (const lathe_device& device : all_) {
      if (device.on_host || std::ranges::find(best, device.name) != best.end()) {
        out.push_back(&device);
      }
    }
    return out;
  }
  // All of them, the host first.
  std::vector<const lathe_device*> all() {
    const std::lock_guard lock(mutex_);
    std::vector<const lathe_device*> out;
    for (const lathe_device& device : all_) out.push_back(&device);
    return out;
  }

 private:
  std::mutex mutex_;
  std::deque<lathe_device> all_;
};

Devices& devices() {
  static Devices all;
  return all;
}

size_t device_count() { return devices().listed().size(); }

const lathe_device* device_at(size_t index) {
  const std::vector<const lathe_device*> listed = devices().listed();
  return index < listed.size() ? listed[index] : nullptr;
}

lathe_error* find_device(const char* name, const lathe_device** out) {
  return guarded([&] {
    const std::string_view wanted = &demand(name, "name");
    demand(out, "device");
    const lathe_device* found = devices().find(wanted);
    if (found == nullptr && is_gpu_target(wanted)) {
      found = devices().of(*find_target(wanted)->device());
    }
    if (found != nullptr) {
      *out = found;
      return;
    }
    std::vector<std::string_view> names;
    for (const lathe_device* device : devices().all()) names.push_back(device->name);
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
  return tensor->device != nullptr ? tensor->device : devices().find("cpu");
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
  return off_host(devices().of(*device));
}

DlpackDevice dlpack_device_of(const lathe_device& device) {
  const std::optional<GpuTargetName> gpu = parse_gpu_target(device.name);
  if (gpu && !gpu->host) {
    return {gpu->vendor == "cuda" ? kCuda : kRocm, gpu->device};
  }
  const std::vector<const lathe_device*> all = devices().all();
  return {kExtension, static_cast<int32_t>(std::ranges::find(all, &device) - all.begin()) - 1};
}

const lathe_device* find_dlpack_device(DlpackDevice device) {
  for (const lathe_device* known : devices().all()) {
    if (known->on_host) continue;
    const DlpackDevice own = dlpack_device_of(*known);
    if (own.type == device.type && own.id == device.id) return known;
  }
  if (device.type != kCuda && device.type != kRocm) return nullptr;
  const auto target = find_gpu_target(
      fmt::format("{}:{}", device.type == kCuda ? "cuda" : "hip", device.id), nullptr);
  return target == nullptr ? nullptr : devices().of(*target->device());
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
  api.device_count = device_count;
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
  api.stream_native = [](const lathe_stream* stream) {
    return stream == nullptr ? nullptr : stream->stream->native_handle();
  };
}

}  // namespace lathe::capi
