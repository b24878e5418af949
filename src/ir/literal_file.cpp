// SPDX-License-Identifier: MIT
// The file starts with "lathe literals 1\n", padded to kAlign. Each literal has a header {hash,
// element type, rank, dims…, bytes} of little-endian 64-bit words, and its bytes. Both are padded
// to kAlign. A string tensor stores a length and the characters of each string.
#include "ir/literal_file.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/file_map.h"
#include "ir/literal_hash.h"
#include "ir/print.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic = "lathe literals 1\n";
constexpr size_t kAlign = 64;
constexpr size_t kWord = 8;
constexpr size_t kCheckedAtOnce = 16 * 1024;

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

// The large literals of a mapped file, checked when something reads them.
class LiteralFile::Mapped final : public StoredConstants {
 public:
  explicit Mapped(LiteralFile file)
      : file_(std::move(file)), range_(file_.bytes_.data(), file_.bytes_.size(), *this) {
    std::string facts;
    for (const auto& [hash, entry] : file_.entries_) {
      put(facts, hash);
      if (entry.type == ElementType::string || entry.bytes < kCheckedAtOnce) continue;
      constants_[file_.bytes_.data() + entry.offset].hash = hash;
    }
    identity_ = XXH3_64bits(facts.data(), facts.size());
  }
  uint64_t identity() const override { return identity_; }
  uint64_t hash_at(const void* data) const override {
    const auto at = constants_.find(data);
    return at == constants_.end() ? 0 : at->second.hash;
  }
  void restore(const void* data) const override {
    const auto at = constants_.find(data);
    if (at == constants_.end()) return;
    const Constant& constant = at->second;
    std::call_once(constant.checked,
                   [&] { file_.check_hash(constant.hash, file_.entries_.at(constant.hash)); });
  }
  void restore_unchecked(const void* data) const override { restore(data); }
  std::shared_ptr<const void> packed(const std::string&, size_t) const override { return nullptr; }
  void check_requested(ThreadPool*) const override {}
  bool is_known(const void*) const override { return true; }

 private:
  struct Constant {
    uint64_t hash = 0;
    mutable std::once_flag checked;
  };
  LiteralFile file_;
  std::map<const void*, Constant> constants_;
  uint64_t identity_ = 0;
  StoredRange range_;
};

LiteralFile LiteralFile::open(const std::string& path) {
  const std::shared_ptr<const FileMap> map = FileMap::open(path);
  LiteralFile file(path, map->text(), map);
  file.mapped_ = std::make_shared<const Mapped>(file);
  return file;
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
  const std::shared_ptr<const void> owner = mapped_ == nullptr ? owner_ : mapped_;
  return {entry.type, entry.dims, Tensor::dense_strides(entry.dims), data,
          std::const_pointer_cast<void>(owner)};
}

void LiteralFile::check_hash(uint64_t hash, const Entry& entry) const {
  const uint64_t found = hash_of(tensor_of(entry));
  check(found == hash, ErrorKind::invalid_model,
        "{}: the bytes at offset {} have the hash {:016x}, expected {:016x}: the file is damaged",
        escape(name_), entry.offset, found, hash);
}

LiteralRef LiteralFile::find(uint64_t hash) const {
  const auto at = entries_.find(hash);
  if (at == entries_.end()) return nullptr;
  auto literal = std::make_shared<Literal>();
  literal->tensor = tensor_of(at->second);
  const bool is_mapped = mapped_ != nullptr && mapped_->hash_at(literal->tensor.data()) != 0;
  if (!is_mapped) check_hash(hash, at->second);
  return literal;
}

}  // namespace lathe
