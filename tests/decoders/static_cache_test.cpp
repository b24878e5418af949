// SPDX-License-Identifier: MIT
// KV caches of fixed shape with scattered writes: kept as the tokens present, exported and imported
// in the file's layout. The model's keys are entries of a table, its values their negatives.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "llm/model/decoder.h"
#include "llm/model/sequence_tensors.h"

namespace lathe::llm {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kSize = 4;
constexpr int64_t kTokens = 8;

struct Form {
  const char* name;
  int64_t capacity;
  bool ring;
  bool flat;
};

float table_value(Token token, int64_t i) {
  return static_cast<float>((token * 5 + i * 3) % 7 - 3) / 4;
}

constexpr std::string_view kConfig = R"({
  "model": {
    "type": "llama", "vocab_size": 8, "context_length": 64, "eos_token_id": 7,
    "decoder": {
      "filename": "model.onnx", "num_hidden_layers": 1,
      "inputs": {"past_key_names": "past_key_%d", "past_value_names": "past_value_%d"},
      "outputs": {"present_key_names": "key_%d", "present_value_names": "value_%d"}
    }
  }
})";

std::string model_of(const Form& form) {
  std::string table;
  for (Token token = 0; token < kTokens; ++token) {
    for (int64_t i = 0; i < kHeads * kSize; ++i) {
      table += fmt::format("{}{}", table.empty() ? "" : ", ", table_value(token, i));
    }
  }
  const std::string cache = form.flat ? fmt::format("float[batch, {}, 8]", form.capacity)
                                      : fmt::format("float[batch, 2, {}, 4]", form.capacity);
  const std::string scatter = fmt::format("TensorScatter <axis = {}, mode = \"{}\">",
                                          form.flat ? 1 : -2, form.ring ? "circular" : "linear");
  const std::string heads = form.flat ? ", q_num_heads = 2, kv_num_heads = 2" : "";
  const std::string_view to =
      form.flat ? "Identity (x)" : "Transpose <perm = [0, 2, 1, 3]> (split)";
  const std::string_view back = form.flat ? "Identity (attended)" : "Reshape (transposed, joint)";
  const std::string_view transpose =
      form.flat ? "" : "transposed = Transpose <perm = [0, 2, 1, 3]> (attended)";
  return fmt::format(R"(<ir_version: 10, opset_import: ["" : 24]>
decoder (int64[batch, tokens] input_ids, int64[batch] write_indices, int64[batch] nonpad_kv_seqlen,
         {0} past_key_0, {0} past_value_0)
    => (float[batch, tokens, 8] logits, {0} key_0, {0} value_0) <
  float[8, 8] table = {{{1}}},
  int64[4] parts = {{0, 0, 2, 4}},
  int64[3] joint = {{0, 0, 8}}
> {{
  x = Gather (table, input_ids)
  split = Reshape (x, parts)
  new_key = {4}
  new_value = Neg (new_key)
  key_0 = {2} (past_key_0, new_key, write_indices)
  value_0 = {2} (past_value_0, new_value, write_indices)
  attended = Attention <is_causal = 1{3}> (new_key, key_0, value_0, , , , nonpad_kv_seqlen)
  {6}
  y = {5}
  logits = Add (x, y)
}})",
                     cache, table, scatter, heads, to, back, transpose);
}

