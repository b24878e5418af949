// SPDX-License-Identifier: MIT
// The C++ wrappers. Prints "N passed, N failed, 0 skipped".
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "lathe/lathe.hpp"

namespace {

int passed = 0;
int failed = 0;

void expect(bool condition, const char* what) {
  ++(condition ? passed : failed);
  if (!condition) std::printf("failed: %s\n", what);
}

constexpr std::string_view kText = R"(program "sum" stage imported {
  symbol n bound 0..*
  symbol past bound 0..*
  module @main(%past: f32[past, 2], %x: f32[n, 2], %s: seq<f32[*]>) {
    %present = concat(%past, %x) {axis = 0}
    %axis = literal i64[1] {0}
    %y = reduce_sum(%present, %axis) {keep_dims = false}
    %count = sequence_length(%s)
    return %present as "present", %y as "y", %count as "count", %s as "items"
  }
})";

lathe::Program load() { return lathe::Program::from_memory(std::as_bytes(std::span(kText))); }

void test_program() {
  lathe::Program program = load();
  const auto inputs = program.inputs();
  expect(inputs.size() == 3 && inputs[1].name == "x" && inputs[1].type == "f32[n, 2]", "inputs");
  expect(inputs[1].dims[0] == -1 && inputs[1].dims[1] == 2 && inputs[1].rank == 2, "dims");
  expect(inputs[2].kind == LATHE_VALUE_SEQUENCE, "the kind of a sequence");
  expect(program.outputs()[2].element_type == LATHE_I64, "outputs");
  expect(program.text().find("reduce_sum") != std::string::npos, "text");
  try {
    lathe::Program missing("no/such/model.onnx");
    expect(false, "a missing file throws");
  } catch (const lathe::Error& error) {
    expect(error.kind() == LATHE_IO, "the kind of an error");
    expect(error.reason() == "missing_file", "its reason");
    expect(std::string(error.what()).starts_with("cannot open 'no/such/model.onnx'"), "its text");
  }
}

void test_building() {
  lathe::Program program = lathe::Program::create("built");
  lathe::Module main = program.module("main");
  const size_t x = main.parameter("x", "f32[n, 2]");
  const size_t y = main.instruction("softmax", {x}, R"({"axis": 1})");
  main.set_results({{"y", main.instruction("neg", {y})}});
  expect(main.size() == 4 && std::string_view(main.at(1).op) == "softmax", "its instructions");
  expect(program.outputs()[0].type == "f32[n, 2]", "the type of its output");
  const lathe::Plan plan(program, lathe::CompileOptions{.dims = {{"n", 1, 1}}});
  expect(plan.inputs()[0].type == "f32[1, 2]", "a fixed dim");
  expect(plan.explain().find("\"launches\":[{") != std::string::npos, "its launches");
  const std::string file = plan.save();
  const auto again = lathe::Program::from_memory(std::as_bytes(std::span(file)));
  expect(again.inputs()[0].type == "f32[1, 2]", "the input of a compiled file");
  const lathe::Environment environment(1);
  lathe::Session session(plan, {.environment = &environment});
  std::array<float, 2> values{0, 0};
  const std::array inputs{lathe::Tensor::wrap<float>({1, 2}, values.data())};
  auto future = session.run_async(inputs);
  const std::vector<lathe::Tensor> results = future.get();
  expect(results[0].values<float>()[1] == -0.5F, "the result of an asynchronous run");
  try {
    session.run_async(std::span(inputs).first(0)).get();
    expect(false, "a run without inputs");
  } catch (const lathe::Error& error) {
    expect(error.reason() == "input_count", "its reason");
  }
}

void test_devices() {
  const char* const given = std::getenv("TEST_DEVICE");
  const char* const name = given == nullptr ? "sim" : given;
  const lathe::Device tested = lathe::Device::find(name);
  expect(lathe::Device().name() == "cpu" && lathe::Device::list()[0] == lathe::Device(), "devices");
  lathe::Session session(lathe::Plan(
      lathe::Program::from_memory(std::as_bytes(
          std::span(std::string_view("<ir_version: 8, opset_import: [\"\" : 18]>\n"
                                     "g (float[n] x) => (float[n] y) { y = Neg(x) }")))),
      name));
  std::array<float, 2> values{1, 2};
  const lathe::Tensor host = lathe::Tensor::wrap<float>({2}, values.data());
  const lathe::Tensor there = host.to(tested);
  expect(there.device() == tested, "a copy on a device");
  lathe::Stream stream(tested);
  const std::array<int64_t, 1> dims{2};
  const lathe::Tensor second(tested, LATHE_F32, dims);
  stream.copy(there, second);
  const auto results = session.run({second}, {.results_on_device = true, .stream = &stream});
  expect(results[0].device() == tested && results[0].to().values<float>()[1] == -2,
         "run on a device");
}

void test_values() {
  lathe::Tensor keys(LATHE_STRING, {2});
  const std::array<std::string, 2> names{"b", "a"};
  keys.set_strings(names);
  const std::array values{lathe::Tensor(LATHE_F32, {3}), lathe::Tensor(LATHE_I64, {4})};
  const lathe::Tensor map = lathe::Tensor::map(keys, values);
  const auto [sorted, items] = map.map_items();
  expect(sorted.strings() == std::vector<std::string>{"a", "b"}, "the keys of a map");
  expect(items.item_count() == 2 && items.item(0).type() == LATHE_I64, "its values");
  expect(lathe::Tensor::none().empty(), "an optional without a value");
  expect(load().write("dot").starts_with("digraph"), "a program as a graph");
}

