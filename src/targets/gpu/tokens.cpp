// SPDX-License-Identifier: MIT
// Attention over KV caches: of packed tokens over pages, and over a cache for each sequence.
#include <algorithm>
#include <cmath>

#include "ir/ops.h"
#include "ops/support/gqa.h"
#include "ops/support/sequence_attention.h"
#include "ops/support/views.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kMostColumns = 256;  // of a head
constexpr int64_t kMostGroup = 16;     // query heads per key head
constexpr int64_t kMostSplits = 32;
constexpr uint32_t kAttentionThreads = 128;
constexpr int64_t kCluster = 8;  // blocks
constexpr int64_t kAligned = 8;  // elements of 16 bits that one copy moves

bool has(const Instruction& instruction, int operand) {
  return InstructionReader(instruction).has(operand);
}

ElementType element_of(const Instruction& instruction, int operand, ElementType absent) {
  return has(instruction, operand)
             ? instruction.operands()[static_cast<size_t>(operand)]->type().element
             : absent;
}

// A cache among the results has the type of all.
const Type& cache_type(const Instruction& instruction) { return instruction.results()[1].type(); }

constexpr SequenceAttentionOperands kPaged = sequence_attention_operands(true);
// Those of group_query_attention, which has no tables.
constexpr SequenceAttentionOperands kContiguous{.query = 0,
                                                .key = 1,
                                                .value = 2,
                                                .key_cache = 3,
                                                .value_cache = 4,
                                                .bounds = -1,
                                                .past = -1,
                                                .table = -1,
                                                .cos = 7,
                                                .sin = 8,
                                                .positions = 9,
                                                .sink = 11,
                                                .key_scale = 12,
                                                .value_scale = 13};
constexpr int kSeqlens = 5;
constexpr int kBias = 10;

// The tokens of all sequences one after another: [1, tokens, columns].
TensorView in_one_sequence(TensorView view) {
  if (view.rank != 3 || view.dims[0] == 1) return view;
  if (view.dims[1] == 1) view.strides[1] = view.strides[0];
  check(view.dims[1] == 1 || view.strides[0] == view.dims[1] * view.strides[1], ErrorKind::internal,
        "{} sequences of an attention do not follow each other in memory", view.dims[0]);
  view.dims[1] *= view.dims[0];
  view.dims[0] = 1;
  return view;
}

bool follows(const TensorView& view) {
  return view.rank != 3 || view.dims[0] == 1 || view.dims[1] == 1 ||
         view.strides[0] == view.dims[1] * view.strides[1];
}