class StaticCacheTest : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    DecoderOptions options;
    options.files["genai_config.json"] = MemoryFile::copy_of(kConfig);
    options.files["model.onnx"] = MemoryFile::copy_of(model_of(GetParam()));
    decoder_ = std::make_unique<Decoder>("", options);
    ASSERT_TRUE(decoder_->packed()) << to_string(decoder_->notes());
  }

  static Token token(int64_t position) { return static_cast<Token>(position * position % 7); }

  // Runs tokens up to `end`; returns the logits of the last.
  std::vector<float> run(Sequence& sequence, int64_t end) const {
    std::vector<Token> tokens;
    for (int64_t i = sequence.length(); i < end; ++i) tokens.push_back(token(i));
    const StepRequest request{&sequence, tokens};
    const Tensor logits = decoder_->step({&request, 1});
    return {logits.as<float>(), logits.as<float>() + logits.count()};
  }

  // The element of a cache at a slot of the file.
  static float element(const Tensor& cache, int64_t slot, int64_t i) {
    const int64_t slots = GetParam().capacity;
    return cache.as<float>()[GetParam().flat ? slot * kHeads * kSize + i
                                             : (i / kSize * slots + slot) * kSize + i % kSize];
  }

  static Dims file_dims() {
    const Form& form = GetParam();
    return form.flat ? Dims{1, form.capacity, 8} : Dims{1, 2, form.capacity, 4};
  }

  std::unique_ptr<Decoder> decoder_;
};

TEST_P(StaticCacheTest, is_exported_in_the_files_layout) {
  const int64_t capacity = GetParam().capacity;
  Sequence sequence = decoder_->new_sequence();
  for (const int64_t length : {3, 11}) {
    run(sequence, length);
    const std::vector<StateTensor> states = export_states(sequence);
    ASSERT_EQ(states.size(), 2U);
    for (size_t which = 0; which < 2; ++which) {
      const Tensor& cache = states[which].tensor;
      ASSERT_EQ(cache.dims(), file_dims());
      for (int64_t slot = 0; slot < capacity; ++slot) {
        // The last position written there.
        const int64_t turns = GetParam().ring ? (length - 1 - slot) / capacity : 0;
        const int64_t position = slot + (slot < length ? turns * capacity : 0);
        for (int64_t i = 0; i < kHeads * kSize; ++i) {
          const float value = position < length ? table_value(token(position), i) : 0;
          ASSERT_EQ(element(cache, slot, i), which == 0 ? value : -value)
              << slot << " of " << length;
        }
      }
    }
  }
}

TEST_P(StaticCacheTest, continues_after_import) {
  for (const int64_t length : {2, 5, GetParam().ring ? 11 : 4}) {
    Sequence sequence = decoder_->new_sequence();
    run(sequence, length);
    const std::vector<StateTensor> states = export_states(sequence);
    Sequence again = import_states(sequence.shared_layout(), length, states);
    EXPECT_EQ(again.length(), length);
    EXPECT_EQ(run(again, length + 1), run(sequence, length + 1)) << length;
    EXPECT_EQ(run(again, length + 7), run(sequence, length + 7)) << length;
  }
}

TEST_P(StaticCacheTest, may_be_imported_without_unused_slots) {
  Sequence sequence = decoder_->new_sequence();
  run(sequence, 4);
  std::vector<StateTensor> states = export_states(sequence);
  for (StateTensor& state : states) {
    const int axis = GetParam().flat ? 1 : 2;
    state.tensor = slice_along(state.tensor, axis, 0, 4);
  }
  Sequence again = import_states(sequence.shared_layout(), 4, states);
  EXPECT_EQ(run(again, 6), run(sequence, 6));
  if (GetParam().ring) return;  // the last slots of a ring buffer suffice
  EXPECT_THROW(import_states(sequence.shared_layout(), 6, states), Error);
}

TEST_P(StaticCacheTest, holds_what_fits) {
  if (GetParam().ring) return;
  Sequence sequence = decoder_->new_sequence();
  run(sequence, 7);
  run(sequence, 13);
  try {
    export_states(sequence);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_EQ(error.message(),
              "a sequence of 13 tokens exceeds the file's KV cache 'past_key_0' of 12");
  }
}

INSTANTIATE_TEST_SUITE_P(forms, StaticCacheTest,
                         testing::Values(Form{"linear", 12, false, false},
                                         Form{"flat", 12, false, true},
                                         Form{"ring", 5, true, false},
                                         Form{"flat_ring", 5, true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lathe::llm
