/* SPDX-License-Identifier: MIT */
/* Environments, devices, streams, DLPack, asynchronous runs, compile options: C11, on the device
 * TEST_DEVICE, `sim` by default. */
#include "check.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

static const char kScale[] =
    "program \"scale\" stage imported {\n"
    "  symbol n bound 0..*\n"
    "  module @main(%x: f32[n, 2], %w: f32[2]) {\n"
    "    %a = mul(%x, %w)\n"
    "    %y = relu(%a)\n"
    "    return %y as \"y\", %a as \"a\"\n"
    "  }\n"
    "}\n";

static const char kState[] =
    "program \"growing\" stage imported {\n"
    "  symbol n bound 0..*\n"
    "  symbol past bound 0..*\n"
    "  module @main(%past: f32[past, 2], %x: f32[n, 2]) {\n"
    "    %present = concat(%past, %x) {axis = 0}\n"
    "    return %present as \"present\"\n"
    "  }\n"
    "}\n";

static const char kEndless[] =
    "program \"endless\" stage imported {\n"
    "  symbol past bound 0..*\n"
    "  module @main(%past: f32[past, 2], %x: f32[1, 2]) {\n"
    "    %present = concat(%past, %x) {axis = 0}\n"
    "    %trips = literal i64[] {1000000000000}\n"
    "    %go = literal bool[] {true}\n"
    "    %y = loop(%trips, %go, %x) {carried = 1, body = @body}\n"
    "    return %present as \"present\", %y as \"y\"\n"
    "  }\n"
    "  module @body(%i: i64[], %c: bool[], %v: f32[1, 2]) {\n"
    "    %w = sin(%v)\n"
    "    return %c as \"c\", %w as \"w\"\n"
    "  }\n"
    "}\n";

static lathe_view view_of(const int64_t* dims, int32_t rank, void* data) {
  lathe_view view = LATHE_INIT(lathe_view);
  view.type = LATHE_F32;
  view.rank = rank;
  view.dims = dims;
  view.data = data;
  return view;
}

static void keep(void* context, const char* text, size_t bytes) {
  char* buffer = context;
  const size_t used = strlen(buffer);
  if (used + bytes + 1 < 1 << 16) memcpy(buffer + used, text, bytes);
}

static const char* device_name(void) {
  const char* name = getenv("TEST_DEVICE");
  return name == NULL ? "sim" : name;
}

/* The text with the device's name for %s. */
static const char* named(const char* format) {
  static char text[256];
  snprintf(text, sizeof text, format, device_name());
  return text;
}

static const lathe_device* tested(void) {
  const lathe_device* device = NULL;
  expect_done(lathe->device_find(device_name(), &device), "find a device");
  return device;
}

static void test_list(void) {
  expect(lathe->device_count() >= 1 && lathe->device_at(lathe->device_count()) == NULL, "devices");
  lathe_device_info info = LATHE_INIT(lathe_device_info);
  expect_done(lathe->device_info(lathe->device_at(0), &info), "the first device");
  expect(equal(info.name, "cpu") && info.host_accessible, "it is the host");
  for (size_t i = 0; i < lathe->device_count(); ++i) {
    expect_done(lathe->device_info(lathe->device_at(i), &info), "a device");
    expect(!equal(info.name, device_name()), "a device for tests is not listed");
  }
  expect_done(lathe->device_info(tested(), &info), "the device for tests");
  expect(equal(info.name, device_name()) && !info.host_accessible, "its memory faults on the host");
  const lathe_device* none = NULL;
  expect_error(lathe->device_find("sin", &none), LATHE_INVALID_ARGUMENT, "unknown_name",
               "unknown device 'sin' (did you mean 'sim'?); devices: cpu, sim");
  if (strncmp(device_name(), "gpu", 3) == 0) {
    expect_error(lathe->device_find("hip:4096", &none), LATHE_DEVICE, NULL,
                 "target 'hip:4096' is not present: ");
  }
  expect(none == NULL, "no device is found");
  expect_error(lathe->device_find(NULL, &none), LATHE_INVALID_ARGUMENT, NULL, "'name' is NULL");
}

static lathe_tensor* on_device(const int64_t* dims, int rank, float* values) {
  lathe_tensor* host = NULL;
  lathe_tensor* there = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, rank, values, NULL, NULL, &host), "wrap");
  expect_done(lathe->tensor_copy_to(host, tested(), &there), "copy to the device");
  lathe->tensor_free(host);
  return there;
}

