// SPDX-License-Identifier: MIT
// The file starts with "lathe literals 1\n", padded to kAlign. Each literal has a header {hash,
// element type, rank, dims…, bytes} of little-endian 64-bit words, and its bytes. Both are padded
// to kAlign. A string tensor stores a length and the characters of each string.
#include "ir/literal_file.h"

#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file_map.h"
#include "ir/print.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic = "lathe literals 1\n";
constexpr size_t kAlign = 64;
constexpr size_t kWord = 8;

static_assert(std::endian::native == std::endian::little, "words are written in memory order");

size_t aligned(size_t offset) { return (offset + kAlign - 1) / kAlign * kAlign; }

void put(std::string& out, uint64_t word) {
  out.append(reinterpret_cast<const char*>(&word), kWord);
}

std::string string_bytes(const Tensor& dense) {
  std::string out;
  for (const std::string& text : dense.elements<std::string>()) {
    put(out, text.size());
    out += text;
  }
  return out;
}

// Reads words and bytes in order, with bounds checks.
class Reader {
 public:
  Reader(std::string_view name, std::string_view bytes, size_t at)
      : name_(name), bytes_(bytes), at_(at) {}

  size_t position() const { return at_; }
  bool at_end() const { return at_ >= bytes_.size(); }
  std::string_view take(uint64_t count, std::string_view what) {
    check(at_ <= bytes_.size() && count <= bytes_.size() - at_, ErrorKind::invalid_model,
          "{}: {} needs {} bytes at offset {}, the file has {}", escape(name_), what, count, at_,
          bytes_.size());
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t word(std::string_view what) {
    uint64_t out = 0;
    std::memcpy(&out, take(kWord, what).data(), kWord);
    return out;
  }
  void align() { at_ = aligned(at_); }

 private:
  std::string_view name_;
  std::string_view bytes_;
  size_t at_;
};

}  // namespace

void write_literals(std::span<const LiteralRef> literals,
                    const std::function<void(std::string_view)>& write) {
  const auto padded = [&](std::string_view bytes) {
    write(bytes);
    write(std::string(aligned(bytes.size()) - bytes.size(), '\0'));
  };
  padded(kMagic);
  std::set<uint64_t> written;
  for (const LiteralRef& literal : literals) {
    if (!written.insert(literal->hash()).second) continue;
    restore_stored(literal->tensor);
    const Tensor dense = literal->tensor.dense();
    const bool is_text = dense.type() == ElementType::string;
    const std::string texts = is_text ? string_bytes(dense) : "";
    const std::string_view bytes =
        is_text ? std::string_view(texts)
                : std::string_view(dense.as<char>(), static_cast<size_t>(dense.byte_size()));
    std::string header;
    put(header, literal->hash());
    put(header, static_cast<uint64_t>(info(dense.type()).onnx));
    put(header, dense.dims().size());
    for (const int64_t dim : dense.dims()) put(header, static_cast<uint64_t>(dim));
    put(header, bytes.size());
    padded(header);
    padded(bytes);
  }
}

void write_literals(const Program& program, const std::function<void(std::string_view)>& write) {
  std::vector<LiteralRef> literals;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (prints_as_hash(*instruction)) literals.push_back(instruction->literal());
    }
  }
  write_literals(literals, write);
}

void write_literals(const std::string& path, const Program& program) {
  FileWriter file(path);
  write_literals(program, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

LiteralFile LiteralFile::open(const std::string& path) {
  const std::shared_ptr<const FileMap> map = FileMap::open(path);
  return {path, map->text(), map};
}

LiteralFile::LiteralFile(std::string name, std::string_view bytes,
                         std::shared_ptr<const void> owner)
    : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  check(bytes.starts_with(kMagic), ErrorKind::invalid_model,
        "{} is not a side file of literals: it does not begin with '{}'", escape(name_),
        escape(kMagic));
  for (Reader reader(name_, bytes, aligned(kMagic.size())); !reader.at_end(); reader.align()) {
    const uint64_t hash = reader.word("a literal's hash");
    const uint64_t type = reader.word("a literal's element type");
    const uint64_t rank = reader.word("a literal's rank");
    const auto known = element_type_from_onnx(static_cast<int64_t>(type));
    check(known && rank <= uint64_t{kMaxRank}, ErrorKind::invalid_model,
          "{}: literal {:016x} has element type {} and rank {}, the file is damaged", escape(name_),
          hash, type, rank);
    Entry entry;
    entry.type = *known;
    for (uint64_t i = 0; i < rank; ++i) {
      entry.dims.push_back(static_cast<int64_t>(reader.word("a literal's dims")));
    }
    const uint64_t size = reader.word("a literal's size");
    reader.align();
    entry.offset = reader.position();
    entry.bytes = reader.take(size, "a literal").size();
    const auto count = static_cast<uint64_t>(element_count(entry.dims));
    const bool is_text = entry.type == ElementType::string;
    check(is_text
              ? count <= size / kWord
              : size == static_cast<uint64_t>(bytes_for(entry.type, static_cast<int64_t>(count))),
          ErrorKind::invalid_model, "{}: literal {:016x} has {} bytes for {}, the file is damaged",
          escape(name_), hash, size, to_string(entry.type, entry.dims));
    entries_.insert_or_assign(hash, std::move(entry));
  }
}

Tensor LiteralFile::strings_of(const Entry& entry) const {
  Tensor tensor(entry.type, entry.dims);
  Reader reader(name_, bytes_.substr(0, entry.offset + entry.bytes), entry.offset);
  for (std::string& text : tensor.elements<std::string>()) {
    text = reader.take(reader.word("a string's length"), "a string");
  }
  return tensor;
}

Tensor LiteralFile::tensor_of(const Entry& entry) const {
  if (entry.type == ElementType::string) return strings_of(entry);
  // Literals are never written to: the mapping stays read-only.
  void* data = const_cast<char*>(bytes_.data()) + entry.offset;
  return {entry.type, entry.dims, Tensor::dense_strides(entry.dims), data,
          std::const_pointer_cast<void>(owner_)};
}

LiteralRef LiteralFile::find(uint64_t hash) const {
  const auto at = entries_.find(hash);
  if (at == entries_.end()) return nullptr;
  auto literal = std::make_shared<Literal>();
  literal->tensor = tensor_of(at->second);
  check(literal->hash() == hash, ErrorKind::invalid_model,
        "{}: the bytes at offset {} have the hash {:016x}, expected {:016x}: the file is damaged",
        escape(name_), at->second.offset, literal->hash(), hash);
  return literal;
}

}  // namespace lathe
