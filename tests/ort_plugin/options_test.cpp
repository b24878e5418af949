// SPDX-License-Identifier: MIT
#include "ort_plugin/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace lathe::ort_plugin {
namespace {

EpOptions read(const std::string& key, const std::string& value) {
  return read_options({{"ep.lathe." + key, value}, {"ep.other.threads", "x"}}, "ep.lathe.");
}

std::string problem(const std::string& key, const std::string& value) {
  try {
    read(key, value);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(PluginOptions, OwnOptionsAreParsed) {
  EXPECT_EQ(read("threads", "3").threads, 3);
  EXPECT_EQ(read("compute", "int8").compute, Compute::int8);
  EXPECT_EQ(read("memory_limit", "2K").memory_limit, 2048);
  EXPECT_TRUE(read("strict", "True").strict);
  EXPECT_FALSE(read("strict", "0").strict);
  EXPECT_EQ(read("refuse", "Relu, Softmax").refuse.size(), 2U);
  EXPECT_EQ(read("tune", "2.5").tune, 2.5);
}

TEST(PluginOptions, OptionsOfOtherEpsKeepTheirMeaning) {
  EXPECT_EQ(read("migraphx_fp16_enable", "1").compute, Compute::bf16);
  EXPECT_EQ(read("fp16_enable", "1").notes.size(), 1U);
  EXPECT_EQ(read("int8_enable", "true").compute, Compute::int8);
  EXPECT_EQ(read("migraphx_mem_limit", "18446744073709551615").memory_limit, 0);
  EXPECT_EQ(read("gpu_mem_limit", "4096").memory_limit, 4096);
  EXPECT_EQ(read("migraphx_exhaustive_tune", "1").tune, 60);
  EXPECT_EQ(read("exhaustive_tune", "0").tune, 0);
  EXPECT_EQ(read("max_dynamic_batch", "8").notes.size(), 1U);
}

TEST(PluginOptions, FilesOfCompiledGroupsNeedTheirSwitch) {
  const auto read_all = [](const Entries& entries) { return read_options(entries, "ep.lathe."); };
  EXPECT_EQ(read("cache_dir", "a").cache_dir, "a");
  EXPECT_EQ(read("migraphx_model_cache_dir", "a").cache_dir, "a");
  EXPECT_EQ(read_all({{"ep.lathe.disable_caching", "1"}, {"ep.lathe.cache_dir", "a"}}).cache_dir,
            "");
  EXPECT_EQ(read("save_model_path", "a").save_path, "");
  EXPECT_EQ(read("save_compiled_model", "1").save_path, "compiled_model.lathe");
  EXPECT_EQ(read("load_compiled_model", "1").load_path, "compiled_model.lathe");
  const EpOptions both = read_all({{"ep.lathe.load_compiled_path", "a"},
                                   {"ep.lathe.migraphx_load_compiled_model", "True"},
                                   {"ep.lathe.save_compiled_model", "true"},
                                   {"ep.lathe.save_compiled_path", "b"}});
  EXPECT_EQ(both.load_path, "a");
  EXPECT_EQ(both.save_path, "b");
  EXPECT_TRUE(read("force_recompile", "1").force_recompile);
}

TEST(PluginOptions, AGpuIsATargetWithANumber) {
  const auto read_all = [](const Entries& entries) { return read_options(entries, "ep.lathe."); };
  EXPECT_EQ(read("target", "cuda:1").target, "cuda:1");
  EXPECT_EQ(read_all({{"ep.lathe.device_id", "2"}, {"ep.lathe.target", "gpu"}}).target, "gpu:2");
  EXPECT_EQ(read_all({{"ep.lathe.device_id", "0"}, {"ep.lathe.target", "gpu"}}).target, "gpu");
}

TEST(PluginOptions, WrongOptionsAreNamed) {
  EXPECT_EQ(problem("thread", "3"),
            "unknown option 'thread' of Lathe's execution provider (did you mean 'threads'?)");
  EXPECT_EQ(problem("strict", "yes"), "option 'strict' is 'yes', expected 0, 1, true or false");
  EXPECT_EQ(problem("target", "tpu"),
            "option 'target' is 'tpu', expected auto, cpu, ref, gpu, cuda or hip");
  EXPECT_EQ(problem("device_id", "1"),
            "option 'device_id' is 1, expected 0: the target 'auto' is one device");
  EXPECT_NE(problem("threads", "-1"), "");
  EXPECT_NE(problem("compute", "fp4"), "");
  EXPECT_NE(problem("tune", "-1"), "");
  EXPECT_NE(problem("memory_limit", "much"), "");
}

TEST(PluginOptions, EveryRefusedOptionSaysWhyAndMayBeOff) {
  int refused = 0;
  for (const EpOption& option : ep_options()) {
    if (option.use != OptionUse::refused) continue;
    ++refused;
    const std::string text = problem(std::string(option.name), "1");
    EXPECT_EQ(text, fmt::format("option '{}' is '1', which is not supported: {}", option.name,
                                option.doc));
    const char* off = option.type == "boolean" || option.type == "address" ? "0" : "";
    EXPECT_EQ(problem(std::string(option.name), off), "") << option.name;
  }
  EXPECT_GE(refused, 16);
}

TEST(PluginOptions, OptionsWithoutEffectAreNotedWhenTheyAreOn) {
  for (const EpOption& option : ep_options()) {
    if (option.use != OptionUse::no_effect) continue;
    const EpOptions options = read(std::string(option.name), "1");
    ASSERT_EQ(options.notes.size(), 1U) << option.name;
    EXPECT_NE(options.notes[0].find(option.doc), std::string::npos);
  }
}

TEST(PluginOptions, ThePageHasTheTable) {
  std::ifstream file("docs/onnxruntime-plugin.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(options_markdown()), std::string::npos) << options_markdown();
}

}  // namespace
}  // namespace lathe::ort_plugin
