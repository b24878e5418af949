// SPDX-License-Identifier: MIT
#include "llm/model/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/os_system.h"
#include "llm/model/compiled_model.h"
#include "targets/gpu_library.h"

namespace lathe::llm {

namespace {

// On GPUs, KV caches have the 16-bit type in which products are computed.
std::optional<ElementType> caches_of(const DecoderOptions& options, const CompiledFile* file) {
  const auto name = [&]() -> std::string_view {
    return options.target == nullptr ? "ref" : options.target->name();
  };
  if (!is_gpu_target(file != nullptr ? file->target() : name())) return std::nullopt;
  const std::string_view compute = file != nullptr ? file->compute() : to_string(options.compute);
  if (compute == to_string(Compute::f16)) return ElementType::f16;
  if (compute == to_string(Compute::bf16)) return ElementType::bf16;
  return std::nullopt;
}

}  // namespace

Decoder::Decoder(const std::string& folder, const DecoderOptions& options)
    : Decoder(ModelFolder(folder, options.overlay, options.files), options) {}

Decoder::Decoder(ModelFolder open, const DecoderOptions& given) : folder_(std::move(open)) {
  const std::string& folder = folder_.path();
  DecoderOptions options = given;
  if (folder_.compiled() != nullptr) options.compile = compile_from(folder_.compiled());
  options.caches = caches_of(options, folder_.compiled().get());
  folder_.watch(options.loaded);
  if (!config().unsupported.empty()) {
    log_warning(fmt::format("generation_config.json of '{}' requests {}, which is not supported",
                            escape(folder), fmt::join(config().unsupported, ", ")));
  }
  if (!config().type_is_known) {
    log_warning(fmt::format("'{}' has the unknown model type '{}'{}: running it as {}",
                            escape(folder), escape(config().type), did_you_mean_type(config().type),
                            config().encoder ? "an encoder and a decoder" : "a decoder"));
  }
  const DecoderConfig& decoder = config().decoder;
  const DecoderConfig* encoder = config().encoder ? &*config().encoder : nullptr;
  const bool runs = config().kind == ModelKind::decoder || config().kind == ModelKind::multimodal ||
                    (config().kind == ModelKind::encoder_decoder && encoder != nullptr);
  check(runs, ErrorKind::unsupported,
        "'{}' has type '{}', which requires an encoder, but 'model.encoder' is missing",
        escape(folder), config().type);
  check(options.quantize.bits == WeightBits::none || folder_.compiled() == nullptr,
        ErrorKind::invalid_argument,
        "'{}' is a compiled file, whose weights cannot be quantised again", escape(folder));
  const DecoderPrograms programs = folder_.load_decoder();
  int64_t quantised = 0;
  for (Program* program : {programs.program.get(), programs.prompt.get()}) {
    if (program == nullptr) continue;
    quantised +=
        quantize_weights(*program, options.quantize, name_of(decoder.outputs, "logits", "logits"));
  }
  check_quantised(quantised, options.quantize, folder);
  const std::string file =
      decoder.pipeline.empty() ? folder_.file(decoder.filename) : folder_.path();
  try {
    const auto named = [&](const Program& program) {
      return NamedProgram{&program, decoder_interface(decoder, program, encoder)};
    };
    const NamedProgram token = named(*programs.program);
    const DecoderInterface& names = token.names;
    size_ = measure_model(*programs.program, names, decoder.head_size, programs.prompt.get());
    std::unique_ptr<Program> encoder_program;
    if (encoder != nullptr) {
      encoder_program = folder_.load(encoder->filename);
      size_.encoder_bytes = weight_bytes({encoder_program.get()});
    }
    std::unique_ptr<Program> embedding = load_embedding(names);
    size_.encoder_bytes += weight_bytes({embedding.get()});
    memory_limit_ = options.memory_limit;
    if (options.measured) options.measured(size_);
    check_memory(size_, memory_limit_, system_memory().available_bytes, folder);
    runner_ = programs.prompt == nullptr
                  ? make_step_runner(token, options)
                  : make_step_runner(named(*programs.prompt), token, options);
    if (embedding != nullptr) {
      embedder_ = std::make_shared<const Embedder>(
          std::move(embedding), config().parts.at("embedding"), decoder, names, options);
      runner_->set_embedder(embedder_);
    }
    if (encoder != nullptr) {
      std::vector<std::string> results;
      for (const StatePair& pair : names.cross) results.push_back(pair.present);
      RunnerOptions encoder_options = options;
      if (options.encoder_target != nullptr) encoder_options.target = options.encoder_target;
      encoder_ =
          std::make_unique<Encoder>(std::move(encoder_program), folder_.file(encoder->filename),
                                    std::move(results), encoder_options);
    }
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(file)));
    throw;
  }
  vocabulary_ = runner_->vocabulary() > 0 ? runner_->vocabulary() : config().vocab_size;
  check(vocabulary_ >= config().vocab_size || config().vocab_size == 0, ErrorKind::invalid_model,
        "'{}' has {} logits, but the configuration's vocab_size is {}", escape(file), vocabulary_,
        config().vocab_size);
  set_limits();
}

