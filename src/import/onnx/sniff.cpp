// SPDX-License-Identifier: MIT
#include "import/onnx/sniff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace lathe::onnx {
namespace {

struct Magic {
  size_t offset;
  std::string_view bytes;
  std::string_view meaning;
};

using namespace std::string_view_literals;
constexpr std::array kMagics{
    Magic{0, "PK\x03\x04"sv, "a zip archive (a PyTorch checkpoint is one: export it to ONNX)"},
    Magic{0, "\x1f\x8b"sv, "a gzip file (unpack it first)"},
    Magic{0, "\x28\xb5\x2f\xfd"sv, "a Zstandard file (unpack it first)"},
    Magic{0,
          "\xfd"
          "7zXZ"sv,
          "an xz file (unpack it first)"},
    Magic{0, "BZh"sv, "a bzip2 file (unpack it first)"},
    Magic{0, "GGUF"sv, "a GGUF checkpoint"},
    Magic{0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file (a Keras model may be one)"},
    Magic{0, "\x93NUMPY"sv, "a NumPy array"},
    Magic{0, "\x89PNG"sv, "a PNG image"},
    Magic{0, "\xff\xd8\xff"sv, "a JPEG image"},
    Magic{0, "%PDF"sv, "a PDF document"},
    Magic{0,
          "\x7f"
          "ELF"sv,
          "a program or library"},
    Magic{4, "TFL3"sv, "a TensorFlow Lite model"},
    Magic{4, "ORTM"sv, "an ONNX Runtime model (.ort), expected the .onnx it was made from"},
    Magic{257, "ustar"sv, "a tar archive (unpack it first)"},
    Magic{0, "version https://git-lfs"sv, "a Git LFS pointer (run 'git lfs pull')"},
};

constexpr size_t kLook = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || is_space(c) || c == '\f';
  });
}

// Removes leading blanks and # comments.
std::string_view skip_blank(std::string_view text) {
  while (!text.empty() && (is_space(text[0]) || text[0] == '#')) {
    const size_t end = text[0] == '#' ? std::min(text.find('\n'), text.size() - 1) : 0;
    text.remove_prefix(end + 1);
  }
  return text;
}

std::string_view skip_word(std::string_view text) {
  if (!text.empty() && is_letter(text[0])) {
    while (!text.empty() && is_word(text[0])) text.remove_prefix(1);
  }
  return text;
}

bool starts_with_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

// Eight bytes of header length, then a JSON header.
bool is_safetensors(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < 10) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length >= 2 && length <= bytes.size() - 8 && bytes.substr(8, 2) == "{\"";
}

bool is_pickle(std::string_view bytes) {  // PROTO 2 to 5, then an opcode that begins a value
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         "}](cX\x8a\x95K."sv.find(bytes[2]) != std::string_view::npos;
}

}  // namespace

std::string_view sniff(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  for (const Magic& magic : kMagics) {
    if (bytes.size() > magic.offset && bytes.substr(magic.offset).starts_with(magic.bytes)) {
      return magic.meaning;
    }
  }
  if (is_safetensors(bytes))
    return "a safetensors checkpoint (open the folder that also has its config.json)";
  if (is_pickle(bytes)) return "a Python pickle (a PyTorch checkpoint: export the model to ONNX)";
  const std::string_view head = bytes.substr(0, kLook);
  if (head.find_first_not_of('\0') == std::string_view::npos) return "a file of zero bytes";
  if (!is_text(head)) return "";
  const std::string_view text = skip_blank(head);
  if (starts_with_any_case(text, "<!doctype html") || starts_with_any_case(text, "<html")) {
    return "an HTML page (a failed download?)";
  }
  if (text.starts_with("<?xml")) return "an XML file";
  if (text.starts_with('{') || text.starts_with('[')) return "a JSON file";
  return "a text file";
}

bool is_onnx_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kLook);
  if (!is_text(head)) return false;
  std::string_view text = skip_blank(head);
  if (text.starts_with('<')) {
    text = skip_blank(text.substr(1));
    const std::string_view rest = skip_word(text);
    return rest.size() < text.size() && skip_blank(rest).starts_with(':');
  }
  const std::string_view rest = skip_word(text);
  return rest.size() < text.size() && skip_blank(rest).starts_with('(') &&
         bytes.find("=>") != std::string_view::npos;
}

}  // namespace lathe::onnx
