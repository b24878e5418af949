// SPDX-License-Identifier: MIT
#include "llm/model/choose_target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace lathe::llm {
namespace {

std::string session(std::string_view provider, int threads = 0) {
  return fmt::format(
      R"("session_options": {{"intra_op_num_threads": {}, "provider_options": [{{"{}": {{}}}}]}})",
      threads, provider);
}

GenaiConfig read(const std::string& decoder, const std::string& more = "") {
  return read_genai_config(
      fmt::format(R"({{"model": {{"type": "decoder", "context_length": 8, "decoder": {{{}}}{}}}}})",
                  decoder, more),
      "genai_config.json");
}

std::string best() {
  const auto names = target_names();
  return std::ranges::find(names, "cpu") != names.end() ? "cpu" : "ref";
}

bool has_gpu() {
  const auto names = target_names();
  return std::ranges::find(names, "gpu") != names.end();
}

TEST(ChooseTarget, uses_the_first_present_provider) {
  if (has_gpu()) GTEST_SKIP() << "a GPU target is present";
  const TargetChoice choice = choose_target(read(R"("filename": "m", )" + session("cuda")), "f");
  EXPECT_EQ(choice.target->name(), best());
  EXPECT_EQ(choice.encoder, choice.target);
  EXPECT_EQ(choice.warning, "'f' requests cuda, unavailable here; using " + best());
  const std::string both = R"("filename": "m", "session_options":
    {"provider_options": [{"cuda": {}}, {"CPUExecutionProvider": {}}]})";
  EXPECT_EQ(choose_target(read(both), "f").warning, "");
  EXPECT_EQ(choose_target(read(R"("filename": "m")"), "f").warning, "");
}

TEST(ChooseTarget, uses_stages_and_encoders_too) {
  if (has_gpu()) GTEST_SKIP() << "a GPU target is present";
  const std::string stages = fmt::format(
      R"("pipeline": [{{"a": {{"filename": "a", {}}}, "b": {{"filename": "b", {}}},
          "c": {{"filename": "c"}}}}])",
      session("dml"), session("cpu", 3));
  const GenaiConfig staged = read(stages);
  EXPECT_EQ(staged.threads(), 3);
  const TargetChoice choice = choose_target(staged, "f");
  EXPECT_EQ(choice.target->name(), best());
  EXPECT_EQ(choice.warning,
            "'f' requests dml for its stage 'a', unavailable here; using " + best());
  const GenaiConfig encoded = read(R"("filename": "m", )" + session("cuda"),
                                   R"(, "encoder": {"filename": "e", )" + session("QNN", 2) + "}");
  EXPECT_EQ(encoded.threads(), 2);
  EXPECT_EQ(choose_target(encoded, "f").encoder->name(), best());
  const GenaiConfig absent = read(R"("filename": "m", )" + session("cuda", 5000),
                                  R"(, "encoder": {"filename": "e", )" + session("rocm", 2) + "}");
  EXPECT_EQ(absent.threads(), 1024);
  EXPECT_EQ(choose_target(absent, "f").warning,
            "'f' requests cuda, rocm for its encoder, unavailable here; using " + best());
}

}  // namespace
}  // namespace lathe::llm
