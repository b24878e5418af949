// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lathe {
namespace {

constexpr size_t kMaxMessageBytes = 64 * 1024;

constexpr std::array<ErrorKindInfo, 8> kErrorKinds{{
    {ErrorKind::invalid_argument, "InvalidArgument", 2, 400, "ValueError"},
    {ErrorKind::invalid_model, "InvalidModel", 3, 422, "InvalidModelError"},
    {ErrorKind::unsupported, "Unsupported", 4, 501, "NotImplementedError"},
    {ErrorKind::out_of_memory, "OutOfMemory", 5, 507, "MemoryError"},
    {ErrorKind::device, "Device", 6, 503, "DeviceError"},
    {ErrorKind::io, "Io", 7, 500, "OSError"},
    {ErrorKind::internal, "Internal", 70, 500, "RuntimeError"},
    {ErrorKind::interrupted, "Interrupted", 130, 499, "InterruptedError"},
}};

// Length of the valid UTF-8 sequence at `text`, or 0; stores its code point in `point`.
size_t decode_utf8(std::string_view text, char32_t& point) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    point = lead;
    return 1;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  point = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = (point << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return overlong || surrogate || point > 0x10FFFF ? 0 : length;
}

// True for characters that change how a terminal displays the text around them.
bool is_unsafe(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x200E || point == 0x200F ||
         point == 0x061C || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069) || point == 0x2028 || point == 0x2029 ||
         point == 0xFEFF;
}

// Damerau-Levenshtein distance: insertions, deletions, substitutions, adjacent transpositions.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);  // row i - 2
  std::vector<size_t> last(b.size() + 1);    // row i - 1
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const ErrorKindInfo> error_kinds() { return kErrorKinds; }

const ErrorKindInfo& error_kind_info(ErrorKind kind) {
  return kErrorKinds[static_cast<size_t>(kind)];
}

Error::Error(ErrorCause cause, std::string message) : cause_(cause), message_(std::move(message)) {
  render();
}

Error& Error::set_reason(const char* reason) {
  if (cause_.reason == nullptr) cause_.reason = reason;
  return *this;
}

Error& Error::note(std::string line) {
  // Nested structures add the same note repeatedly.
  if (notes_.empty() || notes_.back() != line) notes_.push_back(std::move(line));
  render();
  return *this;
}

void Error::render() {
  text_ = message_;
  for (const std::string& line : notes_) text_ += "\n  " + line;
  if (text_.size() > kMaxMessageBytes) {
    text_.resize(kMaxMessageBytes - 40);
    text_ += "\n  (message truncated at 64 KB)";
  }
}

std::string escape(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "…";
    char32_t point = 0;
    const size_t length = decode_utf8(text, point);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_unsafe(point)) {
      out += point < 0x100 ? fmt::format("\\x{:02x}", static_cast<unsigned>(point))
                           : fmt::format("\\u{{{:04x}}}", static_cast<unsigned>(point));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  if (name.size() > 128) return "";
  std::string_view best;
  // At least one character must match.
  size_t best_distance = std::min(std::max<size_t>(name.size() / 3, 1) + 1, name.size());
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > 128 || candidate.size() >= name.size() + best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best.empty() ? "" : fmt::format(" (did you mean '{}'?)", escape(best));
}

}  // namespace lathe