static void test_tensors(void) {
  const int64_t dims[2] = {2, 2};
  float values[4] = {1, 2, 3, 4};
  lathe_tensor* there = on_device(dims, 2, values);
  expect(lathe->tensor_device(there) == tested(), "the device of a tensor");
  lathe_tensor* back = NULL;
  expect_done(lathe->tensor_copy_to(there, NULL, &back), "copy to the host");
  expect(lathe->tensor_device(back) == lathe->device_at(0), "its device");
  expect(((const float*)lathe->tensor_data(back))[3] == 4, "its values");

  lathe_tensor* zeros = NULL;
  lathe_stream* stream = NULL;
  expect_done(lathe->tensor_create_on(tested(), LATHE_F32, dims, 2, &zeros), "zeros on the device");
  expect_done(lathe->stream_create(tested(), &stream), "a stream");
  expect(lathe->stream_native(NULL) == NULL, "no stream has no handle");
  expect((lathe->stream_native(stream) != NULL) == (strncmp(device_name(), "gpu", 3) == 0),
         "a stream of a driver has its handle");
  expect_done(lathe->tensor_copy(there, zeros, stream), "enqueue a copy");
  expect_done(lathe->tensor_copy(zeros, back, stream), "enqueue a copy to the host");
  lathe->tensor_free(there); /* kept by the stream */
  expect_done(lathe->stream_synchronize(stream), "wait");
  expect(((const float*)lathe->tensor_data(back))[0] == 1, "the copies ran in order");

  lathe_tensor* wrapped = NULL;
  expect_done(lathe->tensor_wrap_on(tested(), LATHE_F32, dims, 2, lathe->tensor_data(zeros), NULL,
                                    NULL, &wrapped),
              "wrap device memory");
  expect_done(lathe->tensor_copy(wrapped, back, NULL), "copy it");
  const int64_t other[2] = {4, 1};
  lathe_tensor* odd = NULL;
  expect_done(lathe->tensor_create(LATHE_F32, other, 2, &odd), "another shape");
  expect_error(lathe->tensor_copy(zeros, odd, NULL), LATHE_INVALID_ARGUMENT, "shape",
               named("cannot copy f32[2, 2] on '%s' to f32[4, 1] on 'cpu'"));
  expect_error(lathe->tensor_create_on(tested(), LATHE_STRING, dims, 2, &odd),
               LATHE_INVALID_ARGUMENT, "type", named("strings cannot lie on device '%s'"));
  const int64_t huge[2] = {INT64_MAX, 4};
  expect_error(lathe->tensor_create_on(tested(), LATHE_F32, huge, 2, &odd), LATHE_OUT_OF_MEMORY,
               NULL, "");
  expect_error(lathe->tensor_create_on(NULL, LATHE_F32, dims, 2, &odd), LATHE_INVALID_ARGUMENT,
               NULL, "'device' is NULL");
  /* The host must read these. */
  lathe_tensor* made = NULL;
  expect_error(lathe->tensor_sequence(&zeros, 1, &made), LATHE_INVALID_ARGUMENT, "wrong_device",
               named("'items[0]' is f32[2, 2] on '%s', but the host must read it"));
  expect_error(lathe->tensor_map(zeros, NULL, 0, &made), LATHE_INVALID_ARGUMENT, "wrong_device",
               "'keys'");
  lathe_stream* host_stream = NULL;
  expect_done(lathe->stream_create(lathe->device_at(0), &host_stream), "a stream of the host");
  expect_error(lathe->tensor_copy(zeros, back, host_stream), LATHE_INVALID_ARGUMENT, "wrong_device",
               "the stream is of device 'cpu'");
  lathe->stream_free(host_stream);
  lathe->tensor_free(wrapped);
  lathe->tensor_free(zeros);
  lathe->tensor_free(back);
  lathe->tensor_free(odd);
  lathe->stream_free(stream);
}

