// SPDX-License-Identifier: MIT
// Real models against ONNX Runtime, with the references of make_references.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/thread_pool.h"
#include "import/onnx/importer.h"
#include "import/onnx/reader.h"
#include "import/onnx/tensor_proto.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::test {
namespace {

using Feeds = std::map<std::string, Box>;
namespace fs = std::filesystem;

// The folders in LATHE_MODEL_REFERENCES, separated by colons.
std::vector<std::string> reference_folders() {
  const char* given = std::getenv("LATHE_MODEL_REFERENCES");
  std::vector<std::string> folders;
  std::istringstream list(given == nullptr ? "" : given);
  for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  return folders;
}

Feeds read_tensors(const fs::path& folder, std::string_view kind) {
  Feeds out;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) return out;
    auto stored = onnx::read_stored_value(path.string(), onnx::ValueType::Kind::tensor);
    out.emplace(std::move(stored.name), std::move(stored.value));
  }
}

Box integers(Dims dims, std::span<const int64_t> values) {
  Tensor tensor(ElementType::i64, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.as<int64_t>());
  return Box{std::move(tensor)};
}

// A compiled model with inputs and results by name.
class Model {
 public:
  explicit Model(const std::string& path, std::string_view target = "ref")
      : plan_(compile(import_onnx(onnx::read_model(path)), {.target = find_target(target)})),
        session_(plan_, {.pool = &pool_, .warn = {}}) {}

  const Plan& plan() const { return *plan_; }

  Feeds run(const Feeds& feeds) {
    std::vector<Box> inputs;
    for (const auto& parameter : plan_->program->main().parameters()) {
      inputs.push_back(feeds.at(parameter->name()));
    }
    const std::vector<Box> results = session_.run(inputs);
    Feeds out;
    for (size_t i = 0; i < results.size(); ++i) {
      out.emplace(plan_->program->main().result_names()[i], results[i]);
    }
    return out;
  }

 private:
  ThreadPool pool_;
  std::shared_ptr<const Plan> plan_;
  Session session_;
};

class RealModels : public testing::TestWithParam<std::string> {
 protected:
  // Per output: max|a - b| <= 1e-4 max|b|; elements are finite and not all equal.
  void compare(const Feeds& actual, const Feeds& expected, const std::string& where) {
    ASSERT_EQ(actual.size(), expected.size()) << where;
    for (const auto& [name, box] : expected) {
      const Tensor a = actual.at(name).tensor().dense();
      const Tensor b = box.tensor().dense();
      ASSERT_EQ(to_string(a.type(), a.dims()), to_string(b.type(), b.dims())) << where << name;
      ASSERT_EQ(b.type(), ElementType::f32) << where << name;
      float largest = 0;
      float apart = 0;
      bool varies = b.count() <= 1;
      for (int64_t i = 0; i < b.count(); ++i) {
        const float x = a.as<float>()[i];
        const float y = b.as<float>()[i];
        ASSERT_TRUE(std::isfinite(x)) << where << name << ", element " << i << " is " << x;
        largest = std::max(largest, std::abs(y));
        apart = std::max(apart, std::abs(x - y));
        varies = varies || x != a.as<float>()[0];
      }
      EXPECT_LE(apart, 1e-4F * largest) << where << name;
      EXPECT_TRUE(varies) << where << name;
      worst_ = std::max(worst_, apart / std::max(largest, 1e-30F));
    }
  }

  // Runs the model and records the time.
  Feeds timed(Model& model, const Feeds& feeds) {
    const auto start = std::chrono::steady_clock::now();
    Feeds out = model.run(feeds);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds_ += taken.count();
    return out;
  }

  void note(const std::string& what) {
    RecordProperty(what, fmt::format("{:.1e} of the largest, {:.2f} s", worst_, seconds_));
    worst_ = 0;
    seconds_ = 0;
  }

 private:
  float worst_ = 0;
  double seconds_ = 0;
};

Feeds with_carried(Feeds feeds, const nlohmann::json& carried, const Feeds& results) {
  for (const auto& [input, output] : carried.items()) {
    feeds.insert_or_assign(input, results.at(output.get<std::string>()));
  }
  return feeds;
}

// The most likely token of the last position.
int64_t next_token(const Feeds& results) {
  const Tensor logits = results.at("logits").tensor().dense();
  const float* end = logits.as<float>() + logits.count();
  const float* row = end - logits.dims().back();
  return std::max_element(row, end) - row;
}

