// SPDX-License-Identifier: MIT
// Writes ONNX messages field by field, so that tests can write broken ones.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

namespace lathe::onnx {

class Bytes {
 public:
  Bytes& text(uint32_t tag, std::string_view value) {  // also an embedded message
    protozero::pbf_writer(data_).add_bytes(tag, value.data(), value.size());
    return *this;
  }
  Bytes& message(uint32_t tag, const Bytes& value) { return text(tag, value.data_); }
  Bytes& integer(uint32_t tag, int64_t value) {
    protozero::pbf_writer(data_).add_int64(tag, value);
    return *this;
  }
  Bytes& integers(uint32_t tag, std::initializer_list<int64_t> values) {
    protozero::pbf_writer(data_).add_packed_int64(tag, values.begin(), values.end());
    return *this;
  }
  Bytes& floats(uint32_t tag, std::initializer_list<float> values) {
    protozero::pbf_writer(data_).add_packed_float(tag, values.begin(), values.end());
    return *this;
  }
  Bytes& doubles(uint32_t tag, std::initializer_list<double> values) {
    protozero::pbf_writer(data_).add_packed_double(tag, values.begin(), values.end());
    return *this;
  }
  Bytes& number(uint32_t tag, float value) {
    protozero::pbf_writer(data_).add_float(tag, value);
    return *this;
  }
  Bytes& raw(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }
  const std::string& data() const { return data_; }

 private:
  std::string data_;
};

// A TensorProto without elements.
inline Bytes tensor_bytes(std::string_view name, int64_t type,
                          std::initializer_list<int64_t> dims) {
  Bytes out;
  for (const int64_t extent : dims) out.integer(1, extent);
  return out.integer(2, type).text(8, name);
}

// A ValueInfoProto of a tensor without a shape.
inline Bytes value_bytes(std::string_view name, int64_t type = 1) {
  return Bytes().text(1, name).message(2, Bytes().message(1, Bytes().integer(1, type)));
}

inline Bytes node_bytes(std::string_view op, std::initializer_list<std::string_view> inputs,
                        std::initializer_list<std::string_view> outputs,
                        std::string_view name = "") {
  Bytes out;
  for (const std::string_view input : inputs) out.text(1, input);
  for (const std::string_view output : outputs) out.text(2, output);
  if (!name.empty()) out.text(3, name);
  return out.text(4, op);
}

inline Bytes model_bytes(const Bytes& graph, int64_t opset = 18) {
  return Bytes().integer(1, 8).message(7, graph).message(8, Bytes().integer(2, opset));
}

// x -> Relu -> y, with the additions of `more` to the graph.
inline Bytes relu_model(const Bytes& more = {}) {
  Bytes graph;
  graph.message(1, node_bytes("Relu", {"x"}, {"y"}, "act")).text(2, "g");
  graph.message(11, value_bytes("x")).message(12, value_bytes("y"));
  return model_bytes(graph.raw(more.data()));
}

}  // namespace lathe::onnx
