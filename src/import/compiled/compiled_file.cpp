// SPDX-License-Identifier: MIT
#include "import/compiled/compiled_file.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/os_memory.h"
#include "import/compiled/model_facts.h"
#include "ir/parse.h"

namespace lathe {
namespace {

constexpr size_t kMaxIndex = size_t{256} << 20;
constexpr uint64_t kMostMissing = uint64_t{1} << 40;  // bytes of one constant; no page is touched
// The elements of packed weights are at most this many times their size (1-bit codes as bytes).
constexpr uint64_t kMaxExpansion = 16;

Tensor mapped_tensor(ElementType type, const Dims& dims, std::string_view bytes,
                     std::shared_ptr<const void> owner) {
  // Literals are never written to: the mapping stays read-only.
  return {type, dims, Tensor::dense_strides(dims), const_cast<char*>(bytes.data()),
          std::const_pointer_cast<void>(owner)};
}

}  // namespace

// A program's link to the file.
class CompiledFile::Source final : public CompiledSource {
 public:
  Source(std::shared_ptr<const CompiledFile> file, const ProgramEntry& entry, bool lowered)
      : file_(std::move(file)), entry_(entry), lowered_(lowered) {}
  const std::string& target() const override { return entry_.target; }
  const std::string& machine() const override { return entry_.machine; }
  const std::string& compute() const override { return entry_.compute; }
  const std::string& file() const override { return file_->name(); }
  const std::string& tuned() const override { return entry_.tuned; }
  std::unique_ptr<Program> portable() const override { return file_->portable(entry_.name); }
  void check_requested(ThreadPool* pool) const override { file_->check_requested(pool); }
  bool lowered() const { return lowered_; }

 private:
  std::shared_ptr<const CompiledFile> file_;
  const ProgramEntry& entry_;
  bool lowered_;
};

const CompiledSource* compiled_source(const Program& program) {
  return program.model == nullptr ? nullptr : program.model->compiled.get();
}

const CompiledSource* CompiledFile::lowered_source_of(const Program& program) {
  const auto* source = dynamic_cast<const Source*>(compiled_source(program));
  return source != nullptr && source->lowered() && program.stage == Stage::lowered ? source
                                                                                   : nullptr;
}

const CompiledSource* lowered_source(const Program& program) {
  return CompiledFile::lowered_source_of(program);
}

namespace {

// The files that are open: programs over one file share its pages and its restored constants.
struct OpenFiles {
  std::mutex mutex;
  std::vector<std::weak_ptr<const CompiledFile>> files;
};

OpenFiles& open_files() {
  static OpenFiles& instance = *new OpenFiles;  // files may outlive statics
  return instance;
}

constexpr size_t kAlign = 64;  // of packed weights

}  // namespace

std::shared_ptr<const CompiledFile> CompiledFile::open(const std::string& path) {
  const std::shared_ptr<const FileMap> map = FileMap::open(path);
  return open(path, map->text(), map);
}

std::shared_ptr<const CompiledFile> CompiledFile::open(const std::string& name,
                                                       std::string_view bytes,
                                                       std::shared_ptr<const void> owner) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlign != 0) {
    Tensor copy(ElementType::u8, {static_cast<int64_t>(bytes.size())});
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    bytes = {copy.as<char>(), bytes.size()};
    owner = copy.owner();
  }
  // Before the index is read: a model's file is opened for its configuration, then for its
  // programs.
  const Container probe(name, bytes, owner);
  OpenFiles& open = open_files();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.files, [](const auto& each) { return each.expired(); });
  for (const auto& each : open.files) {
    const std::shared_ptr<const CompiledFile> other = each.lock();
    if (other != nullptr && other->container_.is_same(probe)) return other;
  }
  auto file = std::make_shared<CompiledFile>(Key{}, name, bytes, std::move(owner));
  file->mapped_range_ = std::make_unique<StoredRange>(bytes.data(), bytes.size(), *file);
  open.files.push_back(file);
  return file;
}