class SequenceAttentionKernel : public GpuKernel {
 public:
  SequenceAttentionKernel(const GpuDevice& device, const Instruction& instruction,
                          const SequenceAttentionOperands& operands = kPaged)
      : GpuKernel(device, std::string(instruction.op().name)),
        operands_(operands),
        attributes_(InstructionReader(instruction)),
        copier_(device),
        columns_(*cache_type(instruction).dims->back().constant()),
        group_(attributes_.heads / attributes_.kv_heads) {
    for (int i = 0; i < static_cast<int>(present_.size()); ++i) present_[i] = has(instruction, i);
    const auto name = [&](int operand, ElementType absent) {
      return type_name(element_of(instruction, operand, absent));
    };
    std::string text = fmt::format(
        "typedef {} T;\ntypedef {} TA;\ntypedef {} TP;\ntypedef {} TS;\n#define D {}\n#define "
        "GROUP {}\n"
        "#define ROTATES {}\n#define INTERLEAVED {}\n#define EARLY {}\n#define BATCH {}\n",
        type_name(instruction.result()->type().element), name(operands_.cos, ElementType::f32),
        name(operands_.positions, ElementType::i64), name(operands_.sink, ElementType::f32),
        columns_, group_, attributes_.do_rotary ? 1 : 0, attributes_.interleaved ? 1 : 0,
        loads_early(instruction) ? 1 : 0, rounds_at_once());
    if (operands_.table < 0) {
      text += fmt::format("#define TL {}\n",
                          type_name(instruction.operands()[kSeqlens]->type().element));
    }
    const Numbers slopes =
        operands_.table >= 0 ? InstructionReader(instruction).numbers("slopes") : Numbers();
    if (!slopes.empty()) {
      std::string list;
      for (const double slope : slopes) {
        list += fmt::format("{}{:.9e}F", list.empty() ? "" : ", ", static_cast<float>(slope));
      }
      text += fmt::format("#define SLOPES {{{}}}\n", list);
    }
    const auto source = [&](int part, bool aligned) {
      return Source{"sequence_attention",
                    fmt::format("{}#define PART {}\n#define ALIGNED {}\n{}{}", text, part,
                                aligned ? 1 : 0, kernel_text("sequence_attention.gpu"),
                                part == 1 ? kernel_text("decode_attention.gpu") : "")};
    };
    appends_ = device.code().get(source(0, false));
    const bool aligned = columns_ % kAligned == 0;
    constexpr int64_t kMostColumnsOfFragments = 128;
    if (info(instruction.result()->type().element).bits == 16 &&
        columns_ <= kMostColumnsOfFragments && columns_ % kAligned == 0) {
      // As prompt_attention.gpu takes them.
      constexpr int64_t kWaves = 4;
      constexpr int64_t kFragment = 16;
      prompt_tokens_ = kWaves * kFragment;
      prompt_threads_ = static_cast<uint32_t>(kWaves * device.driver().limits().wave);
      const bool apart = attributes_.softcap > 0 || attributes_.scale < 0 || !slopes.empty();
      prompts_ = by_fragments(text + fmt::format("#define APART {}\n", apart ? 1 : 0), 2,
                              prompt_threads_, kWaves, "prompt_attention.gpu", Wanted::soon);
      // On AMD they spill registers.
      if (device.driver().vendor() != Vendor::hip) {
        make_for_tokens(text);
        constexpr int64_t kBatchWaves = 2;
        batch_threads_ = static_cast<uint32_t>(kBatchWaves * device.driver().limits().wave);
        batch_ = by_fragments(text, 3, batch_threads_, kBatchWaves, "batch_attention.gpu",
                              Wanted::later);
      }
    }
    few_aligned_.emplace(device, source(1, true), aligned && prompts_ == nullptr);
    few_.emplace(device, source(1, false), !aligned);
    if (aligned) few_aligned_->expect();
  }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& /*most*/) const override {
    constexpr int64_t kSector = 32;  // where the sums begin
    constexpr int64_t kPiece = 4;
    const int64_t columns = (columns_ + kPiece - 1) / kPiece * kPiece;
    const int64_t blocks = batch_ != nullptr ? wanted_batch_blocks() : wanted_blocks();
    return blocks * group_ * (columns + 2) * static_cast<int64_t>(sizeof(float)) + kSector;
  }

  void launch(const LaunchArgs& args) const override {
    for (const auto& [operand, result] :
         {std::pair(operands_.key_cache, 1), {operands_.value_cache, 2}}) {
      const TensorView& from = *args.in[static_cast<size_t>(operand)];
      const TensorView& to = *args.out[static_cast<size_t>(result)];
      if (from.data != to.data && from.count() > 0) copier_.copy(*args.stream, from, to);
    }
    const auto in = [&](int operand) { return *args.in[static_cast<size_t>(operand)]; };
    attend(args, in(operands_.bounds), in(operands_.past), in(operands_.table));
  }

 protected:
  // Over the caches among the results, which hold the past.
  void attend(const LaunchArgs& args, const TensorView& bounds, const TensorView& past,
              const TensorView& table) const {
    const int64_t heads = attributes_.heads;
    const int64_t kv_heads = attributes_.kv_heads;
    const auto in = [&](int operand) -> const TensorView& {
      return *args.in[static_cast<size_t>(operand)];
    };
    const bool packed = !present_[static_cast<size_t>(operands_.key)];
    const TensorView all =
        split_heads(in_one_sequence(in(operands_.query)), packed ? heads + 2 * kv_heads : heads);
    const TensorView q = slice_heads(all, 0, heads);
    const TensorView k = packed ? slice_heads(all, heads, kv_heads)
                                : split_heads(in_one_sequence(in(operands_.key)), kv_heads);
    const TensorView v = packed ? slice_heads(all, heads + kv_heads, kv_heads)
                                : split_heads(in_one_sequence(in(operands_.value)), kv_heads);
    const TensorView y = split_heads(in_one_sequence(*args.out[0]), heads);
    const int64_t tokens = q.dims[2];
    if (tokens == 0) return;
    Arguments arguments;
    for (const TensorView* view : {&q, &k, &v, &y}) {
      arguments.add(view->data);
      for (const size_t axis : {2, 1, 3}) arguments.add(view->strides[axis]);
    }
    for (const size_t result : {1, 2}) {
      const TensorView& cache = *args.out[result];
      arguments.add(cache.data);
      for (const size_t axis : {0, 1, 2}) arguments.add(cache.strides[axis]);
    }
    arguments.add(bounds.data);
    arguments.add(bounds.strides[0]);
    arguments.add(past.data);
    arguments.add(past.strides[0]);
    arguments.add(table.data);
    arguments.add(table.strides[0]);
    arguments.add(table.strides[1]);
    arguments.add(table.dims[1]);
    const TensorView& cache = *args.out[1];
    for (const int64_t value : {cache.dims[0], past.dims[0], tokens, kv_heads, cache.dims[2]}) {
      arguments.add(value);
    }
    add_rotation(args, arguments);
    const bool sinks = present_[static_cast<size_t>(operands_.sink)];
    arguments.add(sinks ? in(operands_.sink).data : nullptr);
    arguments.add(sinks ? in(operands_.sink).strides[0] : 0);
    arguments.add(int64_t{attributes_.smooth_softmax});
    arguments.add(attributes_.scale != 0 ? attributes_.scale
                                         : 1 / std::sqrt(static_cast<double>(columns_)));
    arguments.add(attributes_.softcap);
    arguments.add(std::max<int64_t>(attributes_.window, 0));
    // Long sequences of few tokens are split over more blocks.
    const int64_t positions = table.dims[1] * cache.dims[2];
    constexpr int64_t kLeastPositions = 64;  // of a tile
    // Where each sequence has about one token, the blocks that read new keys append them.
    const bool appends = tokens <= 2 * past.dims[0];
    const bool batch = appends && takes_batch(tokens * kv_heads, *args.out[1], *args.out[2]);
    const int64_t wanted = batch ? wanted_batch_blocks() : wanted_blocks();
    int64_t splits = std::clamp<int64_t>(
        std::min(wanted / (tokens * kv_heads), (positions + kLeastPositions - 1) / kLeastPositions),
        1, kMostSplits);
    const TensorView* const heads_of[] = {&q, &k, &v, &y};
    const auto lies_aligned = [](const TensorView* view) { return is_aligned(*view); };
    const bool aligned = std::ranges::all_of(heads_of, lies_aligned) && is_aligned(*args.out[1]) &&
                         is_aligned(*args.out[2]) && has_aligned_angles(args);
    const bool alone = appends && !batch && aligned && token_ != nullptr;
    // A block that has a second tile waits for it longer than more blocks for the merge by memory.
    const bool in_cluster = alone && splits > 1 && token_in_cluster_ != nullptr &&
                            positions <= kCluster * kLeastPositions;
    if (in_cluster) splits = kCluster;
    arguments.add(splits);
    // More tokens than this are not split, and count no blocks.
    auto* stream = static_cast<GpuStream*>(args.stream);
    arguments.add(splits > 1 ? stream->counters(wanted_blocks()) : nullptr);
    arguments.add(args.workspace);
    arguments.add(int64_t{appends});
    const bool early = appends && stream->latest() == GpuStream::Latest::product;
    arguments.add(int64_t{early});
    const auto grid = [](int64_t x, int64_t y_extent, int64_t z) {
      return std::array<uint32_t, 3>{static_cast<uint32_t>(x), static_cast<uint32_t>(y_extent),
                                     static_cast<uint32_t>(z)};
    };
    if (!appends) {
      const int64_t pieces = columns_ % kAligned == 0 ? columns_ / kAligned : kAttentionThreads;
      enqueue(*appends_, args, arguments,
              {blocks_for(tokens * kv_heads * pieces, kAttentionThreads), 1, 1}, kAttentionThreads);
    }
    if (!appends && takes_fragments(tokens, *args.out[1], *args.out[2])) {
      enqueue(*prompts_, args, arguments,
              grid(heads, (tokens + prompt_tokens_ - 1) / prompt_tokens_, 1), prompt_threads_);
      return;
    }
    if (batch) {
      enqueue(*batch_, args, arguments, grid(tokens, kv_heads, splits), batch_threads_);
      return;
    }
    if (alone) {
      enqueue(in_cluster ? *token_in_cluster_ : *token_, args, arguments,
              grid(tokens, kv_heads, splits), token_threads_, Overlap::launch);
      return;
    }
    enqueue((aligned ? few_aligned_ : few_)->get(), args, arguments, grid(tokens, kv_heads, splits),
            kAttentionThreads, Overlap::launch);
  }

 private:
  // Rows of columns that are neighbours lie at multiples of 16 bytes.
  static bool is_aligned(const TensorView& view) {
    constexpr int64_t kBytes = 16;
    const int64_t element = info(view.type).bits / 8;
    const auto last = static_cast<size_t>(view.rank - 1);
    return reinterpret_cast<uintptr_t>(view.data) % kBytes == 0 &&
           view.dims[last] % kAligned == 0 && view.strides[last] == 1 &&
           std::ranges::all_of(std::span(view.strides).first(last),
                               [&](int64_t stride) { return stride * element % kBytes == 0; });
  }
  bool has_aligned_angles(const LaunchArgs& args) const {
    if (!attributes_.do_rotary) return true;
    return std::ranges::all_of(std::array{operands_.cos, operands_.sin}, [&](int operand) {
      return !present_[static_cast<size_t>(operand)] ||
             is_aligned(*args.in[static_cast<size_t>(operand)]);
    });
  }
  // Where each sequence has its own keys, fragments would be nearly empty.
  bool takes_fragments(int64_t tokens, const TensorView& keys, const TensorView& values) const {
    constexpr int64_t kLeastTokens = 32;
    return prompts_ != nullptr && tokens >= kLeastTokens && is_aligned(keys) && is_aligned(values);
  }
  // Enough that waves wait for memory alone, each of its own positions.
  bool takes_batch(int64_t blocks, const TensorView& keys, const TensorView& values) const {
    return batch_ != nullptr && blocks >= device_.driver().limits().multiprocessors &&
           is_aligned(keys) && is_aligned(values);
  }
  int64_t wanted_batch_blocks() const {
    return int64_t{4} * device_.driver().limits().multiprocessors;  // at least wanted_blocks()
  }
  // As many as run at once, by their registers.
  int64_t wanted_blocks() const { return int64_t{2} * device_.driver().limits().multiprocessors; }
  int64_t rounds_at_once() const {
    constexpr int64_t kGroup = 4;
    constexpr int64_t kColumns = 128;
    constexpr int64_t kRounds = 4;  // as sequence_attention.gpu has them
    return group_ > kGroup && columns_ > kColumns ? 1 : kRounds;
  }
  // Where registers suffice.
  bool loads_early(const Instruction& instruction) const {
    constexpr int64_t kGroup = 8;
    constexpr int64_t kColumns = 128;
    return info(instruction.result()->type().element).bits == 16 && group_ <= kGroup &&
           columns_ <= kColumns;
  }

  std::shared_ptr<const Code> by_fragments(const std::string& text, int part, uint32_t threads,
                                           int64_t waves, const char* kernel, Wanted wanted) const {
    return device_.code().get(
        {"sequence_attention",
         fmt::format("{}#define PART {}\n#define THREADS {}\n#define WAVES {}\n{}{}{}", text, part,
                     threads, waves, kernel_text("fragments.gpu"),
                     kernel_text("sequence_attention.gpu"), kernel_text(kernel))},
        wanted);
  }
  void make_for_tokens(const std::string& text) {
    constexpr int64_t kMost = 8;  // the other half of a fragment corrects their weights
    if (group_ > kMost || (attributes_.do_rotary && attributes_.interleaved)) return;
    constexpr int64_t kWaves = 4;
    token_threads_ = static_cast<uint32_t>(kWaves * device_.driver().limits().wave);
    const bool sinks = present_[static_cast<size_t>(operands_.sink)] || attributes_.smooth_softmax;
    const auto for_blocks = [&](int64_t cluster) {
      return by_fragments(
          fmt::format("{}#define SOFTCAP {}\n#define WINDOW {}\n#define SINKS {}\n"
                      "#define CLUSTER {}\n{}",
                      text, attributes_.softcap > 0 ? 1 : 0, attributes_.window > 0 ? 1 : 0,
                      sinks ? 1 : 0, cluster, cluster > 1 ? kernel_text("cluster.gpu") : ""),
          4, token_threads_, kWaves, "token_attention.gpu", Wanted::later);
    };
    token_ = for_blocks(1);
    if (device_.driver().limits().cluster >= kCluster) token_in_cluster_ = for_blocks(kCluster);
  }

  void add_rotation(const LaunchArgs& args, Arguments& arguments) const {
    const auto in = [&](int operand) -> const TensorView* {
      return present_[static_cast<size_t>(operand)] ? args.in[static_cast<size_t>(operand)]
                                                    : nullptr;
    };
    const TensorView* cosines = in(operands_.cos);
    const TensorView* sines = in(operands_.sin);
    const bool rotates = attributes_.do_rotary && cosines != nullptr && sines != nullptr;
    check(!rotates || (cosines->is_dense() && sines->is_dense()), ErrorKind::unsupported,
          "{}: cos and sin are not dense", name_);
    const int64_t half = rotates ? cosines->dims[static_cast<size_t>(cosines->rank - 1)] : 0;
    arguments.add(rotates ? cosines->data : nullptr);
    arguments.add(rotates ? sines->data : nullptr);
    arguments.add(half);
    arguments.add(half == 0 ? 0 : cosines->count() / half);
    const TensorView* positions = in(operands_.positions);
    arguments.add(positions != nullptr ? positions->data : nullptr);
    arguments.add(
        positions != nullptr ? positions->strides[static_cast<size_t>(positions->rank - 1)] : 0);
  }

  SequenceAttentionOperands operands_;
  GqaAttributes attributes_;

 protected:
  ElementCopier copier_;
  std::array<bool, 14> present_{};

 private:
  int64_t columns_;
  int64_t group_;
  std::shared_ptr<const Code> appends_;
  std::optional<LazyCode> few_aligned_;  // attention of few tokens whose rows are aligned, or not
  std::optional<LazyCode> few_;
  std::shared_ptr<const Code> token_;             // of single tokens by fragments; null: none
  std::shared_ptr<const Code> token_in_cluster_;  // likewise, of blocks that share memory
  uint32_t token_threads_ = 0;
  std::shared_ptr<const Code> prompts_;  // by fragments; null: none
  uint32_t prompt_threads_ = 0;
  std::shared_ptr<const Code> batch_;  // of a token of each of many sequences, likewise
  uint32_t batch_threads_ = 0;
  int64_t prompt_tokens_ = 0;  // of a block
};

