// SPDX-License-Identifier: MIT
// Inverses of the CPU's packings, for compiled files.
#include "import/compiled/stored_form.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "targets/cpu/kernels/gemm/half_panels.h"
#include "targets/cpu/kernels/gemm/pack.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "tensor/float_formats.h"

namespace lathe::cpu {
namespace {

// Reads a packing id piece by piece.
class IdReader {
 public:
  explicit IdReader(std::string_view id) : rest_(id) {}
  bool accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // At most 2^28: sizes multiplied with each other do not overflow.
  std::optional<int64_t> number() {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (status != std::errc() || value < 0 || value > int64_t{1} << 28) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  // Up to a space, a comma or the end.
  std::string_view word() {
    const std::string_view found = rest_.substr(0, rest_.find_first_of(" ,"));
    rest_.remove_prefix(found.size());
    return found;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Writes elements of `size` bytes, [k, n], to [n, k] if the source is transposed.
void store_matrix(const std::vector<char>& rows, int64_t k, int64_t n, size_t size, bool transposed,
                  char* out) {
  if (!transposed) {
    std::memcpy(out, rows.data(), rows.size());
    return;
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      std::memcpy(out + static_cast<size_t>(j * k + i) * size,
                  rows.data() + static_cast<size_t>(i * n + j) * size, size);
    }
  }
}

// Converts unpacked f32 and i8 elements to those of the source; false if the packing rounded them.
bool to_source_type(GemmType gemm, ElementType type, std::vector<char>& rows) {
  if (has_integer_sums(gemm)) {
    if (type == ElementType::u8) {
      for (char& x : rows) x = static_cast<char>(x ^ 0x80);
    }
    return type == ElementType::u8 || type == ElementType::i8;
  }
  if (gemm == GemmType::bf16) return type == ElementType::bf16;
  if (type == ElementType::f32) return true;
  if (type != ElementType::f16 && type != ElementType::bf16) return false;
  std::vector<char> out(rows.size() / 2);
  for (size_t i = 0; i < rows.size() / 4; ++i) {
    float x = 0;
    std::memcpy(&x, rows.data() + 4 * i, 4);
    const uint16_t half = type == ElementType::f16 ? float_to_half(x) : float_to_bf16(x);
    std::memcpy(out.data() + 2 * i, &half, 2);
  }
  rows = std::move(out);
  return true;
}

// Sources as [k, n], one beside the other, and the columns of one of them.
struct Beside {
  int64_t k = 0, n = 0;
  int64_t first = 0, columns = 0;
};
std::optional<Beside> beside(std::span<const PackedSource> sources, bool transposed, size_t index) {
  constexpr int64_t kMost = int64_t{1} << 40;
  Beside sizes;
  for (size_t i = 0; i < sources.size(); ++i) {
    const PackedSource& source = sources[i];
    if (source.type != sources[0].type || source.dims.empty() || source.dims.size() > 2) {
      return std::nullopt;
    }
    int64_t rows = source.dims[0], columns = source.dims.size() == 2 ? source.dims[1] : 1;
    if (transposed) std::swap(rows, columns);
    if ((i > 0 && rows != sizes.k) || columns > kMost - sizes.n) return std::nullopt;
    sizes.k = rows;
    if (i == index) {
      sizes.first = sizes.n;
      sizes.columns = columns;
    }
    sizes.n += columns;
  }
  return sizes;
}

// The columns of one source, `size` bytes each element.
std::vector<char> columns_of(const std::vector<char>& rows, const Beside& sizes, size_t size) {
  const auto bytes = static_cast<size_t>(sizes.columns) * size;
  std::vector<char> columns(static_cast<size_t>(sizes.k) * bytes);
  for (int64_t i = 0; i < sizes.k; ++i) {
    std::memcpy(columns.data() + static_cast<size_t>(i) * bytes,
                rows.data() + static_cast<size_t>(i * sizes.n + sizes.first) * size, bytes);
  }
  return columns;
}

// "panels48x1-f32 transposed", "panels32x1-f32 interleaved, held as bf16", without "interleaved"
// in earlier files, ", joined" of several sources: PackedMatrix.
bool unpack_matrix(const std::string& id, std::span<const PackedSource> sources, size_t index,
                   std::span<const std::byte> packed, void* out) {
  IdReader reader(id);
  if (!reader.accept("panels") || sources.empty()) return false;
  const auto columns = reader.number();
  if (!columns || !reader.accept("x")) return false;
  const auto group = reader.number();
  if (!group || !reader.accept("-")) return false;
  const std::string_view name = reader.word();
  const PackedSource& source = sources[0];
  const bool grouped = name == "f32" && reader.accept(" interleaved");
  const bool half = name == "f32" && reader.accept(", held as ");
  if (half && !reader.accept(to_string(source.type))) return false;
  const bool transposed = reader.accept(" transposed");
  const bool joined = reader.accept(", joined");
  const GemmType gemm = name == "f32"    ? GemmType::f32
                        : name == "bf16" ? GemmType::bf16
                                         : GemmType::u8s8;
  const bool known = reader.at_end() && grouped <= half &&
                     (!half || info(source.type).bits == 16) && joined == (sources.size() > 1) &&
                     joined <= grouped && (name == "f32" || name == "bf16" || name == "i8") &&
                     *columns > 0 && *columns <= 64 && *group == 4 / a_size(gemm);
  const std::optional<Beside> sizes = beside(sources, transposed, index);
  if (!known || !sizes || index >= sources.size()) return false;
  const int64_t k = sizes->k, n = sizes->n;
  BrgemmKernel kernel;
  kernel.panel_columns = static_cast<int>(*columns);
  kernel.k_group = static_cast<int>(*group);
  const PackedLayout layout =
      half ? half_panels_layout(kernel, k, n) : packed_layout(kernel, gemm, k, n);
  if (layout.bytes != static_cast<int64_t>(packed.size())) return false;
  const auto size = static_cast<size_t>(half ? 2 : a_size(gemm));
  std::vector<char> rows(static_cast<size_t>(k * n) * size);
  if (half) {
    unpack_half_panels(kernel, k, n, grouped, packed.data(), rows.data());
  } else {
    unpack_b(kernel, gemm, k, n, packed.data(), rows.data());
    if (!to_source_type(gemm, source.type, rows)) return false;
  }
  const size_t bytes = rows.size() / static_cast<size_t>(std::max<int64_t>(k * n, 1));
  if (joined) rows = columns_of(rows, *sizes, bytes);
  store_matrix(rows, k, sizes->columns, bytes, transposed, static_cast<char*>(out));
  return true;
}

std::optional<WeightOnlyProblem> read_weight_only(const std::string& id) {
  WeightOnlyProblem p;
  IdReader reader(id);
  if (!reader.accept("weight-only 2: cells in panels of 16, ")) return std::nullopt;
  const auto k = reader.number();
  if (!k || !reader.accept(" by ")) return std::nullopt;
  const auto n = reader.number();
  if (!n || !reader.accept(", ")) return std::nullopt;
  const auto bits = reader.number();
  if (!bits || !reader.accept(" bits, block ")) return std::nullopt;
  const auto block = reader.number();
  if (!block || !reader.accept(", scales ")) return std::nullopt;
  const auto scale = element_type_from_name(reader.word());
  if (!scale || !reader.accept(", zeros ")) return std::nullopt;
  const std::string_view zeros = reader.word();
  const auto zero = element_type_from_name(zeros);
  if (!reader.at_end() || (!zero && zeros != "none")) return std::nullopt;
  p.k = *k;
  p.n = *n;
  p.bits = static_cast<int>(std::min<int64_t>(*bits, 64));
  p.block = *block;
  p.scale_type = *scale;
  p.zero_type = zero;
  const bool sizes = p.k > 0 && p.n > 0 && p.block >= 16 && p.block <= 1 << 20;
  return sizes && weight_only_refusal(p).empty() ? std::optional(p) : std::nullopt;
}

// Codes, scales, zero points (or absent), groups (absent).
bool unpack_codes(const std::string& id, std::span<const PackedSource> sources, size_t index,
                  std::span<const std::byte> packed, void* out) {
  const std::optional<WeightOnlyProblem> problem = read_weight_only(id);
  if (!problem || sources.size() != 4 || sources[3].present || index > 2) return false;
  const WeightOnlyLayout layout = weight_only_layout(*problem);
  if (layout.bytes != static_cast<int64_t>(packed.size())) return false;
  // The sizes that unpacking writes.
  const int64_t blocks = (problem->k + problem->block - 1) / problem->block;
  const int64_t code_bytes = problem->n * blocks * ((problem->block * problem->bits + 7) / 8);
  const int64_t scale_bytes = problem->n * blocks * info(problem->scale_type).bits / 8;
  int64_t zero_bytes = 0;
  if (problem->zero_type) {
    zero_bytes = *problem->zero_type == ElementType::u8
                     ? problem->n * ((blocks * problem->bits + 7) / 8)
                     : problem->n * blocks * info(*problem->zero_type).bits / 8;
  }
  const int64_t expected[] = {code_bytes, scale_bytes, zero_bytes};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t bytes =
        sources[i].present ? bytes_for(sources[i].type, element_count(sources[i].dims)) : 0;
    if (bytes != expected[i]) return false;
  }
  std::vector<uint8_t> parts[3];
  for (size_t i = 0; i < 3; ++i) parts[i].resize(static_cast<size_t>(expected[i]));
  unpack_weight_only(*problem, layout, packed.data(), {}, parts[0].data(), parts[1].data(),
                     parts[2].data());
  std::memcpy(out, parts[index].data(), parts[index].size());
  return true;
}

// What DirectConvolution::packing_id() states of weights [outputs, channels, kernel…].
struct StoredConvolution {
  ElementType type = ElementType::f32;
  int64_t outputs = 0, channels = 0, taps = 1, groups = 0;  // channels of a group
  int64_t columns = 0, k_group = 0, block = 0;              // of panels; elements of k in a block
};

std::optional<StoredConvolution> read_convolution(const std::string& id) {
  StoredConvolution c;
  IdReader reader(id);
  if (!reader.accept("conv ")) return std::nullopt;
  const auto type = element_type_from_name(reader.word());
  if (!type || !reader.accept(" ")) return std::nullopt;
  c.type = *type;
  // Up to here, the separator before each number.
  const auto numbers = [&](std::initializer_list<std::pair<std::string_view, int64_t*>> list) {
    for (const auto& [before, to] : list) {
      if (!reader.accept(before)) return false;
      const std::optional<int64_t> number = reader.number();
      if (!number) return false;
      *to = *number;
    }
    return true;
  };
  int64_t depth = 0, height = 0, width = 0;
  const bool all = numbers({{"", &c.outputs},
                            {"x", &c.channels},
                            {"x", &depth},
                            {"x", &height},
                            {"x", &width},
                            {" in ", &c.groups},
                            {" groups, panels of ", &c.columns},
                            {" by ", &c.k_group},
                            {", blocks of ", &c.block}});
  constexpr int64_t kMostTaps = 1 << 16;
  if (!all || !reader.at_end() || depth > 256 || height > 256 || width > 256) return std::nullopt;
  c.taps = depth * height * width;
  const bool valid = c.outputs > 0 && c.channels > 0 && c.taps > 0 && c.taps <= kMostTaps &&
                     c.groups > 0 && c.outputs % c.groups == 0 && c.columns > 0 &&
                     c.columns <= 64 && (c.k_group == 1 || c.k_group == 2 || c.k_group == 4) &&
                     c.block >= c.channels;
  return valid ? std::optional(c) : std::nullopt;
}

// Calls f(element of the weights, packed element) for all of them; false if `packed` is smaller.
template <class F>
bool each_packed_weight(const StoredConvolution& c, size_t packed_elements, F&& f) {
  const int64_t outputs = c.outputs / c.groups;
  const int64_t taps = std::min(c.block / c.channels, c.taps);  // of a block
  const int64_t blocks = (c.taps + taps - 1) / taps;
  const int64_t panels = (outputs + c.columns - 1) / c.columns;
  const int64_t block = (c.block + c.k_group - 1) / c.k_group * c.k_group * c.columns;
  const double all = static_cast<double>(c.groups * panels) * static_cast<double>(blocks * block);
  if (all > static_cast<double>(packed_elements)) return false;
  for (int64_t output = 0; output < c.outputs; ++output) {
    const int64_t group = output / outputs, column = output % outputs;
    const int64_t panel = (group * panels + column / c.columns) * blocks * block;
    for (int64_t tap = 0; tap < c.taps; ++tap) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        const int64_t k = tap % taps * c.channels + channel;
        f((output * c.channels + channel) * c.taps + tap,
          panel + tap / taps * block + k / c.k_group * c.k_group * c.columns +
              column % c.columns * c.k_group + k % c.k_group);
      }
    }
  }
  return true;
}

bool has_weights(const PackedSource& source, int64_t count) {
  return source.present && element_count(source.dims) == count;
}

// "conv f32 64x3x1x3x3 in 1 groups, …": DirectConvolution, not transposed. Zero points are not
// restored.
bool unpack_convolution(const std::string& id, std::span<const PackedSource> sources, size_t index,
                        std::span<const std::byte> packed, void* out) {
  const std::optional<StoredConvolution> c = read_convolution(id);
  if (!c || index != 0 || sources.empty()) return false;
  const int64_t size = 4 / c->k_group;
  const PackedSource& source = sources[0];
  const bool floats = size > 1;
  const bool fits = floats ? source.type == (size == 4 ? ElementType::f32 : ElementType::bf16)
                           : source.type == ElementType::u8 || source.type == ElementType::i8;
  if (!fits || c->outputs > (int64_t{1} << 40) / (c->channels * c->taps) ||
      !has_weights(source, c->outputs * c->channels * c->taps)) {
    return false;
  }
  auto* to = static_cast<char*>(out);
  const auto* from = reinterpret_cast<const char*>(packed.data());
  const char flip = source.type == ElementType::u8 ? static_cast<char>(0x80) : '\0';
  return each_packed_weight(
      *c, packed.size() / static_cast<size_t>(size), [&](int64_t element, int64_t at) {
        if (floats) {
          std::memcpy(to + element * size, from + at * size, static_cast<size_t>(size));
        } else {
          to[element] = static_cast<char>(from[at] ^ flip);
        }
      });
}

// "depthwise 9 taps of 64": f32 weights [channels, 1, kernel…] as [tap][channel].
bool unpack_depthwise(const std::string& id, std::span<const PackedSource> sources, size_t index,
                      std::span<const std::byte> packed, void* out) {
  IdReader reader(id);
  if (!reader.accept("depthwise ") || index != 0 || sources.empty()) return false;
  const auto taps = reader.number();
  if (!taps || !reader.accept(" taps of ")) return false;
  const auto pitch = reader.number();
  const PackedSource& source = sources[0];
  if (!pitch || !reader.at_end() || *taps == 0 || source.type != ElementType::f32 ||
      source.dims.empty() || source.dims[0] > *pitch ||
      !has_weights(source, source.dims[0] * *taps) ||
      packed.size() != static_cast<size_t>(*taps * *pitch) * sizeof(float)) {
    return false;
  }
  const auto* from = reinterpret_cast<const float*>(packed.data());
  for (int64_t c = 0; c < source.dims[0]; ++c) {
    for (int64_t tap = 0; tap < *taps; ++tap) {
      static_cast<float*>(out)[c * *taps + tap] = from[tap * *pitch + c];
    }
  }
  return true;
}

const UnpackRegistration kConvolution{unpack_convolution};
const UnpackRegistration kDepthwise{unpack_depthwise};
const UnpackRegistration kMatrix{unpack_matrix};
const UnpackRegistration kCodes{unpack_codes};

}  // namespace
}  // namespace lathe::cpu