CompiledFile::CompiledFile(Key /*key*/, std::string name, std::string_view bytes,
                           std::shared_ptr<const void> owner)
    : container_(std::move(name), bytes, std::move(owner)) {
  try {
    read_index(container_.read("index"));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::invalid_model, "'{}' has an invalid index: {}", escape(this->name()),
         escape(error.what()));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_model) throw;
    throw Error(ErrorKind::invalid_model, error.message());  // sizes that overflow
  }
}

CompiledFile::~CompiledFile() {
  mapped_range_.reset();
  for (Reserved* space : {&restored_, &zeros_}) {
    space->range.reset();
    if (space->base != nullptr) release_pages(space->base, space->bytes);
  }
}

void CompiledFile::read_index(std::string_view text) {
  const nlohmann::json index = parse_json(text, fmt::format("the index of {}", name()), kMaxIndex);
  literals_ =
      std::make_unique<LiteralFile>(name(), container_.read("literals"), container_.owner());
  read_packed(index.at("packed"));
  read_constants(index.at("constants"));
  reserve_constants();
  read_programs(index.at("programs"));
}

namespace {

uint64_t read_hash(const nlohmann::json& value, const std::string& file) {
  const auto& text = value.get_ref<const std::string&>();
  uint64_t hash = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  check(
      text.size() == 16 && status == std::errc() && rest == text.data() + text.size() && hash != 0,
      ErrorKind::invalid_model, "'{}' has the hash '{}', expected 16 hexadecimal digits",
      escape(file), escape(text));
  return hash;
}

ElementType read_type(const nlohmann::json& value, const std::string& file) {
  const auto& name = value.get_ref<const std::string&>();
  const auto type = element_type_from_name(name);
  check(type.has_value() && *type != ElementType::string, ErrorKind::invalid_model,
        "'{}' has a constant of type '{}'", escape(file), escape(name));
  return *type;
}

Dims read_dims(const nlohmann::json& value, const std::string& file) {
  const auto dims = value.get<Dims>();
  check(dims.size() <= size_t{kMaxRank}, ErrorKind::invalid_model,
        "'{}' has a constant of rank {}, at most {}", escape(file), dims.size(), kMaxRank);
  return dims;
}

}  // namespace

std::vector<CompiledFile::Held> CompiledFile::held() const {
  std::vector<Held> out;
  for (const Constant& one : constants_) {
    if (one.missing) continue;
    out.push_back({one.type, bytes_for(one.type, element_count(one.dims)), one.packed >= 0});
  }
  return out;
}

int64_t CompiledFile::packed_bytes() const {
  int64_t bytes = 0;
  for (const Packed& one : packed_) bytes += static_cast<int64_t>(one.bytes.size());
  return bytes;
}

void CompiledFile::read_packed(const nlohmann::json& list) {
  const Container::Section weights = container_.find("weights");
  for (const nlohmann::json& item : list) {
    Packed packed;
    packed.id = item.at("id").get<std::string>();
    for (const nlohmann::json& source : item.at("sources")) {
      if (source.is_null()) {
        packed.sources.emplace_back();
        packed.hashes.push_back(0);
        continue;
      }
      packed.sources.push_back(
          {true, read_type(source.at("type"), name()), read_dims(source.at("dims"), name())});
      packed.hashes.push_back(read_hash(source.at("hash"), name()));
    }
    packed.bytes = container_.unchecked(weights, item.at("at").get<uint64_t>(),
                                        item.at("bytes").get<uint64_t>());
    by_key_.emplace(packing_key(packed.id, packed.hashes), packed_.size());
    packed_.push_back(std::move(packed));
  }
}