// Attention over a cache of one page for each sequence.
class GroupQueryKernel final : public SequenceAttentionKernel {
 public:
  GroupQueryKernel(const GpuDevice& device, const Instruction& instruction)
      : SequenceAttentionKernel(device, instruction, kContiguous) {}
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    int64_t bytes = begin_of_copies(most);
    for (const int operand : kOneByOne) {
      if (!present_[static_cast<size_t>(operand)]) continue;
      const TensorView& view = *most.in[static_cast<size_t>(operand)];
      if (!view.is_dense()) bytes += room_of(view);
    }
    return bytes;
  }
  void launch(const LaunchArgs& given) const override {
    check_extents(given);
    // Copies of operands whose sequences do not follow each other in memory.
    std::vector<const TensorView*> operands(given.in.begin(), given.in.end());
    std::array<TensorView, kOneByOne.size()> copies;
    auto* place = static_cast<std::byte*>(given.workspace) + begin_of_copies(given);
    for (size_t i = 0; i < kOneByOne.size(); ++i) {
      const auto operand = static_cast<size_t>(kOneByOne[i]);
      if (!present_[operand] || given.in[operand]->is_dense()) continue;
      const TensorView& from = *given.in[operand];
      if (from.rank == 3 && follows(from)) continue;
      copies[i] = dense_view(from.type, from.extents(), place);
      place += room_of(from);
      copier_.copy(*given.stream, from, copies[i]);
      operands[operand] = &copies[i];
    }
    LaunchArgs args = given;
    args.in = operands;
    for (const auto& [operand, result] :
         {std::pair(kContiguous.key_cache, 1), {kContiguous.value_cache, 2}}) {
      if (!present_[static_cast<size_t>(operand)]) continue;
      const TensorView& from = *args.in[static_cast<size_t>(operand)];
      const TensorView& to = *args.out[static_cast<size_t>(result)];
      if (from.data == to.data || from.count() == 0) continue;
      copier_.copy(*args.stream, from, narrow(to, 2, 0, from.dims[2]));
    }
    const TensorView& seqlens = *args.in[kSeqlens];
    const int64_t sequences = seqlens.count();
    if (sequences == 0 || args.out[0]->count() == 0) return;
    // As sequence_attention.gpu takes them without tables.
    TensorView bounds;
    bounds.strides[0] = args.in[0]->dims[1];
    TensorView lengths = seqlens;  // dense, of any rank
    lengths.dims[0] = sequences;
    lengths.strides[0] = 1;
    TensorView table;
    table.data = static_cast<GpuStream*>(args.stream)->report();
    table.dims[1] = 1;
    attend(args, bounds, lengths, table);
  }

 private:
  static constexpr int64_t kSector = 32;
  static constexpr std::array kOneByOne{kContiguous.query, kContiguous.key, kContiguous.value,
                                        kContiguous.positions, kSeqlens};
  static int64_t rounded(int64_t bytes) { return (bytes + kSector - 1) / kSector * kSector; }
  static int64_t room_of(const TensorView& view) {
    return rounded(bytes_for(view.type, view.count()));
  }
  int64_t begin_of_copies(const LaunchArgs& args) const {
    return rounded(SequenceAttentionKernel::workspace_bytes(args));
  }
  // Checks the dims that bound memory accesses: inference may not have them.
  void check_extents(const LaunchArgs& args) const {
    const auto in = [&](int operand) -> const TensorView& {
      return *args.in[static_cast<size_t>(operand)];
    };
    const auto has = [&](int operand) { return present_[static_cast<size_t>(operand)]; };
    const auto demand = [&](bool fits, std::string_view what) {
      check(fits, ErrorKind::invalid_argument, "{}: {} does not fit the query's batch of {}", name_,
            what, in(kContiguous.query).dims[0]);
    };
    const TensorView& query = in(kContiguous.query);
    demand(in(kSeqlens).count() == query.dims[0], "seqlens_k");
    for (const int operand : {kContiguous.key, kContiguous.value}) {
      if (!has(operand)) continue;
      demand(in(operand).dims[0] == query.dims[0] && in(operand).dims[1] == query.dims[1],
             operand == kContiguous.key ? "key" : "value");
    }
    for (const int operand : {kContiguous.key_cache, kContiguous.value_cache}) {
      if (!has(operand)) continue;
      const TensorView& present = *args.out[operand == kContiguous.key_cache ? 1 : 2];
      const TensorView& past = in(operand);
      demand(past.rank == 4 && past.dims[0] == present.dims[0] && past.dims[1] == present.dims[1] &&
                 past.dims[2] <= present.dims[2] && past.dims[3] == present.dims[3],
             operand == kContiguous.key_cache ? "past_key" : "past_value");
    }
    if (has(kContiguous.positions)) {
      demand(in(kContiguous.positions).count() == query.dims[0] * query.dims[1], "position_ids");
    }
    if (has(kContiguous.cos) && has(kContiguous.sin)) {
      const TensorView& cos = in(kContiguous.cos);
      demand(std::ranges::equal(cos.extents(), in(kContiguous.sin).extents()) &&
                 2 * cos.dims[static_cast<size_t>(cos.rank - 1)] <= args.out[1]->dims[3],
             "cos_cache or sin_cache");
    }
  }
};

