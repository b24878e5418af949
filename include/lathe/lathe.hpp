// SPDX-License-Identifier: MIT
// Lathe's C++ interface: inline wrappers over lathe.h, so that programs and library need not be
// built by the same compiler.
//
//   lathe::Program program("model.onnx");
//   lathe::Plan plan(program);
//   lathe::Session session(plan);
//   std::vector<float> pixels = …;
//   lathe::Tensor image = lathe::Tensor::wrap<float>({1, 3, 224, 224}, pixels.data());
//   std::vector<lathe::Tensor> results = session.run({image});
//   std::span<const float> scores = results[0].values<float>();
//
// Errors throw lathe::Error. Objects own handles and are movable; copies of a Tensor share memory.
// Thread safety is that of lathe.h, which describes the function behind each member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/lathe.h"

namespace lathe {
inline namespace v1 {

// The table of functions. Terminates the process if the library is older than this header.
inline const lathe_api& api() {
  static const lathe_api* const table = lathe_get_api(LATHE_API_VERSION);
  if (table == nullptr) std::terminate();
  return *table;
}

namespace detail {
template <class T>
T init() {
  T out{};
  out.size = sizeof out;
  return out;
}
}  // namespace detail

// An error: kind, message, and notes on the place.
class Error : public std::exception {
 public:
  explicit Error(lathe_error* error)
      : kind_(api().error_kind(error)),
        reason_(api().error_reason(error)),
        text_(api().error_message(error)) {
    for (size_t i = 0; i < api().error_note_count(error); ++i) {
      notes_.emplace_back(api().error_note(error, i));
    }
    api().error_free(error);
  }
  lathe_error_kind kind() const { return kind_; }
  const std::string& reason() const { return reason_; }  // a stable word: "missing_file"
  const char* what() const noexcept override { return text_.c_str(); }  // message and notes
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  lathe_error_kind kind_;
  std::string reason_;
  std::string text_;
  std::vector<std::string> notes_;
};

inline void check(lathe_error* error) {
  if (error != nullptr) throw Error(error);
}

// The element type of an arithmetic C++ type.
template <class T>
constexpr lathe_element_type element_type_of() {
  if constexpr (std::is_same_v<T, float>) return LATHE_F32;
  if constexpr (std::is_same_v<T, double>) return LATHE_F64;
  if constexpr (std::is_same_v<T, bool>) return LATHE_BOOL;
  if constexpr (std::is_same_v<T, int8_t>) return LATHE_I8;
  if constexpr (std::is_same_v<T, int16_t>) return LATHE_I16;
  if constexpr (std::is_same_v<T, int32_t>) return LATHE_I32;
  if constexpr (std::is_same_v<T, int64_t>) return LATHE_I64;
  if constexpr (std::is_same_v<T, uint8_t>) return LATHE_U8;
  if constexpr (std::is_same_v<T, uint16_t>) return LATHE_U16;
  if constexpr (std::is_same_v<T, uint32_t>) return LATHE_U32;
  if constexpr (std::is_same_v<T, uint64_t>) return LATHE_U64;
}

// A device's memory and streams; lives as long as the process.
class Device {
 public:
  Device() : handle_(api().device_at(0)) {}  // the host, "cpu"
  explicit Device(const lathe_device* handle) : handle_(handle) {}
  // InvalidArgument for an unknown name.
  static Device find(const std::string& name) {
    const lathe_device* found = nullptr;
    check(api().device_find(name.c_str(), &found));
    return Device(found);
  }
  // Those that "auto" may choose.
  static std::vector<Device> list() {
    std::vector<Device> out;
    for (size_t i = 0; i < api().device_count(); ++i) out.emplace_back(api().device_at(i));
    return out;
  }
  lathe_device_info info() const {
    auto out = detail::init<lathe_device_info>();
    check(api().device_info(handle_, &out));
    return out;
  }
  std::string name() const { return info().name; }
  const lathe_device* handle() const { return handle_; }
  friend bool operator==(const Device& a, const Device& b) { return a.handle_ == b.handle_; }

 private:
  const lathe_device* handle_;
};

// A value at run time: a tensor, a sequence of values, or nothing. Copies share the memory.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(lathe_tensor* handle) : handle_(handle, api().tensor_free) {}
  // Dense and zero-filled; `dims` in elements.
  Tensor(lathe_element_type type, std::span<const int64_t> dims) {
    lathe_tensor* made = nullptr;
    check(api().tensor_create(type, dims.data(), static_cast<int>(dims.size()), &made));
    *this = Tensor(made);
  }
  Tensor(lathe_element_type type, std::initializer_list<int64_t> dims)
      : Tensor(type, std::span<const int64_t>(dims.begin(), dims.size())) {}

  // Dense and zero-filled, in a device's memory.
  Tensor(const Device& device, lathe_element_type type, std::span<const int64_t> dims) {
    lathe_tensor* made = nullptr;
    check(api().tensor_create_on(device.handle(), type, dims.data(), static_cast<int>(dims.size()),
                                 &made));
    *this = Tensor(made);
  }

  // Wraps dense, row-major memory of the caller, which must outlive every reference.
  static Tensor wrap(lathe_element_type type, std::span<const int64_t> dims, void* data) {
    lathe_tensor* made = nullptr;
    check(api().tensor_wrap(type, dims.data(), nullptr, static_cast<int>(dims.size()), data,
                            nullptr, nullptr, &made));
    return Tensor(made);
  }
  template <class T>
  static Tensor wrap(std::initializer_list<int64_t> dims, T* data) {
    return wrap(element_type_of<T>(), {dims.begin(), dims.size()}, data);
  }
  // A sequence of values that share the memory of `items`.
  static Tensor sequence(std::span<const Tensor> items) {
    std::vector<lathe_tensor*> handles;
    for (const Tensor& item : items) handles.push_back(item.handle());
    lathe_tensor* made = nullptr;
    check(api().tensor_sequence(handles.data(), handles.size(), &made));
    return Tensor(made);
  }

  // An optional without a value.
  static Tensor none() {
    lathe_tensor* made = nullptr;
    check(api().tensor_none(&made));
    return Tensor(made);
  }
  // Distinct keys, i64[n] or string[n], and their values.
  static Tensor map(const Tensor& keys, std::span<const Tensor> values) {
    std::vector<lathe_tensor*> handles;
    for (const Tensor& value : values) handles.push_back(value.handle());
    lathe_tensor* made = nullptr;
    check(api().tensor_map(keys.handle(), handles.data(), handles.size(), &made));
    return Tensor(made);
  }
  // The keys of a map, ascending, and the sequence of their values.
  std::pair<Tensor, Tensor> map_items() const {
    lathe_tensor* keys = nullptr;
    lathe_tensor* values = nullptr;
    check(api().tensor_map_items(handle(), &keys, &values));
    return {Tensor(keys), Tensor(values)};
  }

  bool empty() const { return handle_ == nullptr || kind() == LATHE_VALUE_NONE; }
  lathe_value_kind kind() const { return api().tensor_kind(handle()); }
  lathe_element_type type() const { return api().tensor_type(handle()); }
  std::span<const int64_t> dims() const {
    return {api().tensor_dims(handle()), static_cast<size_t>(api().tensor_rank(handle()))};
  }
  std::span<const int64_t> strides() const {  // in elements
    return {api().tensor_strides(handle()), static_cast<size_t>(api().tensor_rank(handle()))};
  }
  int64_t count() const { return api().tensor_count(handle()); }  // elements
  int64_t bytes() const { return api().tensor_bytes(handle()); }  // of the dense elements
  void* data() const { return api().tensor_data(handle()); }      // null for strings
  // The elements of a dense tensor; empty if T is not its element type.
  template <class T>
  std::span<T> values() const {
    if (type() != element_type_of<std::remove_const_t<T>>()) return {};
    return {static_cast<T*>(data()), static_cast<size_t>(count())};
  }
  // An element of a dense string tensor, row-major; InvalidArgument beyond the last.
  std::string string(int64_t index) const {
    const char* text = nullptr;
    size_t bytes = 0;
    check(api().tensor_string(handle(), index, &text, &bytes));
    return {text, bytes};
  }
  void set_string(int64_t index, std::string_view text) {
    check(api().tensor_set_string(handle(), index, text.data(), text.size()));
  }
  // All elements of a dense string tensor.
  std::vector<std::string> strings() const {
    std::vector<lathe_text> texts(static_cast<size_t>(count()));
    check(api().tensor_strings(handle(), texts.data(), texts.size()));
    std::vector<std::string> out;
    for (const lathe_text& text : texts) out.emplace_back(text.data, text.bytes);
    return out;
  }
  void set_strings(std::span<const std::string> strings) {
    std::vector<lathe_text> texts;
    for (const std::string& text : strings) texts.push_back({text.data(), text.size()});
    check(api().tensor_set_strings(handle(), texts.data(), texts.size()));
  }
  // Items of a sequence.
  size_t item_count() const { return api().tensor_item_count(handle()); }
  Tensor item(size_t index) const {
    lathe_tensor* found = nullptr;
    check(api().tensor_item(handle(), index, &found));
    return Tensor(found);
  }
  // Where the host may not read it, data() is the device's address.
  Device device() const { return Device(api().tensor_device(handle())); }
  // A dense copy in a device's memory; by default in the host's.
  Tensor to(const Device& device = {}) const {
    lathe_tensor* made = nullptr;
    check(api().tensor_copy_to(handle(), device.handle(), &made));
    return Tensor(made);
  }
  lathe_tensor* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<lathe_tensor> handle_;
};

// An input or output; see lathe_value_info. Views live as long as their Program or Plan.
struct ValueInfo {
  std::string_view name;
  std::string_view type;  // "f32[batch, 3, 224, 224]"
  lathe_value_kind kind;
  lathe_element_type element_type;
  int rank;                                      // -1: unknown before the run
  std::span<const int64_t> dims;                 // in elements; -1: not fixed
  std::string_view denotation;                   // "IMAGE"; often empty
  std::span<const char* const> dim_denotations;  // "DATA_BATCH"
  bool has_default;                              // a run may omit this input
};

namespace detail {
template <class Handle>
using Owner = std::unique_ptr<Handle, void (*)(Handle*)>;

template <class Handle, class Count, class Get>
std::vector<ValueInfo> infos(Handle* handle, Count count, Get get) {
  std::vector<ValueInfo> out;
  for (size_t i = 0; i < count(handle); ++i) {
    auto info = detail::init<lathe_value_info>();
    check(get(handle, i, &info));
    const auto rank = static_cast<size_t>(info.rank < 0 ? 0 : info.rank);
    out.push_back({info.name,
                   info.type,
                   info.kind,
                   info.element_type,
                   info.rank,
                   {info.dims, rank},
                   info.denotation,
                   {info.dim_denotations, rank},
                   info.has_default != 0});
  }
  return out;
}
}  // namespace detail

// Values of a module are numbers; kNoValue is an absent operand.
inline constexpr size_t kNoValue = LATHE_NO_VALUE;

// A module of a program, which owns it. See lathe_api::module_instruction.
class Module {
 public:
  explicit Module(lathe_module* handle) : handle_(handle) {}
  std::string name() const { return api().module_name(handle_); }
  size_t parameter(const std::string& name, const std::string& type) {
    size_t value = 0;
    check(api().module_parameter(handle_, name.c_str(), type.c_str(), &value));
    return value;
  }
  size_t literal(const Tensor& tensor) {
    size_t value = 0;
    check(api().module_literal(handle_, tensor.handle(), &value));
    return value;
  }
  // Applies an op with one result; `attributes` is a JSON object, or empty.
  size_t instruction(const std::string& op, const std::vector<size_t>& operands,
                     const std::string& attributes = {}) {
    return instructions(op, operands, attributes, {}, 1).front();
  }
  std::vector<size_t> instructions(const std::string& op, const std::vector<size_t>& operands,
                                   const std::string& attributes, const std::vector<Module>& bodies,
                                   size_t result_count) {
    std::vector<lathe_module*> handles;
    for (const Module& body : bodies) handles.push_back(body.handle_);
    std::vector<size_t> results(result_count);
    check(api().module_instruction(handle_, op.c_str(), {attributes.data(), attributes.size()},
                                   operands.data(), operands.size(), handles.data(), handles.size(),
                                   results.data(), results.size()));
    return results;
  }
  // Sets the results, pairs of a name and a value, and closes the module.
  void set_results(const std::vector<std::pair<std::string, size_t>>& results) {
    std::vector<const char*> names;
    std::vector<size_t> values;
    for (const auto& [name, value] : results) {
      names.push_back(name.c_str());
      values.push_back(value);
    }
    check(api().module_return(handle_, values.data(), names.data(), values.size()));
  }
  // Parameters, instructions and "return".
  size_t size() const { return api().module_size(handle_); }
  lathe_instruction_info at(size_t index) const {
    auto info = detail::init<lathe_instruction_info>();
    check(api().module_at(handle_, index, &info));
    return info;
  }
  lathe_module* handle() const { return handle_; }