void CompiledFile::read_constants(const nlohmann::json& list) {
  const Container::Section weights = container_.find("weights");
  for (const nlohmann::json& item : list) {
    Constant constant;
    constant.hash = read_hash(item.at("hash"), name());
    constant.type = read_type(item.at("type"), name());
    constant.dims = read_dims(item.at("dims"), name());
    const auto bytes =
        static_cast<uint64_t>(bytes_for(constant.type, element_count(constant.dims)));
    if (item.contains("missing")) {
      check(bytes <= kMostMissing, ErrorKind::invalid_model, "'{}' lacks a constant of {} bytes",
            escape(name()), bytes);
      constant.missing = true;
      constant.bytes = {static_cast<const char*>(nullptr), bytes};
    } else if (!item.contains("packed")) {
      constant.bytes = container_.unchecked(weights, item.at("at").get<uint64_t>(), bytes);
      check(reinterpret_cast<uintptr_t>(constant.bytes.data()) % kAlign == 0,
            ErrorKind::invalid_model,
            "'{}' has constant {:016x} at an offset that is not a multiple of {}", escape(name()),
            constant.hash, kAlign);
    } else {
      const auto packed = item.at("packed").get<size_t>();
      constant.source = item.at("source").get<size_t>();
      const bool valid =
          packed < packed_.size() && constant.source < packed_[packed].sources.size();
      check(valid, ErrorKind::invalid_model, "'{}' has no packed weights {} with source {}",
            escape(name()), packed, constant.source);
      const PackedSource& source = packed_[packed].sources[constant.source];
      check(source.present && source.type == constant.type && source.dims == constant.dims &&
                packed_[packed].hashes[constant.source] == constant.hash &&
                bytes / kMaxExpansion <= packed_[packed].bytes.size(),
            ErrorKind::invalid_model, "'{}': packed weights {} are not those of constant {:016x}",
            escape(name()), packed, constant.hash);
      constant.packed = static_cast<int>(packed);
      constant.bytes = {static_cast<const char*>(nullptr), bytes};
    }
    const bool added = by_hash_.emplace(constant.hash, constants_.size()).second;
    check(added && bytes > 0, ErrorKind::invalid_model, "'{}' has constant {:016x} of {} bytes {}",
          escape(name()), constant.hash, bytes, added ? "" : "twice");
    constants_.push_back(std::move(constant));
  }
}

void CompiledFile::reserve(Reserved& space, bool closed) {
  if (space.bytes == 0) return;
  space.base = closed ? reserve_closed_pages(space.bytes) : reserve_pages(space.bytes);
  check(space.base != nullptr, ErrorKind::out_of_memory, "no address space for {} bytes of '{}'",
        space.bytes, escape(name()));
  space.range = std::make_unique<StoredRange>(space.base, space.bytes, *this);
}

// Reserves memory of the constants that exist only in packed form or are missing.
void CompiledFile::reserve_constants() {
  const size_t page = system_page();
  const auto rounded = [&](size_t bytes) { return (bytes + page - 1) / page * page; };
  for (const Constant& constant : constants_) {
    if (constant.packed >= 0) restored_.bytes += rounded(constant.bytes.size());
    if (constant.packed >= 0 || constant.missing) zeros_.bytes += rounded(constant.bytes.size());
  }
  reserve(restored_, true);
  reserve(zeros_, false);
  const char* next = static_cast<const char*>(restored_.base);
  const char* zeros = static_cast<const char*>(zeros_.base);
  for (size_t i = 0; i < constants_.size(); ++i) {
    Constant& constant = constants_[i];
    const size_t bytes = rounded(constant.bytes.size());
    if (constant.packed >= 0 || constant.missing) {
      constant.placeholder = zeros;
      zeros += bytes;
      by_address_.emplace(constant.placeholder, i);
    }
    if (constant.packed >= 0) {
      constant.bytes = {next, constant.bytes.size()};
      next += bytes;
    }
    if (!constant.missing) by_address_.emplace(constant.bytes.data(), i);
  }
}

void CompiledFile::read_programs(const nlohmann::json& list) {
  for (const nlohmann::json& item : list) {
    ProgramEntry& entry = programs_.emplace_back();
    entry.name = item.at("name").get<std::string>();
    entry.target = item.at("target").get<std::string>();
    entry.machine = item.at("machine").get<std::string>();
    entry.compute = item.at("compute").get<std::string>();
    if (item.contains("model")) entry.facts = item.at("model").dump();
    if (item.contains("tuned")) entry.tuned = item.at("tuned").dump();
  }
}