std::vector<int64_t> generate(const nlohmann::json& greedy, size_t count,
                              const std::function<Feeds(const Feeds&)>& run) {
  std::vector<int64_t> ids;
  std::vector<int64_t> step = greedy["prompt"];
  Feeds results;
  std::vector<int64_t> mask;
  while (ids.size() < count) {
    mask.resize(mask.size() + step.size(), 1);
    Feeds feeds = with_carried({}, ids.empty() ? nlohmann::json() : greedy["carried"], results);
    for (const auto& item : greedy["carried"].items()) {
      if (ids.empty()) feeds.emplace(item.key(), Box{Tensor(ElementType::f32, greedy["empty"])});
    }
    feeds.emplace("input_ids", integers({1, static_cast<int64_t>(step.size())}, step));
    feeds.emplace("attention_mask", integers({1, static_cast<int64_t>(mask.size())}, mask));
    results = run(feeds);
    ids.push_back(next_token(results));
    step = {ids.back()};
  }
  return ids;
}

// Inputs of prefill.
Feeds prompt_feeds(const nlohmann::json& greedy, const std::vector<int64_t>& ids) {
  Feeds feeds;
  for (const auto& item : greedy["carried"].items()) {
    feeds.emplace(item.key(), Box{Tensor(ElementType::f32, greedy["empty"])});
  }
  const auto count = static_cast<int64_t>(ids.size());
  feeds.emplace("input_ids", integers({1, count}, ids));
  feeds.emplace("attention_mask", integers({1, count}, std::vector<int64_t>(ids.size(), 1)));
  return feeds;
}

// Mean over rows of the KL divergence of the softmax of b from that of a.
double divergence(const Tensor& a, const Tensor& b) {
  const int64_t size = a.dims().back(), rows = a.count() / size;
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = a.as<float>() + row * size;
    const float* y = b.as<float>() + row * size;
    const auto log_sum = [&](const float* logits) {
      const double top = *std::max_element(logits, logits + size);
      double out = 0;
      for (int64_t i = 0; i < size; ++i) out += std::exp(logits[i] - top);
      return top + std::log(out);
    };
    const double x_sum = log_sum(x), y_sum = log_sum(y);
    for (int64_t i = 0; i < size; ++i) {
      const double p = x[i] - x_sum;
      sum += std::exp(p) * (p - (y[i] - y_sum));
    }
  }
  return sum / static_cast<double>(rows);
}

TEST_P(RealModels, MatchTheReferences) {
  const fs::path folder = GetParam();
  std::ifstream file(folder / "case.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  Model model(json["model"]);
  for (int set = 0; set < json["data_sets"]; ++set) {
    const std::string name = fmt::format("test_data_set_{}", set);
    compare(timed(model, read_tensors(folder / name, "input")),
            read_tensors(folder / name, "output"), name + " ");
    note(name);
  }
  for (size_t i = 0; i < json["sequences"].size(); ++i) {
    const nlohmann::json& sequence = json["sequences"][i];
    const std::string name = fmt::format("sequence_{}", i);
    Feeds first;
    Feeds results;
    for (int step = 0; step < sequence["steps"]; ++step) {
      const fs::path at = folder / name / fmt::format("step_{}", step);
      Feeds feeds = read_tensors(at, "input");
      if (step > 0) feeds = with_carried(std::move(feeds), sequence["carried"], results);
      results = timed(model, feeds);
      if (step == 0) first = results;
      compare(results, read_tensors(at, "output"), fmt::format("{} step {} ", name, step));
    }
    for (const auto& [output, box] : results) {
      EXPECT_FALSE(identical(box.tensor(), first.at(output).tensor())) << name << " " << output;
    }
    note(name);
  }
  if (json.contains("greedy")) {
    const std::vector<int64_t> expected = json["greedy"]["ids"];
    EXPECT_EQ(generate(json["greedy"], expected.size(),
                       [&](const Feeds& feeds) { return timed(model, feeds); }),
              expected);
    note("greedy");
  }
  const auto targets = target_names();
  const bool has_cpu = std::find(targets.begin(), targets.end(), "cpu") != targets.end();
  if (json.contains("cpu_divergence") && has_cpu) {
    std::vector<int64_t> ids = json["greedy"]["prompt"];
    const std::vector<int64_t> answer = json["greedy"]["ids"];
    ids.insert(ids.end(), answer.begin(), answer.end());
    const Feeds feeds = prompt_feeds(json["greedy"], ids);
    Model cpu(json["model"], "cpu");
    const double found = divergence(model.run(feeds).at("logits").tensor().dense(),
                                    cpu.run(feeds).at("logits").tensor().dense());
    EXPECT_LE(found, json["cpu_divergence"].get<double>());
    RecordProperty("divergence_of_cpu", fmt::format("{:.2g}", found));
  }
  EXPECT_EQ(model.plan().compilations, 1);
}

std::string last_part(const testing::TestParamInfo<std::string>& info) {
  std::string name = fs::path(info.param).filename().string();
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

// Without references there are no cases: real_models_test.py prints the reason.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealModels);
INSTANTIATE_TEST_SUITE_P(References, RealModels, testing::ValuesIn(reference_folders()), last_part);

}  // namespace
}  // namespace lathe::test