 private:
  lathe_module* handle_;
};

// An imported model, or one built by instructions.
class Program {
 public:
  // Loads an ONNX model or a program's text. Io, InvalidModel, Unsupported.
  explicit Program(const std::string& path) : handle_(nullptr, api().program_free) {
    lathe_program* made = nullptr;
    check(api().program_load(path.c_str(), nullptr, &made));
    handle_.reset(made);
  }
  // Loads the bytes of such a file, copied. `data`: external data by the locations that the model
  // names.
  using DataFile = std::pair<std::string, std::span<const std::byte>>;
  static Program from_memory(std::span<const std::byte> bytes,
                             std::span<const DataFile> data = {}) {
    std::vector<lathe_data_file> files;
    for (const auto& [name, own] : data) files.push_back({name.c_str(), own.data(), own.size()});
    auto options = detail::init<lathe_load_options>();
    options.data = files.data();
    options.data_count = files.size();
    lathe_program* made = nullptr;
    check(api().program_load_memory(bytes.data(), bytes.size(), &options, &made));
    return Program(made);
  }
  // An empty program. Build module("main").
  static Program create(const std::string& name) {
    lathe_program* made = nullptr;
    check(api().program_create(name.c_str(), &made));
    return Program(made);
  }
  // "main", or a new module for the body of an instruction.
  Module module(const std::string& name) {
    lathe_module* made = nullptr;
    check(api().module_create(handle(), name.c_str(), &made));
    return Module(made);
  }
  std::vector<ValueInfo> inputs() const {
    return detail::infos(handle(), api().program_input_count, api().program_input);
  }
  std::vector<ValueInfo> outputs() const {
    return detail::infos(handle(), api().program_output_count, api().program_output);
  }
  // Inputs of the model's file that have a default and are no inputs here.
  std::vector<ValueInfo> defaults() const {
    return detail::infos(handle(), api().program_default_count, api().program_default);
  }
  // What the model's file states beside its graph; strings live as long as the program.
  lathe_program_info info() const {
    auto out = detail::init<lathe_program_info>();
    check(api().program_info(handle(), &out));
    return out;
  }
  std::vector<std::pair<std::string, std::string>> metadata() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (size_t i = 0; i < api().program_metadata_count(handle()); ++i) {
      const char* key = nullptr;
      const char* value = nullptr;
      check(api().program_metadata(handle(), i, &key, &value));
      out.emplace_back(key, value);
    }
    return out;
  }
  // Converts pairs of an input and an output to states; see lathe_api::program_promote_states.
  void promote_states(const std::vector<std::pair<std::string, std::string>>& past_and_present) {
    std::vector<const char*> past;
    std::vector<const char*> present;
    for (const auto& [from, to] : past_and_present) {
      past.push_back(from.c_str());
      present.push_back(to.c_str());
    }
    check(api().program_promote_states(handle(), past.data(), present.data(), past.size()));
  }
  std::string text() const { return write("text"); }
  // "text", "json" or "dot".
  std::string write(const std::string& format) const {
    std::string out;
    check(api().program_write(
        handle(), format.c_str(),
        [](void* context, const char* text, size_t bytes) {
          static_cast<std::string*>(context)->append(text, bytes);
        },
        &out));
    return out;
  }
  lathe_program* handle() const { return handle_.get(); }