static void test_device_runs(void) {
  lathe_session* session = session_of(kScale, device_name());
  const int64_t dims[2] = {2, 2};
  float x[4] = {1, -2, 3, -4};
  float w[2] = {2, 3};
  lathe_tensor* there = on_device(dims, 2, x);
  lathe_view inputs[2] = {LATHE_INIT(lathe_view), view_of(dims, 1, w)};
  inputs[0].value = there;
  lathe_view outputs[2] = {LATHE_INIT(lathe_view), LATHE_INIT(lathe_view)};
  lathe_run_options options = LATHE_INIT(lathe_run_options);
  options.results_on_device = 1;
  expect_done(lathe->session_run_views(session, &options, inputs, 2, outputs, 2),
              "run on the device");
  expect(outputs[0].device == tested() && lathe->tensor_device(outputs[0].value) == tested(),
         "a result stays on the device");
  lathe_tensor* host = NULL;
  expect_done(lathe->tensor_copy_to(outputs[0].value, NULL, &host), "copy it");
  const float* y = lathe->tensor_data(host);
  expect(y[0] == 2 && y[1] == 0 && y[2] == 6 && y[3] == 0, "its values");
  lathe->tensor_free(host);

  /* It is an input of the next run, whose result goes into bound memory of the device. */
  float a[4] = {0, 0, 0, 0};
  lathe_view next[2] = {view_of(dims, 2, lathe->tensor_data(outputs[0].value)), inputs[1]};
  next[0].device = tested();
  lathe_view bound[2] = {LATHE_INIT(lathe_view), view_of(dims, 2, a)};
  bound[0].value = outputs[1].value;
  lathe_stream* stream = NULL;
  expect_done(lathe->stream_create(tested(), &stream), "a stream");
  options.stream = stream;
  expect_done(lathe->session_run_views(session, &options, next, 2, bound, 2), "run on views");
  expect(a[0] == 4 && a[2] == 12, "the host's memory holds a result");
  expect_done(lathe->tensor_copy_to(bound[0].value, NULL, &host), "copy the bound result");
  expect(((const float*)lathe->tensor_data(host))[2] == 12, "the device's memory holds the other");
  lathe->tensor_free(host);

  /* Other devices. */
  lathe_session* on_cpu = session_of(kScale, "cpu");
  options.stream = NULL;
  lathe_view host_inputs[2] = {view_of(dims, 2, x), view_of(dims, 1, w)};
  expect_error(lathe->session_run_views(on_cpu, &options, host_inputs, 2, bound, 2),
               LATHE_INVALID_ARGUMENT, "wrong_device",
               named("output 'y' is bound to memory of device '%s', but the plan runs on 'cpu'"));
  lathe_view fresh[2] = {LATHE_INIT(lathe_view), LATHE_INIT(lathe_view)};
  expect_error(lathe->session_run_views(on_cpu, &options, inputs, 2, fresh, 2),
               LATHE_INVALID_ARGUMENT, "wrong_device",
               named("input 'x' lies on device '%s', but the plan runs on 'cpu': copy it with"));
  options.stream = stream;
  expect_error(lathe->session_run_views(on_cpu, &options, host_inputs, 2, fresh, 2),
               LATHE_INVALID_ARGUMENT, "wrong_device",
               named("the stream is of device '%s', but the plan of 'scale' runs on 'cpu'"));
  options.stream = NULL;
  lathe_tensor* handles[2] = {there, NULL};
  lathe_tensor* results[2] = {NULL, NULL};
  expect_error(lathe->session_run(on_cpu, NULL, handles, 2, results, 2), LATHE_INVALID_ARGUMENT,
               "wrong_device", "input 'x'");
  expect_done(lathe->session_run_views(on_cpu, &options, host_inputs, 2, fresh, 2),
              "nothing is lost");
  expect(fresh[0].device == NULL, "a result of the host");

  /* A shape that the host reads. */
  lathe_session* reshaping = session_of(
      "program \"reshaping\" stage imported {\n"
      "  symbol k bound 0..*\n"
      "  symbol a found 0..*\n"
      "  module @main(%x: f32[k], %s: f32[k]) {\n"
      "    %i = cast(%s) {to = bool}\n"
      "    %y = nonzero(%i) found a\n"
      "    return %y as \"y\"\n"
      "  }\n"
      "}\n",
      device_name());
  const int64_t one[1] = {4};
  lathe_tensor* marks = on_device(one, 1, x);
  lathe_view both[2] = {view_of(one, 1, x), LATHE_INIT(lathe_view)};
  both[1].value = marks;
  lathe_view indices = LATHE_INIT(lathe_view);
  expect_done(lathe->session_run_views(reshaping, NULL, both, 2, &indices, 1), "nonzero of marks");
  expect(indices.rank == 2 && indices.dims[1] == 4, "the found size");
  lathe->tensor_free(indices.value);
  lathe->tensor_free(marks);
  lathe->session_free(reshaping);

  lathe_session* mixed = session_of(kScale, "sim:mixed");
  expect_error(lathe->session_run_views(mixed, NULL, inputs, 2, fresh, 2), LATHE_INVALID_ARGUMENT,
               "wrong_device",
               named("input 'x' lies on device '%s', but the plan runs on 'sim:mixed'"));
  lathe->session_free(mixed);
  for (int i = 0; i < 2; ++i) {
    lathe->tensor_free(outputs[i].value);
    lathe->tensor_free(fresh[i].value);
  }
  lathe->tensor_free(there);
  lathe->stream_free(stream);
  lathe->session_free(on_cpu);
  lathe->session_free(session);
}

