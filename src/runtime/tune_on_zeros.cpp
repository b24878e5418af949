// SPDX-License-Identifier: MIT
#include <cstring>
#include <map>
#include <optional>

#include "base/error.h"
#include "runtime/sizes.h"
#include "runtime/tune.h"

namespace lathe {
namespace {

constexpr double kGrace = 5;  // seconds, for the first run

Tensor zeros(const Value& input, const std::map<std::string, int64_t>& sizes) {
  const Type& type = input.type();
  check(type.is_ranked(), ErrorKind::unsupported, "input '{}' is {}, whose shape is not known",
        escape(input.name()), escape(type.to_string()));
  Dims dims;
  for (const Dim& dim : *type.dims) {
    const std::optional<int64_t> size =
        dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
          const auto found = sizes.find(symbol.name);
          return found == sizes.end() ? std::nullopt : std::optional<int64_t>(found->second);
        });
    check(size && *size >= 0, ErrorKind::unsupported, "size {} of input '{}' is not known",
          escape(dim.to_string()), escape(input.name()));
    dims.push_back(*size);
  }
  Tensor out(type.element, dims);
  if (type.element != ElementType::string) {
    std::memset(out.data(), 0, static_cast<size_t>(out.byte_size()));
  }
  return out;
}

}  // namespace

TuneResult tune_on_zeros(const Program& program, const CompileOptions& options, TuneOptions how) {
  const std::map<std::string, int64_t> sizes = choose_sizes(program, {}, {});
  std::vector<Box> inputs;
  for (const auto& input : program.main().parameters()) inputs.emplace_back(zeros(*input, sizes));
  how.run.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(2 * how.seconds + kGrace));
  return tune(program, options, inputs, how);
}

}  // namespace lathe