 private:
  explicit Program(lathe_program* handle) : handle_(handle, api().program_free) {}
  detail::Owner<lathe_program> handle_;
};

// Cancels runs from another thread.
class Cancel {
 public:
  Cancel() : handle_(nullptr, api().cancel_free) {
    lathe_cancel* made = nullptr;
    check(api().cancel_create(&made));
    handle_.reset(made);
  }
  void set() { api().cancel_set(handle()); }
  void reset() { api().cancel_reset(handle()); }
  lathe_cancel* handle() const { return handle_.get(); }

 private:
  detail::Owner<lathe_cancel> handle_;
};

// Sizes that a symbol of dims may have; equal ones replace it. `most` -1: no limit.
struct DimRange {
  std::string name;
  int64_t least = 0;
  int64_t most = -1;
};

struct CompileOptions {
  // "cpu", "ref", or "auto": that of a compiled file, else the best one present.
  std::string target = "auto";
  std::string compute = "as_model";
  int threads = 0;  // that pack weights; 0: the process's
  std::vector<DimRange> dims{};
  double tune_seconds = 0;  // measures other ways to compute products for about as long
};

// A compiled program; immutable, shared by sessions.
class Plan {
 public:
  explicit Plan(const Program& program, const std::string& target = "auto")
      : Plan(program, CompileOptions{.target = target}) {}
  Plan(const Program& program, const CompileOptions& given) : handle_(nullptr, api().plan_free) {
    auto options = detail::init<lathe_compile_options>();
    options.target = given.target.c_str();
    options.compute = given.compute.c_str();
    options.threads = given.threads;
    std::vector<lathe_dim_range> ranges;
    for (const DimRange& dim : given.dims) {
      ranges.push_back({dim.name.c_str(), dim.least, dim.most, nullptr, 0});
    }
    options.dims = ranges.data();
    options.dim_count = ranges.size();
    options.tune_seconds = given.tune_seconds;
    lathe_plan* made = nullptr;
    check(api().plan_compile(program.handle(), &options, &made));
    handle_.reset(made);
  }
  std::vector<ValueInfo> inputs() const {
    return detail::infos(handle(), api().plan_input_count, api().plan_input);
  }
  std::vector<ValueInfo> outputs() const {
    return detail::infos(handle(), api().plan_output_count, api().plan_output);
  }
  // Launches with their kernels and reasons, a JSON object.
  std::string explain() const {
    std::string out;
    check(api().plan_explain(
        handle(),
        [](void* context, const char* text, size_t bytes) {
          static_cast<std::string*>(context)->append(text, bytes);
        },
        &out));
    return out;
  }
  // Writes a compiled file, which Program loads.
  void save(const std::string& path) const { check(api().program_save(handle(), path.c_str())); }
  // The bytes of such a file.
  std::string save() const {
    std::string out;
    check(api().program_save_memory(
        handle(),
        [](void* context, const char* text, size_t bytes) {
          static_cast<std::string*>(context)->append(text, bytes);
        },
        &out));
    return out;
  }
  lathe_plan* handle() const { return handle_.get(); }