std::vector<std::string> CompiledFile::programs() const {
  std::vector<std::string> names;
  for (const ProgramEntry& entry : programs_) names.push_back(entry.name);
  return names;
}

const std::string& CompiledFile::target() const { return programs_.front().target; }
const std::string& CompiledFile::compute() const { return programs_.front().compute; }

bool CompiledFile::has_program(std::string_view program) const {
  return container_.has(fmt::format("lowered/{}", program));
}

const CompiledFile::ProgramEntry& CompiledFile::entry(std::string_view program) const {
  for (const ProgramEntry& entry : programs_) {
    if (entry.name == program) return entry;
  }
  fail(ErrorKind::invalid_model, "'{}' has no program '{}'", escape(name()), escape(program));
}

LiteralRef CompiledFile::find_literal(uint64_t hash, bool placeholders) const {
  const auto at = by_hash_.find(hash);
  if (at == by_hash_.end()) return literals_->find(hash);
  const Constant& constant = constants_[at->second];
  if (constant.missing && !placeholders) return nullptr;
  // Passes evaluate instructions whose operands are smaller.
  const bool placed = placeholders && constant.placeholder != nullptr &&
                      (constant.missing || std::ssize(constant.bytes) > kDeferredBytes);
  if (placeholders && !placed && constant.packed >= 0) fill(constant);
  auto literal = std::make_shared<Literal>();
  literal->tensor = mapped_tensor(
      constant.type, constant.dims,
      placed ? std::string_view(constant.placeholder, constant.bytes.size()) : constant.bytes,
      shared_from_this());
  return literal;
}

std::shared_ptr<const ModelInfo> CompiledFile::model_of(const ProgramEntry& entry,
                                                        bool lowered) const {
  auto model = std::make_shared<ModelInfo>();
  const auto tensor_of_hash = [&](const nlohmann::json& hash) {
    const LiteralRef found = find_literal(read_hash(hash, name()), false);
    check(found != nullptr, ErrorKind::invalid_model, "'{}' has no constant {}", escape(name()),
          escape(hash.get_ref<const std::string&>()));
    restore_stored(found->tensor);
    return found->tensor;
  };
  try {
    if (!entry.facts.empty()) *model = model_facts(parse_json(entry.facts, name()), tensor_of_hash);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::invalid_model, "'{}' has invalid facts about its model: {}", escape(name()),
         escape(error.what()));
  }
  model->compiled = std::make_shared<const Source>(shared_from_this(), entry, lowered);
  return model;
}

std::unique_ptr<Program> CompiledFile::parse(const std::string& section, bool placeholders) const {
  ParseOptions options;
  options.file = fmt::format("{} ({})", name(), section);
  options.literal_by_hash = [&](uint64_t hash, const Type&) {
    return find_literal(hash, placeholders);
  };
  return parse_program(container_.read(section), options);
}

namespace {

// Runs take a default as its input's value.
void check_defaults(const Program& program, const ModelInfo& model, const std::string& file) {
  for (const ModelInfo::Default& each : model.defaults) {
    if (each.tensor.data() == nullptr) continue;
    const bool same = each.tensor.type() == each.type && each.tensor.dims() == each.dims;
    check(same, ErrorKind::invalid_model, "'{}' has the default {} for '{}', which is {}",
          escape(file), to_string(each.tensor.type(), each.tensor.dims()), escape(each.name),
          to_string(each.type, each.dims));
    for (const auto& parameter : program.main().parameters()) {
      if (parameter->name() != each.name) continue;
      const Type& type = parameter->type();
      bool fits = type.is_tensor() && type.element == each.type &&
                  (!type.dims || type.dims->size() == each.dims.size());
      for (size_t i = 0; fits && type.dims && i < each.dims.size(); ++i) {
        const std::optional<int64_t> size = (*type.dims)[i].constant();
        fits = !size || *size == each.dims[i];
      }
      check(fits, ErrorKind::invalid_model, "'{}' has the default {} for '{}', which is {}",
            escape(file), to_string(each.type, each.dims), escape(each.name), type.to_string());
    }
  }
}

}  // namespace

