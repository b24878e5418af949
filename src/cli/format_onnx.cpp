// SPDX-License-Identifier: MIT
// Writes a program as an ONNX model; field numbers are those of onnx.proto.
#include <protozero/pbf_writer.hpp>

#include "cli/formats.h"
#include "import/onnx/tensor_proto.h"
#include "ir/op.h"
#include "tensor/mapped.h"

namespace lathe::cli {
namespace {

using Writer = protozero::pbf_writer;

constexpr int32_t kIrVersion = 10;
constexpr std::string_view kDomain = "lathe";

// AttributeProto.AttributeType
enum class AttributeTag : int32_t {
  number = 1,
  integer,
  text,
  tensor,
  graph,
  numbers,
  integers,
  texts
};

class OnnxWriter {
 public:
  OnnxWriter(const Program& program, int64_t embed_bytes)
      : program_(program), embed_bytes_(embed_bytes) {}

  std::string write() {
    std::string out;
    Writer model(out);
    model.add_int64(1, kIrVersion);
    model.add_string(2, "lathe");
    model.add_string(3, LATHE_VERSION);
    model.add_message(7, graph(program_.main()));
    std::string opset;
    Writer(opset).add_string(1, kDomain.data(), kDomain.size());
    Writer(opset).add_int64(2, 1);
    model.add_message(8, opset);
    for (const auto& [key, value] : program_.metadata) {
      std::string entry;
      Writer(entry).add_string(1, key);
      Writer(entry).add_string(2, value);
      model.add_message(14, entry);
    }
    return out;
  }

 private:
  std::string graph(const Module& module) {
    std::string out;
    Writer writer(out);
    for (const auto& instruction : module.instructions()) {
      if (instruction->literal() != nullptr) {
        writer.add_message(5, literal(*instruction));
      } else {
        writer.add_message(1, node(*instruction));
      }
    }
    writer.add_string(2, module.name());
    for (const auto& parameter : module.parameters()) {
      writer.add_message(11, value_info(parameter->name(), parameter->type()));
    }
    for (const Value* result : module.results()) {
      writer.add_message(12, value_info(result->name(), result->type()));
    }
    for (const auto& instruction : module.instructions()) {
      for (const Value& result : instruction->results()) {
        writer.add_message(13, value_info(result.name(), result.type()));
      }
    }
    return out;
  }

  std::string node(const Instruction& instruction) {
    std::string out;
    Writer writer(out);
    for (const Value* operand : instruction.operands()) {
      writer.add_string(1, operand == nullptr ? "" : operand->name());
    }
    for (const Value& result : instruction.results()) writer.add_string(2, result.name());
    for (const Origin& origin : instruction.origins()) {
      writer.add_string(3, origin.node);
      break;
    }
    writer.add_string(4, instruction.op().name.data(), instruction.op().name.size());
    for (const auto& [name, value] : instruction.attributes()) {
      writer.add_message(5, attribute(name, value));
    }
    for (size_t i = 0; i < instruction.bodies().size(); ++i) {
      const auto& names = instruction.op().bodies;
      std::string body;
      Writer body_writer(body);
      body_writer.add_string(1,
                             i < names.size() ? std::string(names[i]) : fmt::format("body_{}", i));
      body_writer.add_message(6, graph(*instruction.bodies()[i]));
      body_writer.add_enum(20, static_cast<int32_t>(AttributeTag::graph));
      writer.add_message(5, body);
    }
    writer.add_string(7, kDomain.data(), kDomain.size());
    return out;
  }

  static std::string attribute(const std::string& name, const Attribute& value) {
    std::string out;
    Writer writer(out);
    writer.add_string(1, name);
    AttributeTag tag = AttributeTag::text;
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      tag = AttributeTag::integer;
      writer.add_int64(3, *integer);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      tag = AttributeTag::integer;
      writer.add_int64(3, *flag ? 1 : 0);
    } else if (const auto* number = std::get_if<double>(&value)) {
      tag = AttributeTag::number;
      writer.add_float(2, static_cast<float>(*number));
    } else if (const auto* integers = std::get_if<Integers>(&value)) {
      tag = AttributeTag::integers;
      for (const int64_t item : *integers) writer.add_int64(8, item);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      writer.add_bytes(4, *text);
    } else {
      writer.add_bytes(4, to_string(value));
    }
    writer.add_enum(20, static_cast<int32_t>(tag));
    return out;
  }

  std::string literal(const Instruction& instruction) const {
    const Literal& literal = *instruction.literal();
    const std::string& name = instruction.result()->name();
    const Tensor& tensor = literal.tensor;
    restore_stored(tensor);
    const bool is_mapped = !literal.file.empty() && tensor.type() != ElementType::string &&
                           tensor.byte_size() > embed_bytes_;
    if (!is_mapped) return onnx::write_tensor_proto(tensor, name);
    std::string out;
    Writer writer(out);
    for (const int64_t extent : tensor.dims()) writer.add_int64(1, extent);
    writer.add_int32(2, info(tensor.type()).onnx);
    writer.add_string(8, name);
    const auto entry = [&](std::string_view key, const std::string& value) {
      std::string pair;
      Writer(pair).add_string(1, key.data(), key.size());
      Writer(pair).add_string(2, value);
      writer.add_message(13, pair);
    };
    entry("location", literal.file);
    entry("offset", fmt::format("{}", literal.offset));
    entry("length", fmt::format("{}", tensor.byte_size()));
    writer.add_enum(14, 1);  // EXTERNAL
    return out;
  }

  static std::string value_info(const std::string& name, const Type& value_type) {
    std::string out;
    Writer writer(out);
    writer.add_string(1, name);
    writer.add_message(2, type(value_type));
    return out;
  }

  static std::string type(const Type& value_type) {
    std::string inner;
    Writer writer(inner);
    uint32_t field = 1;
    switch (value_type.kind) {
      case Type::Kind::tensor:
        writer.add_int32(1, info(value_type.element).onnx);
        if (value_type.dims) writer.add_message(2, shape(*value_type.dims));
        break;
      case Type::Kind::sequence:
        field = 4;
        writer.add_message(1, type(*value_type.item));
        break;
      case Type::Kind::map:
        field = 5;
        writer.add_int32(1, info(value_type.element).onnx);
        writer.add_message(2, type(*value_type.item));
        break;
      case Type::Kind::optional:
        field = 9;
        writer.add_message(1, type(*value_type.item));
        break;
    }
    std::string out;
    Writer(out).add_message(field, inner);
    return out;
  }

  static std::string shape(const std::vector<Dim>& dims) {
    std::string out;
    Writer writer(out);
    for (const Dim& dim : dims) {
      std::string entry;
      if (dim.is_constant()) {
        Writer(entry).add_int64(1, *dim.constant());
      } else {
        Writer(entry).add_string(2, dim.to_string());
      }
      writer.add_message(1, entry);
    }
    return out;
  }

  const Program& program_;
  int64_t embed_bytes_;
};

}  // namespace

std::string program_onnx(const Program& program, int64_t embed_bytes) {
  return OnnxWriter(program, embed_bytes).write();
}

}  // namespace lathe::cli