 private:
  detail::Owner<lathe_plan> handle_;
};

// Copies in order on a device; see lathe_api::stream_create.
class Stream {
 public:
  explicit Stream(const Device& device) : handle_(nullptr, api().stream_free) {
    lathe_stream* made = nullptr;
    check(api().stream_create(device.handle(), &made));
    handle_.reset(made);
  }
  // Enqueues a copy between tensors of equal type and shape.
  void copy(const Tensor& from, const Tensor& to) {
    check(api().tensor_copy(from.handle(), to.handle(), handle()));
  }
  void synchronize() { check(api().stream_synchronize(handle())); }
  lathe_stream* handle() const { return handle_.get(); }
  // The driver's handle, CUstream or hipStream_t; null where the device has none.
  void* native() const { return api().stream_native(handle()); }

 private:
  detail::Owner<lathe_stream> handle_;
};

// Threads that sessions share.
class Environment {
 public:
  // 0: one thread per available core.
  explicit Environment(int threads = 0) : handle_(nullptr, api().environment_free) {
    auto options = detail::init<lathe_environment_options>();
    options.threads = threads;
    lathe_environment* made = nullptr;
    check(api().environment_create(&options, &made));
    handle_.reset(made);
  }
  lathe_environment* handle() const { return handle_.get(); }

