// SPDX-License-Identifier: MIT
// Protobuf messages in which nothing is believed: wire types, lengths and depth are checked.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_map.h"
#include "import/onnx/string_arena.h"

namespace lathe::onnx {

// Where reading stands; shared by all messages of one file.
struct ProtoPlace {
  explicit ProtoPlace(std::string_view bytes)
      : begin(bytes.data()), at(bytes.data()), released(bytes.data()) {}
  // Behind the reader, a mapped file is made non-resident in pieces of this size.
  static constexpr ptrdiff_t kReleaseBytes = 16 << 20;

  const char* begin;
  const char* at;              // the field being read
  std::string_view message{};  // the kind of message it is in
  int depth = 0;
  StringArena* strings = nullptr;  // where names are copied to; null: they stay in the file
  const FileMap* file = nullptr;   // whose bytes are read, if they are a file's
  const char* released;            // up to here
};

class ProtoMessage {
 public:
  // As official readers have it: deeper files do not exist.
  static constexpr int kMaxDepth = 200;

  ProtoMessage(ProtoPlace& place, std::string_view kind, std::string_view bytes);
  ~ProtoMessage() { --place_.depth; }
  ProtoMessage(const ProtoMessage&) = delete;
  ProtoMessage& operator=(const ProtoMessage&) = delete;

  // To the next field; what the current one holds must have been read or skipped.
  bool next();
  uint32_t tag() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  std::string_view text();  // also bytes and embedded messages
  std::string_view name();  // a text that is kept, apart from the file
  int64_t integer();
  float number();
  // Repeated scalars, packed or one by one.
  void append(std::vector<int64_t>& out);
  void append(std::vector<float>& out);
  // A packed list of fixed-width numbers as it lies in the file, or one such number.
  std::string_view fixed(size_t width);

 private:
  void expect(protozero::pbf_wire_type type);
  void release_passed();

  ProtoPlace& place_;
  std::string_view kind_;
  protozero::pbf_reader reader_;
};

// Runs `read` and turns malformed protobuf into InvalidModel: "'x' is no valid {what}: …".
template <class F>
void with_proto_errors(std::string_view origin, std::string_view what, const ProtoPlace& place,
                       F&& read) {
  try {
    read();
  } catch (const protozero::exception& error) {
    const std::string_view reason =
        dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr
            ? "a field is longer than what is left of it"
            : "a field's tag or length is garbage";
    fail(ErrorKind::invalid_model, "'{}' is no valid {}: at byte {}, in {}, {}", escape(origin),
         what, place.at - place.begin, place.message, reason);
  }
}

}  // namespace lathe::onnx