static void test_names(void) {
  lathe_session* session = session_of(kScale, NULL);
  const int64_t dims[2] = {1, 2};
  const int64_t two[1] = {2};
  float x[2] = {1, 2};
  float w[2] = {3, 4};
  float a[8] = {0};
  lathe_view inputs[2] = {view_of(two, 1, w), view_of(dims, 2, x)};
  inputs[0].name = "w";
  inputs[1].name = "x";
  lathe_view output = LATHE_INIT(lathe_view);
  output.name = "a";
  output.data = a;
  output.bytes = sizeof a;
  expect_done(lathe->session_run_views(session, NULL, inputs, 2, &output, 1), "run by names");
  expect(a[0] == 3 && a[1] == 8 && output.rank == 2 && output.dims[0] == 1, "one named output");
  lathe->tensor_free(output.value);
  output.value = NULL;
  inputs[0].name = "v";
  expect_error(lathe->session_run_views(session, NULL, inputs, 2, &output, 1),
               LATHE_INVALID_ARGUMENT, "unknown_name", "'scale' has no input 'v'");
  inputs[0].name = "x";
  expect_error(lathe->session_run_views(session, NULL, inputs, 2, &output, 1),
               LATHE_INVALID_ARGUMENT, NULL, "input 'x' is given twice");
  inputs[0].name = "w";
  expect_error(lathe->session_run_views(session, NULL, inputs, 1, &output, 1),
               LATHE_INVALID_ARGUMENT, "missing_input", "input 'x' requires a value");
  inputs[1].name = NULL;
  expect_error(lathe->session_run_views(session, NULL, inputs, 2, &output, 1),
               LATHE_INVALID_ARGUMENT, NULL, "inputs[1].name");
  lathe->session_free(session);
}

struct ended {
  atomic_int calls;
  lathe_error* error;
};
static void complete(void* context, lathe_error* error) {
  struct ended* ended = context;
  ended->error = error;
  atomic_fetch_add(&ended->calls, 1);
}
static void wait_for(struct ended* ended, int calls) {
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < 20000 && atomic_load(&ended->calls) < calls; ++i) thrd_sleep(&pause, NULL);
  expect(atomic_load(&ended->calls) == calls, "the run completes once");
}

static void test_async(void) {
  const char* targets[2] = {"cpu", device_name()};
  for (int t = 0; t < 2; ++t) {
    lathe_session* session = session_of(kScale, targets[t]);
    const int64_t dims[2] = {1, 2};
    float x[2] = {1, 2};
    float w[2] = {3, 4};
    lathe_tensor* handle = NULL;
    expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 2, x, NULL, NULL, &handle), "wrap");
    lathe_view inputs[2] = {LATHE_INIT(lathe_view), view_of(dims + 1, 1, w)};
    inputs[0].value = handle;
    lathe_view outputs[8][2];
    struct ended ended = {0, NULL};
    for (int i = 0; i < 8; ++i) {
      outputs[i][0] = (lathe_view)LATHE_INIT(lathe_view);
      outputs[i][1] = (lathe_view)LATHE_INIT(lathe_view);
      expect_done(
          lathe->session_run_async(session, NULL, inputs, 2, outputs[i], 2, complete, &ended),
          "start a run");
    }
    lathe->tensor_free(handle);
    lathe->session_free(session);
    wait_for(&ended, 8);
    expect(ended.error == NULL, "without an error");
    for (int i = 0; i < 8; ++i) {
      expect(((const float*)outputs[i][0].data)[1] == 8, "its result");
      lathe->tensor_free(outputs[i][0].value);
      lathe->tensor_free(outputs[i][1].value);
    }
  }
}

