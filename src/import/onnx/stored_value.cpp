// SPDX-License-Identifier: MIT
// Reads TensorProto, SequenceProto, OptionalProto and MapProto from the files of test data.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/file_map.h"
#include "import/onnx/external_data.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

// SequenceProto.DataType and OptionalProto.DataType.
enum class Stored : int64_t { undefined = 0, tensor, sparse_tensor, sequence, map, optional };

class Reader {
 public:
  Reader(ProtoPlace& place, const TensorSource& source) : place_(place), source_(source) {}

  StoredValue read(std::string_view bytes, ValueType::Kind kind) {
    switch (kind) {
      case ValueType::Kind::sequence:
        return sequence(bytes);
      case ValueType::Kind::optional:
        return optional(bytes);
      case ValueType::Kind::map:
        return map(bytes);
      default:
        return tensor(bytes);
    }
  }

 private:
  StoredValue tensor(std::string_view bytes) {
    const TensorData data = read_tensor_data(place_, bytes, source_);
    return {std::string(data.name), Box{to_tensor(data)}};
  }

  void refuse_sparse(std::string_view message) const {
    fail(ErrorKind::unsupported, "{} at byte {} has a sparse tensor, which is not supported",
         message, place_.at - place_.begin);
  }

  StoredValue sequence(std::string_view bytes) {
    StoredValue out;
    auto items = std::make_shared<std::vector<Box>>();
    ProtoMessage message(place_, "SequenceProto", bytes);
    while (message.next()) {
      switch (message.tag()) {
        case 1:
          out.name = message.text();
          break;
        case 3:
          items->push_back(tensor(message.text()).value);
          break;
        case 4:
          refuse_sparse("SequenceProto");
          break;
        case 5:
          items->push_back(sequence(message.text()).value);
          break;
        case 6:
          items->push_back(map(message.text()).value);
          break;
        case 7:
          items->push_back(optional(message.text()).value);
          break;
        default:
          message.skip();
      }
    }
    out.value.value = BoxSequence(std::move(items));
    return out;
  }

  StoredValue optional(std::string_view bytes) {
    StoredValue out;
    Stored kind = Stored::undefined;
    ProtoMessage message(place_, "OptionalProto", bytes);
    while (message.next()) {
      switch (message.tag()) {
        case 1:
          out.name = message.text();
          break;
        case 2:
          kind = static_cast<Stored>(message.integer());
          break;
        case 3:
          out.value = tensor(message.text()).value;
          break;
        case 4:
          refuse_sparse("OptionalProto");
          break;
        case 5:
          out.value = sequence(message.text()).value;
          break;
        case 6:
          out.value = map(message.text()).value;
          break;
        case 7:
          out.value = optional(message.text()).value;
          break;
        default:
          message.skip();
      }
    }
    check(kind == Stored::undefined || !out.value.empty() || kind == Stored::optional,
          ErrorKind::invalid_model, "optional '{}' has element type {} but no value",
          escape(out.name), static_cast<int64_t>(kind));
    return out;
  }

  StoredValue map(std::string_view bytes) {
    StoredValue out;
    std::vector<int64_t> numbers;
    std::vector<std::string_view> texts;
    int64_t key_type = 0;
    BoxSequence values = std::make_shared<const std::vector<Box>>();
    ProtoMessage message(place_, "MapProto", bytes);
    while (message.next()) {
      switch (message.tag()) {
        case 1:
          out.name = message.text();
          break;
        case 2:
          key_type = message.integer();
          break;
        case 3:
          message.append(numbers);
          break;
        case 4:
          texts.push_back(message.text());
          break;
        case 5:
          values = std::get<BoxSequence>(sequence(message.text()).value.value);
          break;
        default:
          message.skip();
      }
    }
    const ElementType type =
        element_type_of(key_type, fmt::format("key of map '{}'", escape(out.name)));
    check(is_integer(type) || type == ElementType::string, ErrorKind::invalid_model,
          "key of map '{}' is {}, expected an integer or a string", escape(out.name),
          to_string(type));
    const bool is_text = type == ElementType::string;
    const size_t count = is_text ? texts.size() : numbers.size();
    check(count == values->size(), ErrorKind::invalid_model, "map '{}' has {} keys but {} values",
          escape(out.name), count, values->size());
    out.value.value = is_text ? make_map<std::string>(type, texts, *values)
                              : make_map<int64_t>(ElementType::i64, numbers, *values);
    return out;
  }

  template <class Key, class Given>
  static std::shared_ptr<const BoxMap> make_map(ElementType type, const std::vector<Given>& keys,
                                                const std::vector<Box>& values) {
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    auto out = std::make_shared<BoxMap>();
    out->keys = Tensor(type, {static_cast<int64_t>(keys.size())});
    const std::span<Key> sorted = out->keys.elements<Key>();
    for (size_t i = 0; i < order.size(); ++i) {
      sorted[i] = Key(keys[order[i]]);
      out->values.push_back(values[order[i]]);
    }
    return out;
  }

  ProtoPlace& place_;
  const TensorSource& source_;
};

std::string_view message_name(ValueType::Kind kind) {
  switch (kind) {
    case ValueType::Kind::sequence:
      return "SequenceProto";
    case ValueType::Kind::optional:
      return "OptionalProto";
    case ValueType::Kind::map:
      return "MapProto";
    default:
      return "TensorProto";
  }
}

}  // namespace

StoredValue parse_stored_value(std::string_view bytes, std::string_view origin,
                               ValueType::Kind kind, const TensorSource& source) {
  StoredValue out;
  ProtoPlace place(bytes);
  with_proto_errors(origin, message_name(kind), place,
                    [&] { out = Reader(place, source).read(bytes, kind); });
  return out;
}

StoredValue read_stored_value(const std::string& path, ValueType::Kind kind) {
  const std::shared_ptr<const FileMap> file = FileMap::open(path);
  const TensorSource source{file, std::make_shared<ExternalFolder>(parent_folder(path))};
  try {
    return parse_stored_value(file->text(), path, kind, source);
  } catch (Error& error) {
    error.note(fmt::format("in {}, read as a {}", escape(path), message_name(kind)));
    throw;
  }
}

}  // namespace lathe::onnx