// Null if the decoder's program accepts only token ids.
std::unique_ptr<Program> Decoder::load_embedding(const DecoderInterface& names) const {
  if (names.embeddings.empty() && names.token_inputs.empty()) return nullptr;
  const auto part = config().parts.find("embedding");
  if (part != config().parts.end()) return folder_.load(part->second.filename);
  // Embeddings alone may come from the caller; other inputs require the program.
  for (const std::string& input : names.token_inputs) {
    check(input == names.embeddings, ErrorKind::unsupported,
          "the input '{}' requires an 'embedding' program, but '{}' has none", escape(input),
          escape(folder()));
  }
  return nullptr;
}

void Decoder::set_limits() {
  limits_ = runner_->limits();
  limits_.vocabulary = vocabulary_;
  limits_.context = config().context_length;
  if (config().kind != ModelKind::multimodal && config().type_is_known) return;
  for (const std::string_view name : {"image_token_id", "video_token_id", "audio_token_id"}) {
    if (const std::optional<int64_t> token = config().token(name)) {
      limits_.media.emplace_back(name, static_cast<Token>(*token));
    }
  }
}

Decoder::~Decoder() = default;

void Decoder::check_room(int64_t tokens, int64_t own, int64_t others) const {
  const int64_t caches = size_.state_bytes(tokens);
  if (memory_limit_ > 0) {
    check(caches <= memory_limit_ - std::min(others, memory_limit_), ErrorKind::out_of_memory,
          "{} tokens require {} of KV caches ({} per token), but {} of the memory limit of {} are "
          "in use",
          tokens, bytes_text(caches), bytes_text(size_.token_bytes), bytes_text(others),
          bytes_text(memory_limit_));
    return;
  }
  const SystemMemory memory = system_memory();
  if (memory.total_bytes == 0) return;
  // Mapped weights count as available memory, but steps need them: subtract them.
  const int64_t beside = memory.total_bytes - size_.all_weight_bytes() - others;
  const int64_t room = std::max<int64_t>(std::min(memory.available_bytes + own, beside), 0);
  check(
      caches <= room, ErrorKind::out_of_memory,
      "{} tokens require {} of KV caches ({} per token), but beside weights of {} and {} of other "
      "sequences {} are available",
      tokens, bytes_text(caches), bytes_text(size_.token_bytes),
      bytes_text(size_.all_weight_bytes()), bytes_text(others), bytes_text(room));
}

std::vector<std::string> Decoder::model_inputs() const {
  return encoder_ == nullptr ? std::vector<std::string>{} : encoder_->inputs();
}

void Decoder::refuse_media(std::string_view input) const {
  for (const std::string_view part : {"vision", "speech"}) {
    const auto program = config().parts.find(std::string(part));
    if (program == config().parts.end()) continue;
    for (const Names* names : {&program->second.inputs, &program->second.outputs}) {
      const bool own = std::ranges::any_of(
          *names, [&](const auto& name) { return name.first == input || name.second == input; });
      check(
          !own, ErrorKind::unsupported,
          "input '{}' belongs to the model's '{}' program: images, videos and audio are supported "
          "only as embeddings",
          escape(input), part);
    }
  }
}

const Type& Decoder::model_input_type(const std::string& name) const {
  const std::vector<std::string> known = model_inputs();
  check(std::ranges::find(known, name) != known.end(), ErrorKind::invalid_argument,
        "the model has no input '{}' beside tokens{}{}", escape(name),
        known.empty() ? "" : ", only: ", escape(fmt::format("{}", fmt::join(known, ", "))));
  return encoder_->input_type(name);
}