 private:
  detail::Owner<lathe_environment> handle_;
};

struct SessionOptions {
  int threads = 0;                           // compute threads; 0: one per available core
  int64_t memory_limit = 0;                  // bytes of scratch, results and states; 0: none
  const Environment* environment = nullptr;  // null: the process's
};

struct RunOptions {
  const Cancel* cancel = nullptr;
  double timeout_seconds = 0;  // 0: none
  lathe_poll poll = nullptr;   // called about every 50 ms; must not throw
  void* poll_context = nullptr;
  bool results_on_device = false;  // new results stay where the plan's kernels write them
  const Stream* stream = nullptr;  // the run begins after its work so far
};

namespace detail {
inline lathe_run_options to_c(const RunOptions& given) {
  auto options = init<lathe_run_options>();
  if (given.cancel != nullptr) options.cancel = given.cancel->handle();
  options.timeout_seconds = given.timeout_seconds;
  options.poll = given.poll;
  options.poll_context = given.poll_context;
  options.results_on_device = given.results_on_device ? 1 : 0;
  if (given.stream != nullptr) options.stream = given.stream->handle();
  return options;
}
}  // namespace detail

// A tensor in the caller's memory, for Session::run_views; an empty one receives a new tensor in
// `value`, which take() passes on.
inline lathe_view view_of(lathe_element_type type, std::span<const int64_t> dims, void* data) {
  auto view = detail::init<lathe_view>();
  view.type = type;
  view.rank = static_cast<int32_t>(dims.size());
  view.dims = dims.data();
  view.data = data;
  return view;
}
inline lathe_view empty_view() { return detail::init<lathe_view>(); }
inline Tensor take(lathe_view& view) { return Tensor(std::exchange(view.value, nullptr)); }

