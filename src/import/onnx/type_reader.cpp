// SPDX-License-Identifier: MIT
#include "import/onnx/type_reader.h"

#include "base/error.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

std::vector<Extent> extents(ProtoPlace& place, std::string_view bytes, std::string_view value) {
  std::vector<Extent> out;
  ProtoMessage shape(place, "TensorShapeProto", bytes);
  while (shape.next()) {
    if (shape.tag() != 1) {
      shape.skip();
      continue;
    }
    check(out.size() < static_cast<size_t>(kMaxRank), ErrorKind::unsupported,
          "'{}' has a rank above {}, which is not supported", escape(value), kMaxRank);
    Extent& extent = out.emplace_back();
    ProtoMessage dimension(place, "Dimension", shape.text());
    while (dimension.next()) {
      switch (dimension.tag()) {
        case 1:
          extent.value = dimension.integer();
          break;
        case 2:
          extent.symbol = dimension.name();
          break;
        case 3:
          extent.denotation = dimension.name();
          break;
        default:
          dimension.skip();
      }
    }
  }
  return out;
}

void tensor_type(ProtoPlace& place, std::string_view bytes, std::string_view value,
                 ValueType& out) {
  out.kind = ValueType::Kind::tensor;
  ProtoMessage message(place, "TypeProto.Tensor", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        if (const int64_t type = message.integer(); type != 0) {
          out.element = element_type_of(type, fmt::format("'{}'", escape(value)));
        }
        break;
      case 2:
        out.extents = extents(place, message.text(), value);
        break;
      default:
        message.skip();
    }
  }
}

}  // namespace

ValueType read_type(ProtoPlace& place, std::string_view bytes, std::string_view value) {
  ValueType out;
  ProtoMessage message(place, "TypeProto", bytes);
  while (message.next()) {
    const uint32_t tag = message.tag();
    switch (tag) {
      case 1:
        tensor_type(place, message.text(), value, out);
        break;
      case 4:
      case 9:
      case 5: {
        out.kind = tag == 4   ? ValueType::Kind::sequence
                   : tag == 9 ? ValueType::Kind::optional
                              : ValueType::Kind::map;
        ProtoMessage inner(place, "TypeProto", message.text());
        const uint32_t item = tag == 5 ? 2 : 1;
        while (inner.next()) {
          if (inner.tag() == item) {
            out.item = std::make_shared<const ValueType>(read_type(place, inner.text(), value));
          } else if (tag == 5 && inner.tag() == 1) {
            out.element = element_type_of(inner.integer(), fmt::format("'{}'", escape(value)));
          } else {
            inner.skip();
          }
        }
        break;
      }
      case 6:
        out.denotation = message.name();
        break;
      case 7:
      case 8:
        fail(ErrorKind::unsupported, "'{}' is {}, which is not supported", escape(value),
             tag == 8 ? "a sparse tensor" : "of an opaque type");
      default:
        message.skip();
    }
  }
  return out;
}

}  // namespace lathe::onnx