std::string why_no_attention_over_caches(const Instruction& instruction,
                                         const SequenceAttentionOperands& operands) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const GqaAttributes attributes{InstructionReader(instruction)};
  const Type& cache = cache_type(instruction);
  const ElementType type = instruction.result()->type().element;
  if (type == ElementType::f64) return "f64";
  if (has(instruction, operands.key_scale) || cache.element != type)
    return "its cache is quantised";
  const std::optional<int64_t> columns = cache.dims->back().constant();
  if (!columns || *columns < 1 || *columns > kMostColumns) return "the size of its heads";
  if (attributes.heads / attributes.kv_heads > kMostGroup) return "too many heads share a key";
  const auto element = [&](int operand) { return element_of(instruction, operand, type); };
  if (element(operands.cos) != element(operands.sin)) return "cos and sin have two types";
  for (const int operand : {operands.query, operands.key, operands.value}) {
    if (element(operand) != type) return "operands have several types";
  }
  return "";
}

std::string why_no_sequence_attention(const Instruction& instruction) {
  return why_no_attention_over_caches(instruction, kPaged);
}

std::string why_no_group_query_attention(const Instruction& instruction) {
  std::string reason = why_no_attention_over_caches(instruction, kContiguous);
  if (!reason.empty()) return reason;
  const GroupQueryAttributes attributes{InstructionReader(instruction)};
  if (attributes.sliding) return "its cache slides";
  if (!attributes.causal) return "it is not causal";
  if (attributes.qk_output != 0) return "it returns scores";
  if (has(instruction, kBias)) return "its scores have a bias";
  const auto dims = [&](int operand) {
    return instruction.operands()[static_cast<size_t>(operand)]->type().dims;
  };
  if (has(instruction, kContiguous.key) &&
      !((*dims(kContiguous.key))[1] == (*dims(kContiguous.query))[1])) {
    return "its keys may be in the past";
  }
  return "";
}

KernelChoice make_sequence_attention(const GpuDevice& device, const Instruction& instruction,
                                     Constants) {
  return {std::make_unique<SequenceAttentionKernel>(device, instruction), ""};
}

KernelChoice make_group_query_attention(const GpuDevice& device, const Instruction& instruction,
                                        Constants) {
  return {std::make_unique<GroupQueryKernel>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kTokens[];
extern const size_t kTokenCount;
const KernelEntry kTokens[] = {
    {ops::sequence_attention, why_no_sequence_attention, make_sequence_attention},
    {ops::group_query_attention, why_no_group_query_attention, make_group_query_attention},
};
const size_t kTokenCount = std::size(kTokens);

}  // namespace lathe::gpu