static void test_async_states(void) {
  lathe_program* program = load_text(kEndless);
  const char* past[1] = {"past"};
  const char* present[1] = {"present"};
  expect_done(lathe->program_promote_states(program, past, present, 1), "a state");
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, NULL, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  lathe_cancel* cancel = NULL;
  expect_done(lathe->cancel_create(&cancel), "a cancellation");
  lathe_run_options options = LATHE_INIT(lathe_run_options);
  options.cancel = cancel;
  float x[2] = {1, 2};
  const int64_t dims[2] = {1, 2};
  const lathe_view input = view_of(dims, 2, x);
  lathe_view output = LATHE_INIT(lathe_view);
  lathe_view second = LATHE_INIT(lathe_view);
  struct ended ended = {0, NULL};
  struct ended never = {0, NULL};
  expect_done(lathe->session_run_async(session, &options, &input, 1, &output, 1, complete, &ended),
              "start a run");
  expect_error(lathe->session_run_async(session, &options, &input, 1, &second, 1, complete, &never),
               LATHE_INVALID_ARGUMENT, "busy", "session of 'endless' has a run in flight");
  expect_error(lathe->session_run_views(session, NULL, &input, 1, &second, 1),
               LATHE_INVALID_ARGUMENT, "busy", "has a run in flight");
  expect_error(lathe->session_reset(session), LATHE_INVALID_ARGUMENT, "busy", "in flight");
  lathe->cancel_set(cancel);
  wait_for(&ended, 1);
  expect(output.value == NULL, "a cancelled run writes nothing");
  expect_error(ended.error, LATHE_INTERRUPTED, "interrupted", "run cancelled");
  expect(atomic_load(&never.calls) == 0, "a refused run does not complete");
  int64_t length = -1;
  expect_done(lathe->session_length(session, "past", &length), "the state");
  expect(length == 0, "it is unchanged");
  expect_error(lathe->session_run_async(session, NULL, &input, 1, &output, 1, NULL, NULL),
               LATHE_INVALID_ARGUMENT, NULL, "completion");
  lathe->cancel_free(cancel);
  lathe->session_free(session);
  lathe->plan_free(plan);
  lathe->program_free(program);
}

/* DLPack 1.x, as another library declares it. */
struct dl_tensor {
  void* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
};
struct dl_managed {
  struct dl_tensor tensor;
  void* context;
  void (*deleter)(struct dl_managed* self);
};
struct dl_versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct dl_versioned* self);
  uint64_t flags;
  struct dl_tensor tensor;
};

static int deleted = 0;
static void count_deleted(struct dl_managed* self) {
  (void)self;
  ++deleted;
}