void Decoder::encode(Sequence& sequence, const NamedTensors& inputs,
                     const CancelToken* cancel) const {
  check(encoder_ != nullptr, ErrorKind::invalid_argument, "'{}' has no encoder for {} inputs",
        escape(folder()), inputs.size());
  check(sequence.length() == 0, ErrorKind::invalid_argument,
        "a sequence of {} tokens accepts no encoder inputs, expected an empty one",
        sequence.length());
  sequence.set_cross(encoder_->run(inputs, cancel));
}

// A GPU needs more tokens than a CPU before its products are at their best.
int64_t Decoder::prompt_tokens() const {
  const Device* device = plan().device;
  return device == nullptr || device->host_accessible() ? 512 : 2048;
}

DecoderNotes Decoder::notes() const {
  DecoderNotes notes;
  notes.packed = runner_->packed();
  notes.phased = runner_->prompt_plan() != nullptr;
  notes.not_packed_reason = runner_->not_packed_reason();
  notes.embeds = embedder_ != nullptr;
  if (notes.embeds) notes.embedding_not_packed_reason = embedder_->not_packed_reason();
  for (const SequenceState& state : layout().states()) {
    notes.states.push_back({state.name, state.kind(), state.window, state.grows});
  }
  return notes;
}

namespace {

// Kind and storage of a state.
std::string how_kept(const StateNote& state, bool packed) {
  std::string text(to_string(state.kind));
  if (state.window > 0) text += fmt::format(" of {} positions", state.window);
  if (state.paged) return text + ", paged";
  if (!packed) return text + ", contiguous: the program reads one tensor";
  return text + (state.kind == StateKind::append
                     ? ", contiguous: copied into the program's blocks at each step"
                     : ", contiguous: of fixed shape");
}

}  // namespace

std::string to_string(const DecoderNotes& notes) {
  std::string text = "tokens of all sequences are packed\n";
  if (!notes.packed) {
    text = fmt::format("one sequence per run: {}\n", notes.not_packed_reason);
  }
  if (notes.phased) text += "prefill and decode run separate programs\n";
  if (notes.embeds) {
    text += "an embedding program runs ";
    text += notes.embedding_not_packed_reason.empty()
                ? "once per step\n"
                : fmt::format("once per sequence: {}\n", notes.embedding_not_packed_reason);
  }
  // States with equal text share a line.
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const StateNote& state : notes.states) {
    const std::string how = how_kept(state, notes.packed);
    auto line =
        std::ranges::find(lines, how, [](const auto& l) -> const std::string& { return l.first; });
    if (line == lines.end()) line = lines.insert(line, {how, {}});
    line->second.push_back(escape(state.name));
  }
  for (const auto& [how, names] : lines) {
    if (names.size() == 1) {
      text += fmt::format("state {}: {}\n", names.front(), how);
    } else {
      text +=
          fmt::format("{} states, {} to {}: {}\n", names.size(), names.front(), names.back(), how);
    }
  }
  return text;
}

namespace {

// Sorts instead of comparing all pairs: a step may have thousands of sequences.
void check_distinct(std::span<const StepRequest> requests) {
  thread_local std::vector<std::pair<const Sequence*, size_t>> sorted;
  sorted.clear();
  for (size_t i = 0; i < requests.size(); ++i) sorted.emplace_back(requests[i].sequence, i);
  std::ranges::sort(sorted);
  const auto same = std::ranges::adjacent_find(
      sorted, [](const auto& a, const auto& b) { return a.first == b.first; });
  if (same == sorted.end()) return;
  fail(ErrorKind::invalid_argument, "requests {} and {} of a step have the same sequence",
       same->second, std::next(same)->second);
}

}  // namespace

void Decoder::check_requests(std::span<const StepRequest> requests) const {
  check(!requests.empty(), ErrorKind::invalid_argument,
        "a step has {} sequences, expected at least 1", requests.size());
  check_distinct(requests);
  for (const StepRequest& request : requests) check_request(request, limits_);
}

Tensor Decoder::step(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  StepLogits logits;
  step(requests, logits, cancel);
  return logits.to_host();
}

void Decoder::step(std::span<const StepRequest> requests, StepLogits& logits,
                   const CancelToken* cancel) const {
  check_requests(requests);
  runner_->run(requests, cancel, logits);
}

}  // namespace lathe::llm
