// SPDX-License-Identifier: MIT
#include "import/onnx/proto_message.h"

#include <bit>
#include <cstring>

namespace lathe::onnx {

static_assert(std::endian::native == std::endian::little, "files are little endian");
using Wire = protozero::pbf_wire_type;

ProtoMessage::ProtoMessage(ProtoPlace& place, std::string_view kind, std::string_view bytes)
    : place_(place), kind_(kind), reader_(bytes.data(), bytes.size()) {
  check(place.depth < kMaxDepth, ErrorKind::invalid_model,
        "messages nest deeper than {} levels, at byte {}", kMaxDepth, place.at - place.begin);
  ++place.depth;
}

bool ProtoMessage::next() {
  place_.at = reader_.data().data();
  place_.message = kind_;
  if (place_.at < place_.released) place_.released = place_.at;  // a second pass
  if (place_.at - place_.released > ProtoPlace::kReleaseBytes) release_passed();
  return reader_.next();
}

void ProtoMessage::release_passed() {
  const std::string_view passed(place_.released, static_cast<size_t>(place_.at - place_.released));
  if (place_.file != nullptr) place_.file->release(std::as_bytes(std::span(passed)));
  place_.released = place_.at;
}

void ProtoMessage::expect(Wire type) {
  check(reader_.wire_type() == type, ErrorKind::invalid_model,
        "field {} of {} has wire type {}, expected {} (byte {})", reader_.tag(), kind_,
        static_cast<unsigned>(reader_.wire_type()), static_cast<unsigned>(type),
        place_.at - place_.begin);
}

std::string_view ProtoMessage::text() {
  expect(Wire::length_delimited);
  const protozero::data_view view = reader_.get_view();
  return {view.data(), view.size()};
}

std::string_view ProtoMessage::name() {
  const std::string_view view = text();
  return place_.strings == nullptr ? view : place_.strings->keep(view);
}

int64_t ProtoMessage::integer() {
  expect(Wire::varint);
  return reader_.get_int64();
}

float ProtoMessage::number() {
  expect(Wire::fixed32);
  return reader_.get_float();
}

void ProtoMessage::append(std::vector<int64_t>& out) {
  if (reader_.wire_type() == Wire::varint) {
    out.push_back(reader_.get_int64());
    return;
  }
  expect(Wire::length_delimited);
  const auto values = reader_.get_packed_int64();
  if (out.empty()) out.reserve(values.size());  // avoids reallocation for many small lists
  for (const int64_t value : values) out.push_back(value);
}

std::string_view ProtoMessage::fixed(size_t width) {
  const Wire single = width == 4 ? Wire::fixed32 : Wire::fixed64;
  if (reader_.wire_type() == single) {
    const protozero::data_view rest = reader_.data();
    reader_.skip();
    return {rest.data(), width};
  }
  const std::string_view bytes = text();
  check(bytes.size() % width == 0, ErrorKind::invalid_model,
        "field of {} at byte {} holds {} bytes, expected a multiple of {}", kind_,
        place_.at - place_.begin, bytes.size(), width);
  return bytes;
}

void ProtoMessage::append(std::vector<float>& out) {
  const std::string_view bytes = fixed(sizeof(float));
  const size_t start = out.size();
  out.resize(start + bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(out.data() + start, bytes.data(), bytes.size());
}

}  // namespace lathe::onnx