/* The deleter comes from the library, whose struct has another name. */
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
static void
test_dlpack(void) {
  const int64_t dims[2] = {2, 2};
  float values[4] = {1, 2, 3, 4};
  lathe_tensor* tensor = NULL;
  expect_done(lathe->tensor_wrap(LATHE_F32, dims, NULL, 2, values, NULL, NULL, &tensor), "wrap");
  void* managed = NULL;
  expect_done(lathe->tensor_to_dlpack(tensor, 1, &managed), "export");
  const struct dl_versioned* exported = managed;
  expect(exported->major == 1 && exported->tensor.data == values && exported->tensor.rank == 2 &&
             exported->tensor.code == 2 && exported->tensor.bits == 32 &&
             exported->tensor.strides[0] == 2 && exported->tensor.device_type == 1,
         "its fields");
  lathe_tensor* again = NULL;
  expect_done(lathe->tensor_from_dlpack(managed, 1, &again), "import it");
  expect(lathe->tensor_data(again) == values, "without a copy");
  lathe->tensor_free(again);
  expect_done(lathe->tensor_to_dlpack(tensor, 0, &managed), "export the older struct");
  ((struct dl_managed*)managed)->deleter(managed);
  lathe->tensor_free(tensor);

  int64_t shape[2] = {2, 2};
  int64_t strides[2] = {1, 2};
  struct dl_managed own = {{values, 1, 0, 2, 2, 32, 1, shape, strides, 0}, NULL, count_deleted};
  expect_done(lathe->tensor_from_dlpack(&own, 0, &tensor), "import strides");
  expect(lathe->tensor_strides(tensor)[1] == 2 && deleted == 0, "they are kept");
  lathe->tensor_free(tensor);
  expect(deleted == 1, "the deleter is called once");
  own.tensor.rank = 1000;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_INVALID_ARGUMENT, "rank",
               "rank 1000");
  own.tensor.rank = 2;
  own.tensor.lanes = 4;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_UNSUPPORTED, "type", "4 lanes");
  own.tensor.lanes = 1;
  own.tensor.device_type = 2;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_INVALID_ARGUMENT, "wrong_device",
               "device 0 of type 2");
  own.tensor.device_type = 1;
  shape[0] = -3;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_INVALID_ARGUMENT, NULL, "");
  shape[0] = INT64_MAX;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_OUT_OF_MEMORY, NULL, "");
  shape[0] = 2;
  own.tensor.data = NULL;
  expect_error(lathe->tensor_from_dlpack(&own, 0, &tensor), LATHE_INVALID_ARGUMENT, NULL,
               "has no data");
  expect(deleted == 1, "on an error the caller keeps the struct");
  struct dl_versioned other = {2, 0, NULL, NULL, 0, {values, 1, 0, 2, 2, 32, 1, shape, NULL, 0}};
  expect_error(lathe->tensor_from_dlpack(&other, 1, &tensor), LATHE_UNSUPPORTED, NULL,
               "DLPack's version 2.0");
  other.major = 1;
  other.flags = 1;
  expect_error(lathe->tensor_from_dlpack(&other, 1, &tensor), LATHE_INVALID_ARGUMENT, NULL,
               "read-only");
  expect_done(lathe->tensor_from_dlpack(&other, 2, &tensor), "read-only, to read");
  lathe->tensor_free(tensor);
  lathe_tensor* narrow = NULL;
  expect_done(lathe->tensor_create(LATHE_I4, shape, 2, &narrow), "4 bits");
  expect_error(lathe->tensor_to_dlpack(narrow, 1, &managed), LATHE_UNSUPPORTED, "type", "i4");
  lathe->tensor_free(narrow);

  /* Memory of a device keeps its device. */
  lathe_tensor* there = on_device(dims, 2, values);
  expect_done(lathe->tensor_to_dlpack(there, 1, &managed), "export device memory");
  expect_done(lathe->tensor_from_dlpack(managed, 1, &again), "import device memory");
  expect(lathe->tensor_device(again) == tested(), "its device");
  lathe->tensor_free(there);
  lathe_tensor* host = NULL;
  expect_done(lathe->tensor_copy_to(again, NULL, &host), "copy it");
  expect(((const float*)lathe->tensor_data(host))[3] == 4, "its values");
  lathe->tensor_free(host);
  lathe->tensor_free(again);
}

