// SPDX-License-Identifier: MIT
// Reads hostile protobuf messages: checks wire types, lengths and depth.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/error_reason.h"
#include "base/file_map.h"
#include "import/onnx/string_arena.h"

namespace lathe::onnx {

// The position in a file; shared by all its messages.
struct ProtoPlace {
  explicit ProtoPlace(std::string_view bytes)
      : begin(bytes.data()), at(bytes.data()), released(bytes.data()) {}
  // The reader releases a mapped file's pages in pieces of this size.
  static constexpr ptrdiff_t kReleaseBytes = 16 << 20;

  const char* begin;
  const char* at;              // the field being read
  std::string_view message{};  // the kind of message it is in
  int depth = 0;
  StringArena* strings = nullptr;  // copies of names; null: names stay in the file
  const FileMap* file = nullptr;   // null for bytes in memory
  const char* released;            // end of the released pages
};

class ProtoMessage {
 public:
  // The limit of the official readers.
  static constexpr int kMaxDepth = 200;

  ProtoMessage(ProtoPlace& place, std::string_view kind, std::string_view bytes);
  ~ProtoMessage() { --place_.depth; }
  ProtoMessage(const ProtoMessage&) = delete;
  ProtoMessage& operator=(const ProtoMessage&) = delete;

  // Moves to the next field. The current one must have been read or skipped.
  bool next();
  uint32_t tag() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  std::string_view text();  // also bytes and embedded messages
  std::string_view name();  // copied to the arena
  int64_t integer();
  float number();
  // Repeated scalars, packed or one by one.
  void append(std::vector<int64_t>& out);
  void append(std::vector<float>& out);
  // The bytes of a packed list of fixed-width numbers, or of one such number.
  std::string_view fixed(size_t width);

 private:
  void expect(protozero::pbf_wire_type type);
  void release_passed();

  ProtoPlace& place_;
  std::string_view kind_;
  protozero::pbf_reader reader_;
};

// Runs `read`; malformed protobuf becomes InvalidModel: "'x' is not a valid {what}: …".
template <class F>
void with_proto_errors(std::string_view origin, std::string_view what, const ProtoPlace& place,
                       F&& read) {
  try {
    read();
  } catch (const protozero::exception& error) {
    const std::string_view why =
        dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr
            ? "a field extends beyond the end"
            : "a field has an invalid tag or length";
    fail({ErrorKind::invalid_model, reason::kNotProtobuf},
         "'{}' is not a valid {}: at byte {}, in {}, {}", escape(origin), what,
         place.at - place.begin, place.message, why);
  }
}

}  // namespace lathe::onnx