void test_views() {
  const lathe::Program program = lathe::Program::from_memory(std::as_bytes(std::span(
      std::string_view("<ir_version: 8, opset_import: [\"\" : 18], producer_name: \"maker\",\n"
                       "metadata_props: [\"key\": \"value\"]>\n"
                       "g (float[n] x) => (float[n] y) { y = Neg(x) }"))));
  expect(std::string_view(program.info().producer) == "maker", "the producer");
  expect(program.metadata().size() == 1 && program.metadata()[0].second == "value", "metadata");
  expect(program.defaults().empty() && !program.inputs()[0].has_default, "no defaults");
  lathe::Session session{lathe::Plan(program)};
  std::array<float, 3> x{1, 2, 3};
  const std::array<int64_t, 1> dims{3};
  const std::array inputs{lathe::view_of(LATHE_F32, dims, x.data())};
  std::array outputs{lathe::empty_view()};
  session.run_views(inputs, outputs);
  const lathe::Tensor result = lathe::take(outputs[0]);
  expect(result.values<float>().size() == 3 && result.values<float>()[2] == -3, "run views");
  expect(lathe::run_command({"--help"}) == 0, "a command");
}

// A session without states serves any number of threads.
void test_threads() {
  lathe::Session session{lathe::Plan(load())};
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&session, &count] {
      std::array<float, 2> past{1, 2};
      std::array<float, 4> x{3, 4, 5, 6};
      const std::array<lathe::Tensor, 1> items{lathe::Tensor(LATHE_F32, {3})};
      for (int i = 0; i < 50; ++i) {
        const auto results = session.run({lathe::Tensor::wrap<float>({1, 2}, past.data()),
                                          lathe::Tensor::wrap<float>({2, 2}, x.data()),
                                          lathe::Tensor::sequence(items)});
        const auto sums = results[1].values<float>();
        if (sums[0] != 9 || sums[1] != 12) ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) expect(count == 0, "results of several threads");
}

void test_run() {
  const lathe::Program program = load();
  const lathe::Plan plan(program, "ref");
  std::array<float, 2> past{1, 2};
  std::array<float, 4> x{3, 4, 5, 6};
  const std::array<lathe::Tensor, 2> items{lathe::Tensor(LATHE_F32, {3}),
                                           lathe::Tensor(LATHE_F32, {1, 1})};
  std::vector<lathe::Tensor> results;
  {
    lathe::Session session(plan, {.threads = 1});
    results =
        session.run({lathe::Tensor::wrap<float>({1, 2}, past.data()),
                     lathe::Tensor::wrap<float>({2, 2}, x.data()), lathe::Tensor::sequence(items)});
  }
  expect(results[1].values<float>()[0] == 9 && results[1].values<float>()[1] == 12, "a sum");
  expect(results[1].values<int64_t>().empty(), "no values of another type");
  expect(results[2].values<int64_t>()[0] == 2, "the length of a sequence");
  expect(results[3].item_count() == 2 && results[3].item(0).dims()[0] == 3, "its items");
  const lathe::Tensor copy = results[0];
  results.clear();
  expect(copy.dims()[0] == 3 && copy.strides()[0] == 2 && copy.bytes() == 24, "copies share");
}

void test_states() {
  lathe::Program program = load();
  program.promote_states({{"past", "present"}});
  const lathe::Plan plan(program);
  lathe::Session session(plan);
  std::array<float, 2> x{1, 2};
  const std::array<lathe::Tensor, 2> inputs{
      lathe::Tensor::wrap<float>({1, 2}, x.data()),
      lathe::Tensor::sequence(std::span<const lathe::Tensor>())};
  std::vector<lathe::Tensor> results(3);
  std::array<float, 2> sum{};
  results[0] = lathe::Tensor::wrap<float>({2}, sum.data());
  for (int i = 0; i < 3; ++i) session.run(inputs, results);
  expect(sum[0] == 3 && sum[1] == 6, "bound outputs over several steps");
  expect(session.length("past") == 3, "a state's length");
  session.truncate(1);
  expect(session.length("past") == 1, "truncated");
  lathe::Cancel cancel;
  std::thread([&] { cancel.set(); }).join();
  try {
    session.run(inputs, results, {.cancel = &cancel});
    expect(false, "a cancelled run throws");
  } catch (const lathe::Error& error) {
    expect(error.kind() == LATHE_INTERRUPTED && session.length("past") == 1, "and changes nothing");
  }
  session.reset();
  expect(session.length("past") == 0, "reset");
}

void test_targets() {
  const lathe::Program program = load();
  const lathe::Plan named(program, "auto");
  const lathe::Plan chosen(program);  // "auto"
  expect(named.inputs().size() == chosen.inputs().size(), "the automatic target");
  try {
    const lathe::Plan plan(program, "cpuu");
    expect(false, "an unknown target throws");
  } catch (const lathe::Error& error) {
    expect(std::string(error.what()).find("; targets: auto, ref") != std::string::npos, "lists it");
  }
}

void test_strings() {
  lathe::Tensor texts(LATHE_STRING, {2});
  texts.set_string(1, std::string_view("a\0b", 3));
  expect(texts.string(1).size() == 3 && texts.string(0).empty(), "texts");
  expect(texts.data() == nullptr && lathe::Tensor().empty(), "nothing");
}

}  // namespace

int main() {
  test_program();
  test_run();
  test_views();
  test_values();
  test_building();
  test_devices();
  test_threads();
  test_states();
  test_targets();
  test_strings();
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
