// SPDX-License-Identifier: MIT
// Ops of the caller: a Python function computes the results, another states
// their types.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "arrays.h"
#include "element_types.h"
#include "programs.h"

namespace lathe_python {
namespace {

// Lives as long as the process, like its op.
struct CustomOp {
  nb::object infer;
  nb::object compute;
};

// Holds the GIL during a callback of any thread.
class Locked {
 public:
  Locked() : state_(ensure_gil()) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

// Runs a callback. Its exception stays pending for the call of the C interface
// that led here, and its text is a note for calls of other threads.
template <class F>
int guarded(lathe_text_sink note, void* context, F&& body) {
  const Locked locked;
  if (PyErr_Occurred() != nullptr) return 1;
  try {
    body();
    return 0;
  } catch (nb::python_error& error) {
    const std::string text = error.what();
    note(context, text.data(), text.size());
    error.restore();
  } catch (const std::exception& error) {
    note(context, error.what(), std::string_view(error.what()).size());
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return 1;
}

nb::object loads(const char* json) {
  return nb::module_::import_("json").attr("loads")(json == nullptr || *json == 0 ? "{}" : json);
}

int infer(void* context, const lathe_value_info* operands, size_t count, const char* attributes,
          lathe_text_sink result, void* result_context) {
  auto& op = *static_cast<CustomOp*>(context);
  return guarded(result, result_context, [&] {
    nb::list types;
    for (size_t i = 0; i < count; ++i) {
      types.append(operands[i].type == nullptr ? nb::none() : nb::object(to_str(operands[i].type)));
    }
    const nb::object made = op.infer(types, loads(attributes));
    for (nb::handle type : made) {
      const std::string text = nb::cast<std::string>(type);
      result(result_context, text.data(), text.size());
    }
  });
}

// A NumPy array over a view's memory.
nb::object array_over(const lathe_view& view) {
  npy_intp strides[16];
  const npy_intp bytes = bits_of(view.type) / 8;
  if (bytes == 0) {
    raise(LATHE_UNSUPPORTED, "custom ops take no strings and no elements below 8 bits", "type");
  }
  for (int i = 0; view.strides != nullptr && i < view.rank; ++i)
    strides[i] = view.strides[i] * bytes;
  PyObject* made = PyArray_NewFromDescr(&PyArray_Type, descriptor_of(view.type), view.rank,
                                        reinterpret_cast<const npy_intp*>(view.dims),
                                        view.strides == nullptr ? nullptr : strides, view.data,
                                        NPY_ARRAY_WRITEABLE, nullptr);
  if (made == nullptr) throw nb::python_error();
  PyArray_UpdateFlags(reinterpret_cast<PyArrayObject*>(made), NPY_ARRAY_UPDATE_ALL);
  return nb::steal(made);
}

// A result of the function as an array; one with element types of its own must have the target's.
nb::object result_of(nb::handle value, nb::handle target) {
  const nb::object wanted = target.attr("dtype");
  if (!nb::hasattr(value, "dtype")) {  // a list, a number
    return nb::module_::import_("numpy").attr("asarray")(value, wanted);
  }
  if (!nb::object(value.attr("dtype")).equal(wanted)) {
    const nb::str got(nb::object(value.attr("dtype"))), expected(wanted);
    raise(LATHE_INVALID_ARGUMENT,
          "the function of a custom op returned elements of " + std::string(got.c_str()) +
              ", expected " + expected.c_str(),
          "type");
  }
  nb::object made = nb::steal(PyArray_FromAny(value.ptr(), nullptr, 0, 0, 0, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

int evaluate(void* context, const lathe_op_call* call) {
  auto& op = *static_cast<CustomOp*>(context);
  return guarded(call->message, call->message_context, [&] {
    nb::list operands;  // copies: the function may keep them
    for (size_t i = 0; i < call->operand_count; ++i) {
      const lathe_view& view = call->operands[i];
      operands.append(view.type == 0 ? nb::none() : nb::object(array_over(view).attr("copy")()));
    }
    const nb::object made = op.compute(operands, loads(call->attributes));
    if (nb::len(made) != call->result_count) {
      raise(LATHE_INVALID_ARGUMENT, "the function of a custom op returned " +
                                        std::to_string(nb::len(made)) + " results, expected " +
                                        std::to_string(call->result_count));
    }
    for (size_t i = 0; i < call->result_count; ++i) {
      const nb::object target = array_over(call->results[i]);
      const nb::object value = result_of(nb::object(made[i]), target);
      const nb::object shape = value.attr("shape");
      if (!shape.equal(target.attr("shape"))) {
        const nb::str text(shape);
        raise(LATHE_INVALID_ARGUMENT,
              "the function of a custom op returned the shape " + std::string(text.c_str()),
              "shape");
      }
      if (PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(target.ptr()),
                           reinterpret_cast<PyArrayObject*>(value.ptr())) < 0) {
        throw nb::python_error();
      }
    }
  });
}

void register_op(const std::string& name, const std::string& doc,
                 const std::vector<std::string>& operands, const std::string& attributes,
                 size_t results, nb::object infer_types, nb::object compute, bool pure) {
  std::vector<const char*> names;
  for (const std::string& operand : operands) names.push_back(operand.c_str());
  auto op = std::make_unique<CustomOp>();
  op->infer = std::move(infer_types);
  op->compute = std::move(compute);
  auto definition = init<lathe_op_definition>();
  definition.name = name.c_str();
  definition.doc = doc.c_str();
  definition.operands = names.data();
  definition.operand_count = names.size();
  definition.attributes = attributes.c_str();
  definition.result_count = results;
  definition.infer = op->infer.is_none() ? nullptr : infer;
  definition.evaluate = evaluate;
  definition.context = op.get();
  definition.impure = pure ? 0 : 1;
  check(api->op_register(&definition));
  op.release();
}

}  // namespace

void add_custom_ops(nb::module_& module) {
  module.def("register_op", register_op, nb::arg("name"), nb::arg("doc"), nb::arg("operands"),
             nb::arg("attributes"), nb::arg("results"), nb::arg("infer").none(), nb::arg("compute"),
             nb::arg("pure"));
}

}  // namespace lathe_python
