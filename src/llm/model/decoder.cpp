// SPDX-License-Identifier: MIT
#include "llm/model/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/os_system.h"

namespace lathe::llm {

Decoder::Decoder(const std::string& folder, const DecoderOptions& options)
    : folder_(folder, options.overlay, options.files) {
  if (!config().unheeded.empty()) {
    log_warning(fmt::format("generation_config.json of '{}' asks for {}, which is not done",
                            escape(folder), fmt::join(config().unheeded, ", ")));
  }
  const DecoderConfig& decoder = config().decoder;
  const DecoderConfig* encoder = config().encoder ? &*config().encoder : nullptr;
  const bool runs = config().kind == ModelKind::decoder || config().kind == ModelKind::multimodal ||
                    (config().kind == ModelKind::encoder_decoder && encoder != nullptr);
  check(runs, ErrorKind::unsupported, "'{}' is a model of type '{}', and has no encoder",
        escape(folder), config().type);
  const DecoderPrograms programs = folder_.load_decoder();
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
      std::vector<std::string> wanted;
      for (const StatePair& pair : names.cross) wanted.push_back(pair.present);
      RunnerOptions encoder_options = options;
      if (options.encoder_target != nullptr) encoder_options.target = options.encoder_target;
      encoder_ =
          std::make_unique<Encoder>(std::move(encoder_program), folder_.file(encoder->filename),
                                    std::move(wanted), encoder_options);
    }
  } catch (Error& error) {
    error.note(fmt::format("in {}", escape(file)));
    throw;
  }
  vocabulary_ = runner_->vocabulary() > 0 ? runner_->vocabulary() : config().vocab_size;
  check(vocabulary_ >= config().vocab_size || config().vocab_size == 0, ErrorKind::invalid_model,
        "'{}' gives {} logits, the configuration's vocab_size is {}", escape(file), vocabulary_,
        config().vocab_size);
  set_limits();
}

// Null where the decoder's program takes nothing but tokens.
std::unique_ptr<Program> Decoder::load_embedding(const DecoderInterface& names) const {
  if (names.embeddings.empty() && names.token_inputs.empty()) return nullptr;
  const auto part = config().parts.find("embedding");
  if (part != config().parts.end()) return folder_.load(part->second.filename);
  // Such a program runs with embeddings that are given, unless it wants more than those.
  for (const std::string& input : names.token_inputs) {
    check(input == names.embeddings, ErrorKind::unsupported,
          "the input '{}' is made by the program of an 'embedding', and '{}' has none",
          escape(input), escape(folder()));
  }
  return nullptr;
}

void Decoder::set_limits() {
  limits_ = runner_->limits();
  limits_.vocabulary = vocabulary_;
  limits_.context = config().context_length;
  if (config().kind != ModelKind::multimodal) return;
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
          "{} tokens take {} of caches ({} a token), {} are taken, and the memory limit is {}",
          tokens, bytes_text(caches), bytes_text(size_.row_bytes), bytes_text(others),
          bytes_text(memory_limit_));
    return;
  }
  const SystemMemory memory = system_memory();
  if (memory.total_bytes == 0) return;
  // Weights that lie in a mapped file count as available, and are needed all the same.
  const int64_t beside = memory.total_bytes - size_.all_weight_bytes() - others;
  const int64_t room = std::max<int64_t>(std::min(memory.available_bytes + own, beside), 0);
  check(caches <= room, ErrorKind::out_of_memory,
        "{} tokens take {} of caches ({} a token); beside weights of {} and {} of other sequences "
        "there is room for {}",
        tokens, bytes_text(caches), bytes_text(size_.row_bytes),
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
      check(!own, ErrorKind::unsupported,
            "input '{}' is that of the model's '{}' program: images, videos and sounds are not "
            "supported yet, but for embeddings given in their place",
            escape(input), part);
    }
  }
}

const Type& Decoder::model_input_type(const std::string& name) const {
  const std::vector<std::string> wanted = model_inputs();
  check(std::ranges::find(wanted, name) != wanted.end(), ErrorKind::invalid_argument,
        "the model takes no input '{}' beside tokens{}{}", escape(name),
        wanted.empty() ? "" : ", only: ", escape(fmt::format("{}", fmt::join(wanted, ", "))));
  return encoder_->input_type(name);
}

void Decoder::encode(Sequence& sequence, const NamedTensors& inputs,
                     const CancelToken* cancel) const {
  check(encoder_ != nullptr, ErrorKind::invalid_argument, "'{}' has no encoder for {} inputs",
        escape(folder()), inputs.size());
  check(sequence.length() == 0, ErrorKind::invalid_argument,
        "a sequence of {} rows takes no more of the encoder's inputs", sequence.length());
  std::vector<Tensor> encoded = encoder_->run(inputs, cancel);
  const std::vector<SequenceState>& states = layout().states();
  size_t at = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].cross) sequence.set_cross(i, std::move(encoded[at++]));
  }
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

// What kind of state it is and where it lies.
std::string how_kept(const StateNote& state, bool packed) {
  std::string text(to_string(state.kind));
  if (state.window > 0) text += fmt::format(" of {} rows", state.window);
  if (state.paged) return text + ", paged: attention reads it by pages";
  if (!packed) return text + ", contiguous: the program takes it whole";
  return text + (state.kind == StateKind::append
                     ? ", contiguous: brought into the program's blocks for each step"
                     : ", contiguous: of fixed extents");
}

}  // namespace

std::string to_string(const DecoderNotes& notes) {
  std::string text = "rows of all sequences are packed\n";
  if (!notes.packed) {
    text = fmt::format("sequences run one by one, prompts whole: {}\n", notes.not_packed_reason);
  }
  if (notes.phased) text += "prompts and single tokens run in programs of their own\n";
  if (notes.embeds) {
    text += "tokens are embedded by a program of their own, ";
    text += notes.embedding_not_packed_reason.empty()
                ? "all of a step together\n"
                : fmt::format("sequence by sequence: {}\n", notes.embedding_not_packed_reason);
  }
  // States of which the same is said share a line.
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

void Decoder::check_requests(std::span<const StepRequest> requests) const {
  check(!requests.empty(), ErrorKind::invalid_argument, "a step of {} sequences", requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      check(requests[i].sequence != requests[j].sequence, ErrorKind::invalid_argument,
            "requests {} and {} of a step are of one sequence", j, i);
    }
    check_request(requests[i], limits_);
  }
}

Tensor Decoder::step(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  check_requests(requests);
  return runner_->run(requests, cancel);
}

void Decoder::step(std::span<const StepRequest> requests, Tensor& logits,
                   const CancelToken* cancel) const {
  check_requests(requests);
  runner_->run_into(requests, cancel, logits);
}

}  // namespace lathe::llm
