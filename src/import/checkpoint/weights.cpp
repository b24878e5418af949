// SPDX-License-Identifier: MIT
#include "import/checkpoint/weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "import/checkpoint/files/safetensors.h"
#include "ir/literal.h"

namespace lathe::checkpoint {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

struct PlainType {
  std::string_view name;
  ElementType type;
};
constexpr PlainType kPlainTypes[] = {{"F64", ElementType::f64},
                                     {"F32", ElementType::f32},
                                     {"F16", ElementType::f16},
                                     {"BF16", ElementType::bf16},
                                     {"F8_E4M3", ElementType::f8e4m3fn},
                                     {"F8_E5M2", ElementType::f8e5m2},
                                     {"F8_E8M0", ElementType::f8e8m0},
                                     {"I64", ElementType::i64},
                                     {"I32", ElementType::i32},
                                     {"I16", ElementType::i16},
                                     {"I8", ElementType::i8},
                                     {"U64", ElementType::u64},
                                     {"U32", ElementType::u32},
                                     {"U16", ElementType::u16},
                                     {"U8", ElementType::u8},
                                     {"BOOL", ElementType::boolean}};

const PlainType* find_plain(std::string_view name) {
  const auto* at = std::ranges::find(kPlainTypes, name, &PlainType::name);
  return at == std::end(kPlainTypes) ? nullptr : at;
}

// Reports what the folder has in place of safetensors.
[[noreturn]] void fail_without_weights(const Folder& folder) {
  for (const std::string& name : folder.names()) {
    if (name == kSingle || name == kIndex) {
      fail(ErrorKind::io, "'{}' is a link to a file that is missing: download it again",
           escape(folder.place(name)));
    }
    if (name.starts_with("pytorch_model") || name.ends_with(".pth") || name.ends_with(".ckpt")) {
      fail(ErrorKind::unsupported,
           "'{}' has its weights in '{}', a pickle, which may run code: convert it to safetensors",
           escape(folder.place()), escape(name));
    }
    if (name == "adapter_config.json" || name == "adapter_model.safetensors") {
      fail(ErrorKind::unsupported,
           "'{}' is an adapter ('{}'): merge it into its base model, and open that",
           escape(folder.place()), name);
    }
  }
  std::string_view gguf;
  const std::vector<std::string> names = folder.names();
  for (const std::string& name : names) {
    if (name.ends_with(".gguf")) gguf = name;
  }
  fail(ErrorKind::io, "'{}' has no {} and no {}{}", escape(folder.place()), kSingle, kIndex,
       gguf.empty() ? "" : fmt::format(", but '{}': open that", escape(gguf)));
}

// Names the first tensor of an unsupported type, and all such types.
void check_types(const std::vector<GgufTensor>& tensors) {
  const GgufTensor* first = nullptr;
  std::map<std::string_view, int> counts;
  for (const GgufTensor& tensor : tensors) {
    if (tensor.type->supported) continue;
    if (first == nullptr) first = &tensor;
    ++counts[tensor.type->name];
  }
  if (first == nullptr) return;
  std::string all;
  for (const auto& [type, count] : counts) {
    all += fmt::format("{}{} of {}", all.empty() ? "" : ", ", count, type);
  }
  fail(ErrorKind::unsupported,
       "tensor '{}' is {}, a block type that is not supported; the file has {} such tensors",
       escape(first->name), first->type->name, all);
}

MemoryFile open_weights(const Folder& folder, const std::string& name) {
  MemoryFile file = folder.open(name);
  check_fetched(file.text, folder.place(name));
  return file;
}

}  // namespace

bool StoredTensor::is_blocks() const { return find_plain(type) == nullptr; }

Weights Weights::open_safetensors(const Folder& folder) {
  Weights weights;
  if (!folder.has(kIndex)) {
    if (!folder.has(kSingle)) fail_without_weights(folder);
    weights.add_safetensors(folder, std::string(kSingle), nullptr);
    return weights;
  }
  const MemoryFile index = open_weights(folder, std::string(kIndex));
  constexpr size_t kMaxIndex = size_t{64} << 20;
  // An entry takes some 260 bytes; those of real names have 60 bytes and more of text.
  const size_t most = (size_t{1} << 17) + index.text.size() / 32;
  const auto entries = static_cast<size_t>(std::ranges::count(index.text, ',')) + 1;
  check(entries <= most, ErrorKind::invalid_model, "'{}' has {} entries, expected at most {}",
        escape(folder.place(kIndex)), entries, most);
  const nlohmann::json json = parse_json(index.text, folder.place(kIndex), kMaxIndex);
  const auto map = json.find("weight_map");
  check(map != json.end() && map->is_object(), ErrorKind::invalid_model,
        "'{}' has no object 'weight_map'", escape(folder.place(kIndex)));
  std::map<std::string, std::map<std::string, std::string>> shards;  // file → tensors
  for (const auto& [tensor, file] : map->items()) {
    check(file.is_string(), ErrorKind::invalid_model,
          "'{}' has a value of type {} as the file of tensor '{}', expected a string",
          escape(folder.place(kIndex)), file.type_name(), escape(tensor));
    shards[file.get<std::string>()].emplace(tensor, "");
  }
  for (const auto& [file, tensors] : shards) {
    check(file.find('/') == std::string::npos && file.ends_with(".safetensors"),
          ErrorKind::invalid_model, "'{}' names the file '{}', expected one in its folder",
          escape(folder.place(kIndex)), escape(file));
    check(folder.has(file), ErrorKind::io, "'{}' names the file '{}', which is missing",
          escape(folder.place(kIndex)), escape(file));
    weights.add_safetensors(folder, file, &tensors);
  }
  return weights;
}

