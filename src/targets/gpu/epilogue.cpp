// SPDX-License-Identifier: MIT
#include "targets/gpu/epilogue.h"

#include <algorithm>

#include "targets/gpu/expression.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kPieceBytes = 16;

bool is_small_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

// The types of the result, the sides and the twin's value.
std::vector<ElementType> types_of(const Anchor& whole) {
  std::vector<ElementType> types{whole.type().element};
  for (size_t i = 0; i < whole.sides().size(); ++i) {
    types.push_back(whole.side_type(static_cast<int>(i)).element);
  }
  if (whole.twin() != nullptr) types.push_back(whole.type().element);
  return types;
}

Source source_of(const Anchor& whole, const std::string& first) {
  const std::vector<ElementType> types = types_of(whole);
  std::string loads;
  for (size_t i = 1; i < types.size(); ++i) {
    loads += fmt::format(" load_value<{}>(a.value[{}], row, column, values.of[{}]);",
                         type_name(types[i]), i - 1, i - 1);
  }
  const size_t values = std::max<size_t>(types.size() - 1, 1);
  return {"epilogue_of_rows",
          fmt::format("typedef {} TY;\n#define VALUES {}\n#define TWIN {}\n#define LOAD_VALUES{}\n",
                      type_name(types[0]), values, whole.twin() != nullptr ? 1 : 0, loads) +
              whole.kernel_with("epilogue.gpu", whole.epilogue_text("float", first))};
}

struct Strides {
  int64_t row = 0;
  int64_t column = 0;
};

// The strides of rows of all columns, those of every batch; nullopt where there are none.
std::optional<Strides> strides_of(const Problem& problem, const Place& place) {
  const std::optional<int64_t> row = row_stride(problem, place);
  if (!row) return std::nullopt;
  if (problem.batches == 1) return Strides{*row, place.column};
  if (problem.batch_rank != 1) return std::nullopt;
  if (problem.n == 1) return Strides{*row, place.batch[0]};
  if (place.batch[0] != problem.n * place.column) return std::nullopt;
  return Strides{*row, place.column};
}

}  // namespace

RowsEpilogue::RowsEpilogue(const GpuDevice& device, const Anchor& whole, const std::string& first,
                           bool now)
    : code_(device, source_of(whole, first), now) {
  for (const ElementType type : types_of(whole)) bytes_.push_back(info(type).bits / 8);
}

bool RowsEpilogue::computes(const Anchor& whole) {
  return std::ranges::all_of(types_of(whole), is_small_float);
}

std::optional<RowsEpilogue::Setup> RowsEpilogue::setup(const Problem& problem,
                                                       std::span<const Place> places) const {
  const int64_t per = kPieceBytes / bytes_[0];
  const int64_t columns = problem.n * problem.batches;
  Setup out;
  out.pieces = problem.m * columns / per;
  if (columns % per != 0 || out.pieces > std::numeric_limits<int32_t>::max()) return std::nullopt;
  out.arguments.add(problem.m);
  out.arguments.add(columns / per);
  for (size_t i = 0; i < places.size(); ++i) {
    const std::optional<Strides> strides = strides_of(problem, places[i]);
    if (!strides || (strides->column != 1 && (i == 0 || strides->column != 0))) return std::nullopt;
    const int64_t alignment =
        strides->column == 0 ? bytes_[i] : std::min(kPieceBytes, per * bytes_[i]);
    if (reinterpret_cast<uintptr_t>(places[i].data) % static_cast<uintptr_t>(alignment) != 0 ||
        strides->row * bytes_[i] % alignment != 0) {
      return std::nullopt;
    }
    out.arguments.add(places[i].data);
    out.arguments.add(strides->row);
    if (i > 0) out.arguments.add(strides->column);
  }
  if (places.size() == 1) out.arguments.add({}, 3);  // a kernel has one value at least
  return out;
}

}  // namespace lathe::gpu
