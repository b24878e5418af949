# SPDX-License-Identifier: MIT
"""Faults of the GPU target, in device code and around it, for run.py; tests run on gpu:host."""

KERNELS = "src/targets/gpu/kernels/"


def rows(*ops):
    return ":".join(f"*GpuRows*/{op}" for op in ops)


# Name, file, text, wrong text, tests of gpu_tests.
GPU_FAULTS = [
    ("a block's fold goes on without a barrier", KERNELS + "prelude.gpu",
     "      place[self] = folded;\n    }\n    barrier();\n", "      place[self] = folded;\n    }\n",
     rows("softmax")),
    ("a tile is overwritten while it is read", KERNELS + "gemm.gpu",
     "sums[i][j] = fused(x[i], w[j], sums[i][j]);\n      }\n    }\n    barrier();\n",
     "sums[i][j] = fused(x[i], w[j], sums[i][j]);\n      }\n    }\n", "GpuProducts*"),
    ("a tile's tail holds what lies behind the matrix", KERNELS + "gemm.gpu",
     "const bool inside = first_row + r < a.m && depth + d < end;",
     "const bool inside = first_row + r < a.m;", "GpuProducts*"),
    ("waves have 32 threads, whatever their width", KERNELS + "attention_fragments.gpu",
     "const u32 wave = thread_index() / (THREADS / WAVES);", "const u32 wave = thread_index() / 32;",
     "GpuAttention*"),
    ("a stage is read before all have written it", KERNELS + "n_bits.gpu",
     "        load_stage(x, rows, (i64)first * TILE, tiles);\n#endif\n        barrier();\n",
     "        load_stage(x, rows, (i64)first * TILE, tiles);\n#endif\n", "GpuNBits*"),
    ("every position lies in its sequence's first page", KERNELS + "sequence_attention.gpu",
     "sequence * a.table_sequence + column * a.table_column", "sequence * a.table_sequence",
     rows("sequence_attention")),
    ("the key behind the last is attended", KERNELS + "decode_attention.gpu",
     "first + share < at + 1 ? first + share : at + 1;", "first + share < at + 2 ? first + share : at + 2;",
     rows("sequence_attention")),
    ("parts of a sequence are merged by their sums alone", KERNELS + "decode_attention.gpu",
     "value.of[c] = fused(factor, values[j].of[c], value.of[c]);",
     "value.of[c] = fused(1.0F, values[j].of[c], value.of[c]);",
     "*GpuGenerator.Long*/llama"),
    ("a list is cleared while others add to it", KERNELS + "cutoffs.gpu",
     "if (thread_index() == 0) *t.shared.listed = 0;\n  barrier();\n",
     "if (thread_index() == 0) *t.shared.listed = 0;\n", rows("choose_tokens")),
    ("logits are edited before others have copied them", KERNELS + "choose_tokens.gpu",
     "(token - from) % thread_count() != thread_index()) continue;", "thread_index() != 0) continue;",
     rows("choose_tokens")),
    ("a cache is not copied to where the step writes", "src/targets/gpu/tokens.cpp",
     "if (from.data != to.data && from.count() > 0) copier_", "if (from.data == nullptr) copier_",
     rows("sequence_attention")),
    ("strides of weights are ignored", "src/targets/gpu/n_bits.cpp",
     "    if (!view.is_dense()) return false;\n", "", "GpuNBits*"),
    ("two copies share scratch memory", "src/targets/gpu/n_bits.cpp",
     "      place += rounded(bytes_for(view.type, view.count()));\n", "", "GpuNBits*"),
    ("a replay has the extents of another run", "src/runtime/frame_replay.cpp",
     "  seen.insert(seen.end(), view->dims.begin(), view->dims.begin() + view->rank);\n", "", "Replay*"),
    ("a damaged entry of the cache is loaded", "src/targets/gpu/code/disk_cache.cpp",
     "text.substr(0, kHashBytes) == hash_of(text.substr(kHashBytes))) {", "!text.empty()) {", "GpuHost*"),
    ("a limit of memory is not kept", "src/targets/gpu/device.cpp",
     "if (used_.fetch_add(bytes) + bytes <= limit_) return;", "if (used_.fetch_add(bytes) <= limit_) return;", "GpuHost*"),
    ("a buffer is filled while it is copied", "src/targets/gpu/upload_ring.cpp",
     "  if (buffer.in_flight) driver_.synchronize(buffer.copied);\n", "", "*GpuUpload*"),
    ("threads share a handle of a library", "src/targets/gpu/libraries/cudnn.cpp",
     "handle = new_handle(*f_);", "handle = unowned(handle_);", "GpuConvPlans*"),
    ("the host reads a result before it is copied", "src/passes/place.cpp",
     "if (!on_device_ || device == lies_there(*source)) return source;",
     "if (!on_device_ || !device || lies_there(*source)) return source;", "Replay*"),
]
