// SPDX-License-Identifier: MIT
#include "import/onnx/external_data.h"

#include <charconv>

#include "base/error.h"
#include "base/lfs_pointer.h"

namespace lathe::onnx {
namespace {

void check_location(std::string_view location, std::string_view tensor) {
  check(!location.empty() && location.find('\0') == std::string_view::npos,
        ErrorKind::invalid_model,
        "tensor '{}': location '{}' of its external data is not a file name", escape(tensor),
        escape(location));
  bool inside = location.front() != '/';
  for (std::string_view rest = location; inside && !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    inside = rest.substr(0, slash) != "..";
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  check(inside, ErrorKind::invalid_model,
        "tensor '{}': location '{}' of its external data leaves the model's folder, expected a "
        "relative path without '..'",
        escape(tensor), escape(location));
}

uint64_t parse_number(std::string_view text, std::string_view key, std::string_view tensor) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), ErrorKind::invalid_model,
        "tensor '{}': {} of its external data is '{}', expected a number of bytes", escape(tensor),
        key, escape(text));
  return value;
}

}  // namespace

ExternalData parse_external_data(const StringPairs& pairs, std::string_view tensor,
                                 std::shared_ptr<ExternalFolder> folder) {
  ExternalData data;
  for (const auto& [key, value] : pairs) {
    if (key == "location") data.location = value;
    if (key == "offset") data.offset = parse_number(value, key, tensor);
    if (key == "length") data.length = parse_number(value, key, tensor);
  }
  check_location(data.location, tensor);
  data.folder = std::move(folder);
  return data;
}

std::optional<std::string> ExternalFolder::path(std::string_view location) const {
  if (folder_.empty() || memory_.contains(plain_name(location))) return std::nullopt;
  return join_path(folder_, location);
}

MemoryFile ExternalFolder::open(std::string_view location, std::string_view tensor) {
  const auto of_map = [](const std::shared_ptr<const FileMap>& map) {
    return MemoryFile{map->text(), map};
  };
  const std::string name = plain_name(location);
  if (const auto given = memory_.find(name); given != memory_.end()) {
    check_fetched(given->second.text, location);
    return given->second;
  }
  if (folder_.empty()) {
    std::vector<std::string_view> known;
    for (const auto& [other, file] : memory_) known.push_back(other);
    throw MissingData(fmt::format(
        "the elements of tensor '{}' are in '{}', which is not among the files in memory{}",
        escape(tensor), escape(location), did_you_mean(name, known)));
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = files_.find(location); found != files_.end()) return of_map(found->second);
  try {
    const std::string target = real_path(join_path(folder_, location));
    check(may_link_to(target, folder_), ErrorKind::invalid_model,
          "'{}' is a link to '{}', outside the model's folder '{}'", escape(location),
          escape(target), escape(folder_));
    return of_map(files_.emplace(location, FileMap::open(target)).first->second);
  } catch (const Error& error) {
    // A folder or pipe is an error of the model, not of the caller.
    const bool is_file = error.kind() != ErrorKind::invalid_argument;
    Error report(is_file ? error.kind() : ErrorKind::invalid_model, error.message());
    report.note(fmt::format("external data of tensor '{}', at '{}' in folder '{}'", escape(tensor),
                            escape(location), escape(folder_)));
    throw report;
  }
}

ExternalFolder::Bytes ExternalFolder::read(const ExternalData& data, std::string_view tensor,
                                           uint64_t size) {
  check(data.length.value_or(size) == size, ErrorKind::invalid_model,
        "tensor '{}': its external data has length {}, but its type and shape need {} bytes",
        escape(tensor), data.length.value_or(size), size);
  const MemoryFile file = open(data.location, tensor);
  const uint64_t available = file.text.size();
  check(data.offset <= available && size <= available - data.offset, ErrorKind::invalid_model,
        "tensor '{}' needs {} bytes at offset {} of '{}', but that file has {} bytes",
        escape(tensor), size, data.offset, escape(data.location), available);
  return {std::as_bytes(std::span(file.text)).subspan(data.offset, size), file.owner};
}

}  // namespace lathe::onnx