void Weights::add_safetensors(const Folder& folder, const std::string& name,
                              const std::map<std::string, std::string>* map) {
  const std::string place = folder.place(name);
  const MemoryFile file = open_weights(folder, name);
  try {
    size_t found = 0;
    for (SafetensorsTensor& tensor : read_safetensors(file.text)) {
      if (map != nullptr && !map->contains(tensor.name)) continue;
      ++found;
      StoredTensor stored;
      stored.type = std::move(tensor.type);
      stored.dims = std::move(tensor.dims);
      stored.bytes = file.text.substr(tensor.offset, tensor.bytes);
      stored.owner = file.owner;
      stored.file = place;
      stored.offset = tensor.offset;
      stored.stored_name = tensor.name;
      tensors_.emplace(std::move(tensor.name), std::move(stored));
    }
    if (map == nullptr || found == map->size()) return;
    for (const auto& [tensor, unused] : *map) {
      check(tensors_.contains(tensor), ErrorKind::invalid_model,
            "the index places tensor '{}' in this file, which does not have it", escape(tensor));
    }
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(place)));
    throw;
  }
}

void Weights::add_gguf(const GgufFile& gguf, const MemoryFile& file, const std::string& path) {
  const std::vector<GgufTensor> tensors = gguf.read_tensors();
  check_types(tensors);
  for (const GgufTensor& tensor : tensors) {
    StoredTensor stored;
    stored.type = tensor.type->name;
    stored.dims = tensor.dims;
    stored.bytes = tensor.bytes;
    stored.owner = file.owner;
    stored.file = path;
    stored.offset = tensor.offset;
    stored.stored_name = tensor.name;
    check(tensors_.emplace(std::string(tensor.name), std::move(stored)).second,
          ErrorKind::invalid_model, "two of the split files have a tensor '{}'",
          escape(tensor.name));
  }
}

const StoredTensor* Weights::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) return nullptr;
  used_.insert(&at->second);
  return &at->second;
}

const StoredTensor& Weights::get(std::string_view name) const {
  if (const StoredTensor* found = find(name)) return *found;
  std::vector<std::string_view> known;
  for (const auto& [other, tensor] : tensors_) known.push_back(other);
  fail(ErrorKind::invalid_model, "the model has no tensor '{}'{}", escape(name),
       did_you_mean(name, known));
}

void Weights::rename(const std::string& from, const std::string& to) {
  auto node = tensors_.extract(from);
  if (node.empty()) return;
  node.key() = to;
  check(tensors_.insert(std::move(node)).inserted, ErrorKind::invalid_model,
        "the model has both '{}' and '{}', names of the same tensor", escape(from), escape(to));
}

StoredTensor Weights::take(const std::string& name) {
  StoredTensor taken = get(name);
  used_.erase(&tensors_.find(name)->second);
  tensors_.erase(name);
  return taken;
}

void Weights::insert(const std::string& name, StoredTensor tensor) {
  check(tensors_.emplace(name, std::move(tensor)).second, ErrorKind::invalid_model,
        "the model has '{}' both quantised and not", escape(name));
}

void Weights::set_dims(const std::string& name, Dims dims) {
  tensors_.find(name)->second.dims = std::move(dims);
}

int64_t Weights::bytes() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += static_cast<int64_t>(tensor.bytes.size());
  return total;
}

void Weights::check_used(const std::vector<std::string_view>& ignored,
                         std::string_view model_type) const {
  std::string_view first;
  size_t count = 0;
  for (const auto& [name, tensor] : tensors_) {
    const bool skip = std::ranges::any_of(ignored, [&](std::string_view part) {
      return name.starts_with(part) || (part.starts_with('.') && name.ends_with(part));
    });
    if (skip || used_.contains(&tensor)) continue;
    if (count == 0) first = name;
    ++count;
  }
  check(count == 0, ErrorKind::unsupported, "tensor '{}' is not part of the architecture '{}'{}",
        escape(first), escape(model_type),
        count > 1 ? fmt::format(", nor are {} others", count - 1) : "");
}

Tensor mapped_tensor(const StoredTensor& stored, std::string_view name) {
  const PlainType* type = find_plain(stored.type);
  check(type != nullptr, ErrorKind::unsupported,
        "tensor '{}' is {}, expected elements that are not quantised", escape(name), stored.type);
  auto* data = const_cast<char*>(stored.bytes.data());
  const Tensor tensor(type->type, stored.dims, Tensor::dense_strides(stored.dims), data,
                      std::const_pointer_cast<void>(stored.owner));
  // Passes read small ones.
  return tensor.byte_size() > kDeferredBytes ? tensor : tensor.aligned();
}

Tensor plain_tensor(const StoredTensor& stored, std::string_view name) {
  return mapped_tensor(stored, name).aligned();
}

}  // namespace lathe::checkpoint
