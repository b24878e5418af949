// SPDX-License-Identifier: MIT
// One test per case of tests/passes/*.test; the file has the name of its pass.
// `passes_tests --file tests/passes/simplify_algebra.test:1` runs one case, without ":1" one file;
// `passes_tests --update` writes the current output of the passes to the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file_map.h"
#include "ir/pass_runner.h"
#include "passes/decoder/decoder_packing.h"
#include "passes/decoder/join_attention_products.h"
#include "passes/decoder/simplify_paged_caches.h"
#include "passes/decoder/split_skip_norms.h"
#include "targets/pipeline.h"
#include "tests/support/pass_case.h"

namespace lathe::test {
namespace {

// By the names that exporters use.
DecoderInterface decoder_interface(const Module& main) {
  DecoderInterface names;
  names.tokens = "input_ids";
  names.logits = "logits";
  const auto& results = main.result_names();
  for (const auto& parameter : main.parameters()) {
    const std::string& name = parameter->name();
    if (name == "position_ids") names.positions = name;
    if (name == "attention_mask") names.mask = name;
    if (name.starts_with("cross.")) names.cross.push_back({name, name});
    if (!name.starts_with("past.")) continue;
    const std::string present = "present." + name.substr(5);
    const bool pair = std::find(results.begin(), results.end(), present) != results.end();
    if (pair) names.states.push_back({name, present});
  }
  return names;
}

// A pass of pack_sequences, which reads the program's interface when it runs.
std::optional<Pass> find_decoder_pass(std::string_view name) {
  DecoderPacking listed({}, false);
  std::vector<Pass> passes = listed.pipeline().stages.front().passes;
  passes.push_back(simplify_paged_caches({}));
  for (Pass pass : passes) {
    if (pass.name != name) continue;
    pass.run = [name = pass.name](Program& program) {
      const DecoderInterface names = decoder_interface(program.main());
      if (name == "simplify_paged_caches") return simplify_paged_caches(names).run(program);
      DecoderPacking packing(names, false);
      const Pipeline pipeline = packing.pipeline();
      for (const Pass& own : pipeline.stages.front().passes) {
        if (own.name == name) return own.run(program);
      }
      return false;
    };
    return pass;
  }
  return std::nullopt;
}

// The stages after which each idea that exporters write has one form.
Pass canonical_and_optimised() {
  const auto run = [](Program& program) {
    const auto passes = run_passes(program, make_pipeline(find_target("cpu")),
                                   {.verify_each_pass = true, .stop_after = Stage::optimised});
    return std::ranges::any_of(passes, &PassRecord::changed);
  };
  return {.name = "canonical_and_optimised", .doc = "", .run = run};
}

bool is_spelling(const std::filesystem::path& file) {
  return file.parent_path().filename() == "spellings";
}

Pass find_pass(const std::filesystem::path& file) {
  if (is_spelling(file)) return canonical_and_optimised();
  const std::string name = file.stem().string();
  // Only GPUs have these.
  if (name == split_skip_norms.name) return split_skip_norms;
  if (name == join_attention_products.name) return join_attention_products;
  if (name == "place_on_device") return place_for(find_target("sim:mixed"), Boundary::device);
  // On the host, placement would insert no copies; ref fuses nothing and has no layouts.
  const bool by_cpu = name == "fuse_regions" || name == "choose_layouts" || name == "widen_f16" ||
                      name == "narrow_convolutions" || name == "join_lookups";
  const std::string_view target = name == "place" ? "sim:mixed" : by_cpu ? "cpu" : "ref";
  const bool narrows = name == "narrow_convolutions" || name == "narrow_rounded";
  const Compute compute = narrows ? Compute::bf16 : Compute::as_model;
  const Pipeline pipeline = make_pipeline(find_target(target), compute);
  std::vector<std::string_view> known{pipeline.cleanup.name};
  if (pipeline.cleanup.name == name) return pipeline.cleanup;
  for (const StagePasses& stage : pipeline.stages) {
    for (const Pass& pass : stage.passes) {
      if (pass.name == name) return pass;
      known.push_back(pass.name);
    }
  }
  if (const std::optional<Pass> pass = find_decoder_pass(name)) return *pass;
  fail(ErrorKind::invalid_argument, "no pipeline has a pass '{}'{}", name,
       did_you_mean(name, known));
}

// Passes are idempotent, stages are not: each starts with passes that later ones feed.
std::string run(const PassCase& row, const Pass& pass) {
  return run_pass_case(row, pass, !is_spelling(row.file));
}

class CaseTest : public testing::Test {
 public:
  explicit CaseTest(PassCase row) : row_(std::move(row)) {}
  void TestBody() override {
    const Pass pass = find_pass(row_.file);
    EXPECT_EQ(run(row_, pass), row_.after);
    if (HasFailure()) {
      std::cerr << "rerun: passes_tests --file " << row_.file << ":" << row_.line << "\n";
    }
  }

 private:
  PassCase row_;
};

// Converts the sentence to a test name: other characters become '_'.
std::string name_of(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  while (name.ends_with('_')) name.pop_back();
  return name;
}

std::vector<std::string> test_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests/passes")) {
    if (entry.path().extension() == ".test") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int register_cases(const std::string& file, int line) {
  int count = 0;
  const std::string suite = std::filesystem::path(file).stem().string();
  for (const PassCase& row : read_pass_cases(file)) {
    if (line != 0 && row.line != line) continue;
    testing::RegisterTest(suite.c_str(), name_of(row.sentence).c_str(), nullptr, nullptr,
                          row.file.c_str(), row.line,
                          [row]() -> testing::Test* { return new CaseTest(row); });
    ++count;
  }
  return count;
}

void update(const std::string& file) {
  const Pass pass = find_pass(file);
  std::vector<PassCase> cases = read_pass_cases(file);
  for (PassCase& row : cases) row.after = run(row, pass);
  write_file(file, print_pass_cases(cases));
}

class Updates : public testing::Test {
 public:
  void TestBody() override {
    for (const std::string& file : test_files()) update(file);
  }
};

void register_selected(const std::string& selected) {
  if (selected.empty()) {
    for (const std::string& file : test_files()) register_cases(file, 0);
    return;
  }
  const size_t colon = selected.find(':');
  const int line = colon == std::string::npos ? 0 : std::stoi(selected.substr(colon + 1));
  const std::string file = selected.substr(0, colon);
  const int count = register_cases(file, line);
  check(count > 0, ErrorKind::invalid_argument, "'{}' selects no case", selected);
  testing::GTEST_FLAG(filter) = std::filesystem::path(file).stem().string() + ".*";
}

}  // namespace
}  // namespace lathe::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const std::string_view argument = argc > 1 ? argv[1] : "";
    if (argument == "--update" && argc == 2) {
      testing::RegisterTest("update", "expectations", nullptr, nullptr, __FILE__, __LINE__,
                            []() -> testing::Test* { return new lathe::test::Updates; });
    } else if (argument == "--file" && argc == 3) {
      lathe::test::register_selected(argv[2]);
    } else if (argc == 1) {
      lathe::test::register_selected("");
    } else {
      std::cerr << "unknown argument '" << argument << "', expected --file FILE[:LINE], --update\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
