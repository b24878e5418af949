// SPDX-License-Identifier: MIT
#include "targets/gpu/driver/driver.h"

#include "base/error.h"

namespace lathe::gpu {

std::string_view to_string(Vendor vendor) {
  return vendor == Vendor::cuda ? "cuda" : vendor == Vendor::hip ? "hip" : "host";
}

std::string_view advice(ErrorKind kind) {
  return kind == ErrorKind::out_of_memory
             ? "use a smaller batch or context, --compute bf16, another device, or cpu"
             : "other targets still work; if it recurs, restart the process and see `lathe doctor`";
}

void Driver::attempt(std::string_view call) {
  ++calls_;
  if (fail_at_ == 0) [[likely]] {
    return;
  }
  if (--fail_at_ != 0) return;
  const bool memory = call == "allocate" || call == "allocate_pinned" || call == "commit";
  const ErrorKind kind = memory ? ErrorKind::out_of_memory : ErrorKind::device;
  fail(kind, "{}: {} failed, as a test requested: {}", to_string(vendor()), call, advice(kind));
}

void* Driver::allocate(size_t bytes) {
  attempt("allocate");
  return do_allocate(bytes);
}

void* Driver::allocate_pinned(size_t bytes) {
  attempt("allocate_pinned");
  return do_allocate_pinned(bytes);
}

std::unique_ptr<Reservation> Driver::reserve(int64_t bytes) {
  attempt("reserve");
  return do_reserve(bytes);
}

StreamHandle Driver::make_stream() {
  attempt("make_stream");
  return do_make_stream();
}

void Driver::synchronize(StreamHandle stream) {
  ++waits_;
  attempt("synchronize");
  do_synchronize(stream);
}

void Driver::copy(StreamHandle stream, void* to, const void* from, size_t bytes) {
  ++copies_;
  attempt("copy");
  if (bytes > 0) do_copy(stream, to, from, bytes);
}

void Driver::fill(StreamHandle stream, void* to, uint8_t value, size_t bytes) {
  ++copies_;
  attempt("fill");
  if (bytes > 0) do_fill(stream, to, value, bytes);
}

EventHandle Driver::make_event() {
  attempt("make_event");
  return do_make_event();
}

void Driver::record(StreamHandle stream, EventHandle event) {
  attempt("record");
  do_record(stream, event);
}

void Driver::wait(StreamHandle stream, EventHandle event) {
  attempt("wait");
  do_wait(stream, event);
}

void Driver::synchronize(EventHandle event) {
  ++waits_;
  attempt("synchronize_event");
  do_synchronize(event);
}

bool Driver::done(EventHandle event) {
  attempt("done");
  return do_done(event);
}

void Driver::begin_capture(StreamHandle stream) {
  attempt("begin_capture");
  do_begin_capture(stream);
}

GraphHandle Driver::end_capture(StreamHandle stream) {
  try {
    attempt("end_capture");
  } catch (...) {
    do_destroy(do_end_capture(stream));  // the stream captures no longer
    throw;
  }
  return do_end_capture(stream);
}

void Driver::launch(StreamHandle stream, GraphHandle graph) {
  ++graphs_;
  attempt("launch_graph");
  do_launch(stream, graph);
}

ModuleHandle Driver::load(std::span<const std::byte> image) {
  attempt("load");
  return do_load(image);
}

FunctionHandle Driver::function(ModuleHandle module, const std::string& name) {
  attempt("function");
  return do_function(module, name);
}

void Driver::launch(StreamHandle stream, const KernelLaunch& launch) {
  ++launches_;
  attempt("launch");
  do_launch(stream, launch);
}

int64_t Driver::free_bytes() { return do_free_bytes(); }

}  // namespace lathe::gpu
