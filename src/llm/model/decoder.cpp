// SPDX-License-Identifier: MIT
#include "llm/model/decoder.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/file_map.h"
#include "import/load_model.h"
#include "llm/model/packed_step.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs";

std::string join(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

std::string read_text(const std::string& path) { return std::string(FileMap::open(path)->text()); }

// GenAI's "%d" is the layer.
std::string layer_name(std::string_view pattern, int64_t layer) {
  std::string name(pattern);
  const size_t at = name.find("%d");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

std::string name_of(const Names& names, const std::string& noun, std::string_view fallback) {
  const auto at = names.find(noun);
  return at == names.end() ? std::string(fallback) : at->second;
}

bool has_parameter(const Program& program, const std::string& name) {
  return std::ranges::any_of(program.main().parameters(),
                             [&](const auto& parameter) { return parameter->name() == name; });
}

Tensor integers(ElementType type, Dims dims, std::span<const int64_t> values) {
  Tensor tensor(type, std::move(dims));
  convert(type, tensor.data(), ElementType::i64, values.data(),
          static_cast<int64_t>(values.size()));
  return tensor;
}

}  // namespace

Decoder::Decoder(const std::string& folder, const DecoderOptions& options) : folder_(folder) {
  const std::string path = join(folder, "genai_config.json");
  check(file_exists(path), ErrorKind::io, "'{}' has no genai_config.json: it is not a model folder",
        escape(folder));
  std::string text = read_text(path);
  if (!options.overlay.empty()) text = overlay_config(text, options.overlay);
  config_ = read_genai_config(text, path);
  const std::string generation = join(folder, "generation_config.json");
  if (file_exists(generation)) {
    GenaiConfig more = config_;
    read_generation_config(read_text(generation), generation, more);
    config_.end_tokens = more.end_tokens;
  }
  open(options);
}

Decoder::~Decoder() = default;

// Names that the configuration gives, else GenAI's own, where the program has them.
DecoderInterface Decoder::interface(const Program& program) const {
  const DecoderConfig& d = config_.decoder;
  DecoderInterface names;
  names.tokens = name_of(d.inputs, "input_ids", "input_ids");
  names.positions = name_of(d.inputs, "position_ids", "position_ids");
  if (!has_parameter(program, names.positions)) names.positions.clear();
  names.logits = name_of(d.outputs, "logits", "logits");
  struct Pattern {
    std::string past;
    std::string present;
  };
  const std::vector<Pattern> patterns = {
      {name_of(d.inputs, "past_key_names", "past_key_values.%d.key"),
       name_of(d.outputs, "present_key_names", "present.%d.key")},
      {name_of(d.inputs, "past_value_names", "past_key_values.%d.value"),
       name_of(d.outputs, "present_value_names", "present.%d.value")},
      {name_of(d.inputs, "past_names", ""), name_of(d.outputs, "present_names", "")},
      {name_of(d.inputs, "past_conv_names", "past_conv.%d"),
       name_of(d.outputs, "present_conv_names", "present_conv.%d")},
      {name_of(d.inputs, "past_recurrent_names", ""),
       name_of(d.outputs, "present_recurrent_names", "")},
  };
  for (int64_t layer = 0; layer < std::max<int64_t>(d.num_hidden_layers, 1); ++layer) {
    for (const Pattern& pattern : patterns) {
      const std::string past = layer_name(pattern.past, layer);
      if (has_parameter(program, past)) {
        names.states.push_back({past, layer_name(pattern.present, layer)});
      }
    }
  }
  return names;
}

void Decoder::open(const DecoderOptions& options) {
  check(config_.kind == ModelKind::decoder && config_.decoder.pipeline.empty(),
        ErrorKind::unsupported, "'{}' is a model of type '{}'{}: it is not one decoder program",
        escape(folder_), config_.type, config_.decoder.pipeline.empty() ? "" : " cut into stages");
  const std::string path = join(folder_, config_.decoder.filename);
  check(file_exists(path), ErrorKind::io, "'{}' names the file '{}', which is not there",
        escape(join(folder_, "genai_config.json")), escape(config_.decoder.filename));
  check(!FileMap::open(path)->text().starts_with(kLfsPointer), ErrorKind::invalid_model,
        "'{}' is a Git LFS pointer, not the model: fetch it with 'git lfs pull'", escape(path));
  const std::unique_ptr<Program> program = load_model(path);
  PackedProgram packed = pack_sequences(*program, interface(*program));
  check(packed.program != nullptr, ErrorKind::unsupported, "'{}' cannot be run row by row: {}",
        escape(path), packed.offender);
  const Module& main = packed.program->main();
  token_type_ = main.parameters().front()->type().element;
  for (const auto& parameter : main.parameters()) {
    if (parameter->name() != interface(*program).positions) continue;
    position_rows_ = parameter->type().rank() == 3 ? 3 : 1;
    position_type_ = parameter->type().element;
  }
  const auto& names = main.result_names();
  const auto logits = std::ranges::find(names, interface(*program).logits);
  const Dim width =
      main.results()[static_cast<size_t>(logits - names.begin())]->type().dims->back();
  vocabulary_ = width.constant().value_or(config_.vocab_size);
  check(vocabulary_ >= config_.vocab_size || config_.vocab_size == 0, ErrorKind::invalid_model,
        "'{}' gives {} logits, the configuration's vocab_size is {}", escape(path), vocabulary_,
        config_.vocab_size);
  layout_ = std::make_shared<const CacheLayout>(std::move(packed.states), options.page_rows);
  CompileOptions compile_options;
  compile_options.target = options.target;
  plan_ = compile(std::move(packed.program), compile_options);
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<SharedSession>(plan_, session_options);
}

void Decoder::check_requests(std::span<const StepRequest> requests) const {
  check(!requests.empty(), ErrorKind::invalid_argument, "a step of {} sequences", requests.size());
  for (const StepRequest& request : requests) {
    check(!request.tokens.empty(), ErrorKind::invalid_argument,
          "a sequence of {} rows takes part in a step with {} tokens", request.sequence->length(),
          request.tokens.size());
    const int64_t end = request.sequence->length() + static_cast<int64_t>(request.tokens.size());
    check(end <= config_.context_length, ErrorKind::invalid_argument,
          "{} tokens are more than the context of {} holds", end, config_.context_length);
    for (const Token token : request.tokens) {
      check(token >= 0 && token < vocabulary_, ErrorKind::invalid_argument,
            "token {} lies outside the vocabulary of {}", token, vocabulary_);
    }
  }
}

Tensor Decoder::step(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  check_requests(requests);
  PackedStep step(*layout_);
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;
  std::vector<int64_t> wanted;
  for (const StepRequest& request : requests) {
    const auto count = static_cast<int64_t>(request.tokens.size());
    const auto begin = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(request.sequence->length() + i);
      if (request.all_logits || i + 1 == count) wanted.push_back(begin + i);
    }
    tokens.insert(tokens.end(), request.tokens.begin(), request.tokens.end());
    step.add(*request.sequence, count);
  }
  const auto rows = static_cast<int64_t>(tokens.size());
  std::vector<Box> inputs;
  inputs.emplace_back(integers(token_type_, {1, rows}, tokens));
  if (position_rows_ > 0) {
    Dims dims = {1, rows};
    if (position_rows_ == 3) dims.insert(dims.begin(), 3);
    std::vector<int64_t> all;
    for (int i = 0; i < position_rows_; ++i)
      all.insert(all.end(), positions.begin(), positions.end());
    inputs.emplace_back(integers(position_type_, dims, all));
  }
  const auto count = static_cast<int64_t>(wanted.size());
  inputs.emplace_back(integers(ElementType::i64, {count}, wanted));
  RunOptions run;
  run.cancel = cancel;
  run.step = &step;
  const std::vector<Box> results = session_->run(inputs, run);
  const auto& names = plan_->program->main().result_names();
  const auto logits =
      std::ranges::find(names, name_of(config_.decoder.outputs, "logits", "logits"));
  const Tensor& given = results[static_cast<size_t>(logits - names.begin())].tensor();
  Tensor result(ElementType::f32, {count, vocabulary_});
  convert(ElementType::f32, result.data(), given.type(), given.data(), result.count());
  step.commit();
  return result;
}

}  // namespace lathe::llm
