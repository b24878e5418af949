// SPDX-License-Identifier: MIT
// A compiled file has the graphs of the folder without their large constants, and each program that
// was compiled, under the hash of its text before that. Opening runs the passes of the decoder on
// the graphs again and takes the lowered programs by these hashes.
#include "llm/model/compiled_model.h"

#include <xxhash.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file_map.h"
#include "import/checkpoint/files/gguf.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "llm/config/change_config.h"
#include "llm/model/checkpoint_config.h"

namespace lathe::llm {
namespace {

constexpr std::string_view kConfig = "genai_config.json";
constexpr size_t kLargestFile = size_t{64} << 20;  // of those beside the graphs

std::string fingerprint(const Program& program) {
  const std::string text = print(program, {.inline_bytes = kTextLiteralBytes, .origins = false});
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// The program as a compiled file returns it: later passes then make equal programs.
std::unique_ptr<Program> as_read_back(std::unique_ptr<Program> program) {
  make_self_contained(*program);
  std::map<uint64_t, LiteralRef> literals;
  const PrintOptions printing{.inline_bytes = kTextLiteralBytes};
  for (const auto& module : program->modules()) {
    for (const auto& instruction : module->instructions()) {
      if (!prints_as_hash(*instruction, printing)) continue;
      literals.emplace(instruction->literal()->hash(), instruction->literal());
    }
  }
  ParseOptions parsing;
  parsing.literal_by_hash = [&](uint64_t hash, const Type&) { return literals.at(hash); };
  return parse_program(print(*program, printing), parsing);
}

bool is_weights(std::string_view name) {
  constexpr std::string_view kSuffixes[] = {".onnx", ".data", ".safetensors", ".gguf", ".bin",
                                            ".pt",   ".pth",  ".h5",          ".lathe"};
  return std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

// Files of a folder that are no weights; those of subfolders have their path.
void add_files(const Folder& folder, const std::string& below, MemoryFiles& out) {
  for (const std::string& name : folder.names()) {
    const bool vocabulary = folder.files().contains(name) && name.ends_with(".gguf");
    if (is_weights(name) && !vocabulary) continue;
    if (!folder.files().contains(name) && is_folder(join_path(folder.path(), name))) continue;
    MemoryFile file = folder.open_inside(name);
    if (vocabulary) file.text = checkpoint::GgufFile(file.text).header();
    if (file.text.size() <= kLargestFile) out[below + name] = std::move(file);
  }
}

// Whether the decoder is this file, or one of its stages.
bool is_part_of(const DecoderConfig& decoder, std::string_view file) {
  return decoder.filename == file ||
         std::ranges::any_of(decoder.pipeline, [&](const StageConfig& stage) {
           return stage.program.filename == file;
         });
}

}  // namespace

std::shared_ptr<const CompiledFile> open_compiled_model(const std::string& path) {
  if (path.empty() || is_folder(path) || !file_exists(path)) return nullptr;
  const std::shared_ptr<const FileMap> map = FileMap::open(path);
  if (!looks_like_container(map->text())) return nullptr;
  std::shared_ptr<const CompiledFile> file = CompiledFile::open(path, map->text(), map);
  return file->container().has(fmt::format("file/{}", kConfig)) ? file : nullptr;
}

Folder open_folder(const std::string& path, const MemoryFiles& files) {
  const std::shared_ptr<const CompiledFile> file = open_compiled_model(path);
  if (file == nullptr) return Folder(path, files);
  MemoryFiles all = file->files();
  for (const auto& [name, given] : files) all.insert_or_assign(name, given);
  return Folder("", all);
}

CompileProgram compile_from(std::shared_ptr<const CompiledFile> file) {
  return [file = std::move(file)](std::unique_ptr<Program> program, const CompileOptions& options) {
    const std::string name = fingerprint(*program);
    check(file->has_program(name), ErrorKind::invalid_model,
          "'{}' has no program {} that this build of Lathe runs: compile the model again",
          escape(file->name()), name);
    return compile(file->program(name), options);
  };
}

SavedSizes save_model(const std::string& path, const DecoderOptions& options,
                      const std::function<void(std::string_view)>& write) {
  check(open_compiled_model(path) == nullptr, ErrorKind::invalid_argument,
        "'{}' is a compiled file already", escape(path));
  std::vector<std::pair<std::string, std::unique_ptr<Program>>> graphs;
  std::vector<SavedProgram> programs;
  std::vector<std::shared_ptr<const Plan>> plans;
  DecoderOptions own = options;
  // The graphs of the file are quantised already: they are opened as any others.
  own.quantize = {};
  const ModelFolder source(path, options.overlay, options.files);
  int64_t quantised = 0;
  own.loaded = [&](const std::string& name, std::unique_ptr<Program> program) {
    const DecoderConfig& decoder = source.config().decoder;
    if (is_part_of(decoder, name)) {
      quantised += quantize_weights(*program, options.quantize,
                                    name_of(decoder.outputs, "logits", "logits"));
    }
    program = as_read_back(std::move(program));
    graphs.emplace_back(name, program->clone());
    return program;
  };
  own.compile = [&](std::unique_ptr<Program> program, const CompileOptions& compiling) {
    const std::string name = fingerprint(*program);
    plans.push_back(compile(std::move(program), compiling));
    CompileOptions kept;
    kept.target = compiling.target;
    kept.compute = compiling.compute;
    const bool known = std::ranges::any_of(
        programs, [&](const SavedProgram& other) { return other.name == name; });
    if (!known) programs.push_back({name, plans.back().get(), kept});
    return plans.back();
  };
  const Decoder decoder(path, own);
  check_quantised(quantised, options.quantize, path);
  const Folder folder(path, options.files);
  MemoryFiles files;
  if (is_folder(path) || path.empty()) add_files(folder, "", files);
  const Folder beside = decoder.beside();
  const std::string& below = decoder.config().tokenizer_folder;
  if (!is_folder(path) && !path.empty()) {
    add_files(beside, "", files);
  } else if (!below.empty()) {
    add_files(beside, plain_name(below) + "/", files);
  }
  std::string config = genai_config_text(folder);
  if (!options.overlay.empty()) config = overlay_config(config, options.overlay);
  files[std::string(kConfig)] = MemoryFile::copy_of(config);
  std::vector<SavedGraph> saved;
  for (const auto& [name, program] : graphs) saved.push_back({name, program.get()});
  return save_programs(programs, saved, files, write);
}

}  // namespace lathe::llm