std::unique_ptr<Program> CompiledFile::program(std::string_view program) const {
  const ProgramEntry& found = entry(program);
  std::unique_ptr<Program> out = parse(fmt::format("lowered/{}", program), false);
  out->model = model_of(found, true);
  check_defaults(*out, *out->model, name());
  return out;
}

std::unique_ptr<Program> CompiledFile::portable(std::string_view program) const {
  const ProgramEntry& found = entry(program);
  std::unique_ptr<Program> out = parse(fmt::format("portable/{}", program), false);
  for (const auto& module : out->modules()) {
    for (const auto& instruction : module->instructions()) {
      if (instruction->literal() != nullptr) restore_stored(instruction->literal()->tensor);
    }
  }
  out->model = model_of(found, false);
  check_defaults(*out, *out->model, name());
  return out;
}

bool CompiledFile::has_graph(std::string_view graph) const {
  return container_.has(fmt::format("graph/{}", graph));
}

std::unique_ptr<Program> CompiledFile::graph(std::string_view graph) const {
  return parse(fmt::format("graph/{}", graph), true);
}

MemoryFiles CompiledFile::files() const {
  MemoryFiles files;
  constexpr std::string_view kPrefix = "file/";
  for (const auto& [section, place] : container_.sections()) {
    if (!section.starts_with(kPrefix)) continue;
    files.emplace(section.substr(kPrefix.size()),
                  MemoryFile{container_.read(section), shared_from_this()});
  }
  return files;
}

uint64_t CompiledFile::hash_at(const void* data) const {
  const auto at = by_address_.find(data);
  return at == by_address_.end() ? 0 : constants_[at->second].hash;
}

bool CompiledFile::is_known(const void* data) const {
  const auto at = by_address_.find(data);
  return at == by_address_.end() || constants_[at->second].placeholder != data;
}

void CompiledFile::fill(const Constant& constant) const {
  const std::lock_guard lock(mutex_);
  if (constant.present) return;
  const Packed& packed = packed_[static_cast<size_t>(constant.packed)];
  container_.check_blocks(
      static_cast<uint64_t>(packed.bytes.data() - container_.unchecked().data()),
      packed.bytes.size());
  auto* memory = const_cast<char*>(constant.bytes.data());
  const size_t page = system_page();
  const size_t bytes = (constant.bytes.size() + page - 1) / page * page;
  check(open_pages(memory, bytes), ErrorKind::out_of_memory, "no memory for {} bytes of '{}'",
        bytes, escape(name()));
  const bool restored = unpack(packed.id, packed.sources, constant.source,
                               std::as_bytes(std::span(packed.bytes)), memory);
  check(restored, ErrorKind::invalid_model,
        "'{}' has weights of packing '{}', which this build "
        "cannot read: compile the model again",
        escape(name()), escape(packed.id));
  constant.present = true;
}

void CompiledFile::restore_unchecked(const void* data) const {
  const auto at = by_address_.find(data);
  if (at == by_address_.end()) return;
  const Constant& constant = constants_[at->second];
  if (constant.missing) return;
  if (constant.packed >= 0) return fill(constant);
  request_check(constant.bytes);
}

void CompiledFile::restore(const void* data) const {
  const auto at = by_address_.find(data);
  if (at == by_address_.end()) return;
  const Constant& constant = constants_[at->second];
  if (constant.missing) return;
  if (constant.packed >= 0) return fill(constant);
  container_.check_blocks(
      static_cast<uint64_t>(constant.bytes.data() - container_.unchecked().data()),
      constant.bytes.size());
}

void CompiledFile::request_check(std::string_view bytes) const {
  container_.request_check(static_cast<uint64_t>(bytes.data() - container_.unchecked().data()),
                           bytes.size());
}

std::shared_ptr<const void> CompiledFile::packed(const std::string& key, size_t bytes) const {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return nullptr;
  const std::string_view found = packed_[at->second].bytes;
  if (found.size() != bytes || reinterpret_cast<uintptr_t>(found.data()) % kAlign != 0) {
    return nullptr;
  }
  request_check(found);
  return {shared_from_this(), found.data()};
}

}  // namespace lathe