// States and scratch memory of a plan; serves one thread at a time.
class Session {
 public:
  explicit Session(const Plan& plan, SessionOptions session_options = {})
      : handle_(nullptr, api().session_free), output_count_(plan.outputs().size()) {
    auto options = detail::init<lathe_session_options>();
    options.threads = session_options.threads;
    options.memory_limit = session_options.memory_limit;
    if (session_options.environment != nullptr) {
      options.environment = session_options.environment->handle();
    }
    lathe_session* made = nullptr;
    check(api().session_create(plan.handle(), &options, &made));
    handle_.reset(made);
  }
  // Runs once: one tensor per input, in order; returns one per output. InvalidArgument,
  // OutOfMemory, Interrupted.
  std::vector<Tensor> run(std::span<const Tensor> inputs, RunOptions options = {}) {
    std::vector<Tensor> outputs(output_count_);
    run(inputs, outputs, options);
    return outputs;
  }
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs, RunOptions options = {}) {
    return run(std::span<const Tensor>(inputs.begin(), inputs.size()), options);
  }
  // Writes results to the caller's tensors; an empty one is replaced by a new one.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, RunOptions run_options = {}) {
    const lathe_run_options options = detail::to_c(run_options);
    std::vector<lathe_tensor*> in;
    std::vector<lathe_tensor*> out;
    for (const Tensor& input : inputs) in.push_back(input.handle());
    for (const Tensor& output : outputs) out.push_back(output.handle());
    check(api().session_run(handle_.get(), &options, in.data(), in.size(), out.data(), out.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].handle() == nullptr) outputs[i] = Tensor(out[i]);
    }
  }
  // Runs on views of the caller's memory, without handles; see lathe_api::session_run_views.
  void run_views(std::span<const lathe_view> inputs, std::span<lathe_view> outputs,
                 RunOptions run_options = {}) {
    const lathe_run_options options = detail::to_c(run_options);
    check(api().session_run_views(handle_.get(), &options, inputs.data(), inputs.size(),
                                  outputs.data(), outputs.size()));
  }
  // Runs on another thread; what the options name must stay until the future is ready.
  std::future<std::vector<Tensor>> run_async(std::span<const Tensor> inputs,
                                             RunOptions run_options = {}) {
    struct Running {
      std::promise<std::vector<Tensor>> promise{};
      std::vector<lathe_view> outputs{};
      static void end(void* context, lathe_error* error) noexcept {
        const std::unique_ptr<Running> own(static_cast<Running*>(context));
        try {
          check(error);
          std::vector<Tensor> results;
          for (lathe_view& view : own->outputs) results.push_back(take(view));
          own->promise.set_value(std::move(results));
        } catch (...) {
          own->promise.set_exception(std::current_exception());
        }
      }
    };
    auto running = std::make_unique<Running>();
    running->outputs.assign(output_count_, empty_view());
    std::vector<lathe_view> views(inputs.size(), empty_view());
    for (size_t i = 0; i < inputs.size(); ++i) views[i].value = inputs[i].handle();
    const lathe_run_options options = detail::to_c(run_options);
    std::future<std::vector<Tensor>> future = running->promise.get_future();
    check(api().session_run_async(handle_.get(), &options, views.data(), views.size(),
                                  running->outputs.data(), running->outputs.size(), Running::end,
                                  running.get()));
    static_cast<void>(running.release());
    return future;
  }
  // Empties every state.
  void reset() { check(api().session_reset(handle_.get())); }
  // Truncates every growing state to its first `length` positions.
  void truncate(int64_t length) { check(api().session_truncate(handle_.get(), length)); }
  // Length of a state along its growing axis.
  int64_t length(const std::string& state) const {
    int64_t length = 0;
    check(api().session_length(handle_.get(), state.c_str(), &length));
    return length;
  }

 private:
  detail::Owner<lathe_session> handle_;
  size_t output_count_;
};

// Runs the command line `lathe` with these arguments; returns its exit code.
inline int run_command(const std::vector<std::string>& arguments) {
  std::vector<const char*> texts;
  for (const std::string& argument : arguments) texts.push_back(argument.c_str());
  int code = 0;
  check(api().run_command(texts.data(), texts.size(), &code));
  return code;
}

}  // namespace v1
}  // namespace lathe