static void test_compile_options(void) {
  lathe_program* program = load_text(kScale);
  lathe_dim_range range = {"n", 3, 3, NULL, 0};
  lathe_compile_options options = LATHE_INIT(lathe_compile_options);
  static char text[1 << 16];
  options.compute = "f32";
  options.threads = 1;
  options.dims = &range;
  options.dim_count = 1;
  options.trace = keep;
  options.trace_context = text;
  lathe_plan* plan = NULL;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile with a fixed dim");
  lathe_value_info info = LATHE_INIT(lathe_value_info);
  expect_done(lathe->plan_input(plan, 0, &info), "the input");
  expect(equal(info.type, "f32[3, 2]"), "its dim is fixed");
  expect(strstr(text, "fold_constants") != NULL, "a line per pass");
  memset(text, 0, sizeof text);
  expect_done(lathe->plan_explain(plan, keep, text), "explain");
  expect(strstr(text, "\"kernel\":\"") != NULL && strstr(text, "\"model\":\"scale\"") != NULL,
         "its launches");
  lathe_plan_info about = LATHE_INIT(lathe_plan_info);
  expect_done(lathe->plan_info(plan, &about), "about the plan");
  expect(about.launch_count >= 1 && !about.has_states && about.device == NULL, "its counts");
  lathe->plan_free(plan);
  plan = NULL;
  range.most = 8;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile with a range");
  lathe_session* session = NULL;
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float x[4] = {1, 2, 3, 4};
  float w[2] = {1, 1};
  const int64_t dims[2] = {2, 2};
  lathe_view inputs[2] = {view_of(dims, 2, x), view_of(dims, 1, w)};
  lathe_view outputs[2] = {LATHE_INIT(lathe_view), LATHE_INIT(lathe_view)};
  expect_error(lathe->session_run_views(session, NULL, inputs, 2, outputs, 2),
               LATHE_INVALID_ARGUMENT, "shape", "expected 'n' in 3..8");
  lathe->session_free(session);
  lathe->plan_free(plan);
  plan = NULL;
  range.name = "m";
  expect_error(lathe->plan_compile(program, &options, &plan), LATHE_INVALID_ARGUMENT,
               "unknown_name", "'scale' has no dim 'm'");
  range.name = "n";
  range.least = 9;
  expect_error(lathe->plan_compile(program, &options, &plan), LATHE_INVALID_ARGUMENT, NULL,
               "dim 'n' has the range 9..8");
  range.least = 3;
  options.tune_seconds = -1;
  expect_error(lathe->plan_compile(program, &options, &plan), LATHE_INVALID_ARGUMENT, NULL,
               "tune_seconds is -1, expected 0 to 86400");
  options.tune_seconds = 0.01;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile with measured choices");
  lathe->plan_free(plan);
  plan = NULL;
  options.tune_seconds = 0;
  options.dim_count = 0;
  options.compute = "f33";
  expect_error(lathe->plan_compile(program, &options, &plan), LATHE_INVALID_ARGUMENT, NULL, "f33");
  options.compute = NULL;
  options.threads = -1;
  expect_error(lathe->plan_compile(program, &options, &plan), LATHE_INVALID_ARGUMENT, NULL,
               "threads is -1");

  lathe_environment* environment = NULL;
  lathe_environment_options threads = LATHE_INIT(lathe_environment_options);
  threads.threads = 2;
  expect_done(lathe->environment_create(&threads, &environment), "an environment");
  options.threads = 0;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile");
  lathe_session_options with = LATHE_INIT(lathe_session_options);
  with.environment = environment;
  expect_done(lathe->session_create(plan, &with, &session), "a session of it");
  lathe->environment_free(environment); /* the session keeps it */
  lathe_run_options run = LATHE_INIT(lathe_run_options);
  memset(text, 0, sizeof text);
  run.trace = keep;
  run.trace_context = text;
  expect_done(lathe->session_run_views(session, &run, inputs, 2, outputs, 2), "run");
  expect(text[0] == '[' && strstr(text, "\"dur\"") != NULL, "the times of its launches");
  expect(strstr(text, "\"operands\":[{") != NULL, "and their shapes");
  lathe->tensor_free(outputs[0].value);
  lathe->tensor_free(outputs[1].value);
  lathe->session_free(session);
  threads.threads = 5000;
  expect_error(lathe->environment_create(&threads, &environment), LATHE_INVALID_ARGUMENT, NULL,
               "threads is 5000");
  lathe->plan_free(plan);
  lathe->program_free(program);
}

static void test_state_inputs(void) {
  lathe_program* program = load_text(kState);
  const char* past[1] = {"past"};
  const char* present[1] = {"present"};
  expect_done(lathe->program_promote_states(program, past, present, 1), "a state");
  lathe_compile_options options = LATHE_INIT(lathe_compile_options);
  options.target = device_name();
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "a session");
  float x[2] = {1, 2};
  const int64_t dims[2] = {1, 2};
  lathe_tensor* there = on_device(dims, 2, x);
  lathe_view input = LATHE_INIT(lathe_view);
  input.value = there;
  lathe_error* error = lathe->session_run_views(session, NULL, &input, 1, NULL, 0);
  if (error != NULL) {
    expect_error(error, LATHE_INVALID_ARGUMENT, "wrong_device", "the host must read it");
  }
  int64_t length = -1;
  expect_done(lathe->session_length(session, "past", &length), "its length");
  expect(length == (error == NULL ? 1 : 0), "a run or none");
  lathe->tensor_free(there);
  lathe->session_free(session);
  lathe->plan_free(plan);
  lathe->program_free(program);
}

int main(void) {
  lathe = lathe_get_api(LATHE_API_VERSION);
  if (lathe == NULL) return 1;
  test_list();
  test_tensors();
  test_device_runs();
  test_names();
  test_async();
  test_async_states();
  test_dlpack();
  test_compile_options();
  test_state_inputs();
  return finish();
}
