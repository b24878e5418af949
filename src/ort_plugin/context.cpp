// SPDX-License-Identifier: MIT
#include "ort_plugin/context.h"

#include <algorithm>

#include "base/file_map.h"
#include "ort_plugin/graph_reader.h"
#include "plan/packing_source.h"
#include "targets/target.h"

namespace lathe::ort_plugin {
namespace {

// Whatever the EP is called: contexts are the same.
constexpr std::string_view kSource = "LatheExecutionProvider";

std::string entry_of(const Entries& entries, std::string_view key) {
  const auto at = std::ranges::find(entries, key, &Entries::value_type::first);
  return at == entries.end() ? "" : at->second;
}

bool read_switch(const Entries& entries, std::string_view key) {
  const std::string value = entry_of(entries, key);
  check(value.empty() || value == "0" || value == "1", ErrorKind::invalid_argument,
        "'{}' is '{}', expected 0 or 1", key, escape(value));
  return value == "1";
}

std::string_view stem_of(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  const size_t dot = path.rfind('.');
  return dot == 0 || dot == std::string_view::npos ? path : path.substr(0, dot);
}

// The fused node's name with letters, digits, '-', '_' and '.' alone.
std::string plain(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    const bool keeps = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    if (!keeps) c = '_';
  }
  return out;
}

std::string write_file_beside(const ContextOptions& options, const std::string& model,
                              std::string_view name, std::string_view bytes) {
  check(!options.path.empty() || !model.empty(), ErrorKind::invalid_argument,
        "the model of '{}' has no path: set 'ep.context_file_path' or 'ep.context_embed_mode'",
        escape(name));
  const std::string folder = parent_folder(options.path.empty() ? model : options.path);
  const std::string_view stem = stem_of(options.path.empty() ? model : options.path);
  // Names that differ in replaced characters alone get files of their own.
  const std::string file = fmt::format("{}_{}_{:08x}.lathe", stem, plain(name),
                                       std::hash<std::string_view>()(name) & 0xffffffff);
  write_file(join_path(folder, file), bytes);
  return file;
}

// Attributes until a node takes them over.
class Attributes {
 public:
  explicit Attributes(const Host& host) : host_(host) {}
  ~Attributes() {
    for (OrtOpAttr* attribute : all_) host_->ReleaseOpAttr(attribute);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  void add(const char* name, std::string_view text) {
    check(text.size() <= size_t{INT32_MAX}, ErrorKind::unsupported,
          "a context of {} bytes cannot be embedded: set 'ep.context_embed_mode' to 0",
          text.size());
    OrtOpAttr* made = nullptr;
    host_.check(host_->CreateOpAttr(name, text.data(), static_cast<int>(text.size()),
                                    ORT_OP_ATTR_STRING, &made));
    all_.push_back(made);
  }
  void add(const char* name, int64_t value) {
    OrtOpAttr* made = nullptr;
    host_.check(host_->CreateOpAttr(name, &value, 1, ORT_OP_ATTR_INT, &made));
    all_.push_back(made);
  }
  std::vector<OrtOpAttr*>& all() { return all_; }

 private:
  const Host& host_;
  std::vector<OrtOpAttr*> all_;
};

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

std::string_view text_of(const onnx::Node& node, std::string_view name) {
  const onnx::Attribute* attribute = node.find(name);
  const auto* text =
      attribute == nullptr ? nullptr : std::get_if<std::string_view>(&attribute->value);
  return text == nullptr ? std::string_view() : *text;
}

int64_t number_of(const onnx::Node& node, std::string_view name, int64_t fallback) {
  const onnx::Attribute* attribute = node.find(name);
  const auto* number = attribute == nullptr ? nullptr : std::get_if<int64_t>(&attribute->value);
  return number == nullptr ? fallback : *number;
}

}  // namespace

ContextOptions context_options(const Entries& entries) {
  return {.enabled = read_switch(entries, "ep.context_enable"),
          .embedded = read_switch(entries, "ep.context_embed_mode"),
          .path = entry_of(entries, "ep.context_file_path")};
}

OrtNode* make_context(const Host& host, const OrtNode& fused, const GroupPlan& group,
                      const ContextOptions& options, const std::string& model) {
  const char* name = "";
  host.check(host->Node_GetName(&fused, &name));
  std::string bytes;
  save_group(group, "", [&](std::string_view part) { bytes += part; });
  if (!options.embedded) bytes = write_file_beside(options, model, name, bytes);
  Attributes attributes(host);
  attributes.add("main_context", int64_t{1});
  attributes.add("embed_mode", int64_t{options.embedded});
  attributes.add(std::string(kContextAttribute).c_str(), bytes);
  attributes.add("source", kSource);
  attributes.add("ep_sdk_version", LATHE_VERSION);
  attributes.add("partition_name", name);
  const std::vector<std::string> inputs = names_of(host, inputs_of(host, fused));
  const std::vector<std::string> outputs = names_of(host, outputs_of(host, fused));
  const OrtModelEditorApi* editor = host->GetModelEditorApi();
  check(editor != nullptr, ErrorKind::unsupported, "this host has no model editor for '{}'",
        escape(name));
  OrtNode* node = nullptr;
  host.check(editor->CreateNode(std::string(kContextOp).c_str(), "com.microsoft", name,
                                pointers(inputs).data(), inputs.size(), pointers(outputs).data(),
                                outputs.size(), attributes.all().data(), attributes.all().size(),
                                &node));
  // The node has copies.
  return node;
}

bool is_own_context(const onnx::Node& node) {
  if (node.op_type != kContextOp || node.domain != "com.microsoft") return false;
  const std::string_view source = text_of(node, "source");
  return source == kSource || source == "lathe";
}

std::shared_ptr<const CompiledFile> open_context(const onnx::Node& node, const std::string& model,
                                                 std::shared_ptr<const void> owner) {
  check(number_of(node, "main_context", 1) == 1, ErrorKind::invalid_model,
        "'{}' has main_context {}, expected 1", escape(node.name),
        number_of(node, "main_context", 1));
  const std::string_view cache = text_of(node, kContextAttribute);
  if (number_of(node, "embed_mode", 1) != 0) {
    return CompiledFile::open(fmt::format("the context of '{}'", node.name), cache,
                              std::move(owner));
  }
  check(!model.empty(), ErrorKind::invalid_model,
        "the context of '{}' is in the file '{}', but its model has no path", escape(node.name),
        escape(cache));
  const std::string folder = parent_folder(model);
  const std::string path = join_path(folder, cache);
  check(!cache.empty() && cache.front() != '/' && file_exists(path), ErrorKind::invalid_model,
        "the context of '{}' is in the file '{}', which is not beside its model", escape(node.name),
        escape(cache));
  check(is_within(real_path(path), real_path(folder)), ErrorKind::invalid_model,
        "the context of '{}' is in the file '{}', which is outside of its model's folder",
        escape(node.name), escape(cache));
  return CompiledFile::open(path);
}

std::string compatibility(const CompileOptions& options) {
  return fmt::format("lathe {} {}.{}; {}; {}", LATHE_VERSION, kContainerMajor, kContainerMinor,
                     options.target->name(), machine_of(*options.target));
}

OrtCompiledModelCompatibility verdict(std::string_view text) {
  if (!text.starts_with("lathe ")) return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  const size_t target = text.find("; ");
  const size_t machine = text.find("; ", target + 1);
  const std::string_view version = text.substr(0, target);
  const size_t space = version.rfind(' ');
  // A later version of the container is not read; other machines lower the program again.
  const std::string own = fmt::format("{}.", kContainerMajor);
  const std::string_view container = version.substr(space + 1);
  int minor = -1;
  if (container.starts_with(own)) {
    minor = 0;
    for (const char c : container.substr(own.size())) {
      if (c < '0' || c > '9' || minor > 1'000'000)
        return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
      minor = 10 * minor + (c - '0');
    }
  }
  const bool reads = minor >= 0 && minor <= static_cast<int>(kContainerMinor) &&
                     target != std::string_view::npos && machine != std::string_view::npos;
  if (!reads) return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  const auto found = present_target(text.substr(target + 2, machine - target - 2));
  const bool same = found != nullptr && machine_of(*found) == text.substr(machine + 2) &&
                    version.substr(0, space) == fmt::format("lathe {}", LATHE_VERSION);
  return same ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
              : OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION;
}

}  // namespace lathe::ort_plugin
