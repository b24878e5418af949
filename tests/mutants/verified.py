# SPDX-License-Identifier: MIT
"""Plants faults into kernels, packing, fusion rules, generated code and layouts, one at a time: `lathe
verify` must find each on a small model, and name its place.

usage: verified.py [--list] [NAME...]

Programs are built by scripts/try_change.py over build/release; the tree stays unchanged. Every model
first passes without a fault. Prints the place that verify names, and the minutes in all. Exits with 1 if
a fault passes.
"""

import pathlib
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import models

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build/mutants"
MODELS = ROOT / "build/mutants-models"
KERNELS = "src/targets/cpu/kernels/"
ROWS = KERNELS + "elementwise/row_ops"
REDUCE = KERNELS + "elementwise/reduce_ops"
QUANTIZE = KERNELS + "elementwise/quantize_ops"
POOL = KERNELS + "pool/pooling"
WINOGRAD = KERNELS + "conv/winograd"
ATTENTION = KERNELS + "attention/attention_f32"


@dataclass
class Fault:
    name: str
    file: str
    old: str
    new: str
    model: str
    place: str  # what verify names
    compiled: tuple = ()  # the sources that include a header


def for_both(stem):
    return f"{stem}_avx2.cpp", f"{stem}_avx512.cpp"


FAULTS = [
    # Kernels
    Fault("a norm subtracts its bias", ROWS + "_kernel.h", "y = y + load(row.beta + i, mask);",
          "y = y - load(row.beta + i, mask);", "rows", "cpu.layer_normalization", for_both(ROWS)),
    Fault("a reduction drops the last element", REDUCE + "_kernel.h",
          "for (int k = 0; i < count; ++i, ++k) partial[k]", "for (int k = 0; i + 1 < count; ++i, ++k) partial[k]",
          "rows", "cpu.reduce_mean", for_both(REDUCE)),
    Fault("a mean ignores its padding", POOL + "_kernel.h", "x = x / counted;", "x = x / valid;", "image",
          "cpu.average_pool", for_both(POOL)),
    Fault("int8 saturates too early", QUANTIZE + "_kernel.h", "kSigned ? -128.0F : 0.0F",
          "kSigned ? -64.0F : 0.0F", "bytes8", "cpu.quantize_linear", for_both(QUANTIZE)),
    Fault("Winograd doubles an output twice", WINOGRAD + "_kernel.h", "y[1] = fma(two, d2, d1);",
          "y[1] = fma(four, d2, d1);", "winograd", "cpu.conv", for_both(WINOGRAD)),
    Fault("attention reads the keys beyond the last", KERNELS + "attention/attention_softmax_rows.h",
          "x[i] = keep(mask_of_keys(b, i * kLanes), x[i], low);", "x[i] = load(scores + i * kLanes);", "heads",
          "cpu.attention", for_both(ATTENTION)),
    Fault("a split of K overlaps the next", KERNELS + "gemm/matmul.cpp",
          "std::min(call_.k, groups * (part + 1) / split_ * kernel_.k_group)",
          "std::min(call_.k, (groups * (part + 1) / split_ + 1) * kernel_.k_group)", "dense", "cpu.matmul"),
    Fault("an epilogue swaps a difference", "src/targets/cpu/epilogue_chain.cpp",
          "first ? binary->kind : binary->reversed_kind", "binary->kind", "dense", "cpu.matmul+sub"),
    Fault("a residual of bytes loses its zero point", "src/targets/cpu/requantisation.cpp",
          "made.step.operand.zero = constant(side, kZero, constants);", "", "residual8", "cpu.qlinear_conv+"),
    Fault("a residual of bytes has the scale of the sum", "src/targets/cpu/requantisation.cpp",
          "made.step.operand.scale = constant(side, kScale, constants) / divisor;", "made.step.operand.scale = 1;",
          "residual8", "cpu.qlinear_conv+"),
    Fault("a convolution saturates only in its sum", "src/targets/cpu/requantisation.cpp",
          "rounding.b = low + 255 - zero;", "rounding.b = low + 512 - zero;", "residual8", "cpu.qlinear_conv+"),
    Fault("the code of a tile reads operands of the first columns", "src/targets/cpu/tile_epilogue.cpp",
          "+ tile.column * operand.column_stride;", "+ 0 * operand.column_stride;", "tiles", "cpu.matmul+greater"),
    # Packing
    Fault("the last column of a panel is not packed", KERNELS + "gemm/pack.cpp",
          "static_cast<size_t>(columns) * sizeof(To));", "static_cast<size_t>(columns - 1) * sizeof(To));",
          "dense", "cpu.matmul"),
    Fault("all panels have the sums of the first", KERNELS + "gemm/pack.cpp",
          "std::copy_n(totals, width, sums + column);", "std::copy_n(totals, width, sums);", "bytes8",
          "cpu.matmul_integer"),
    Fault("every group of a convolution has the weights of the first", KERNELS + "conv/conv_direct_pack.cpp",
          "first_weight(original_, group, panel * columns + i)", "first_weight(original_, 0, panel * columns + i)",
          "image", "cpu.conv"),
    Fault("depthwise taps are mirrored", KERNELS + "depthwise/depthwise.cpp", "value(c * p_.taps() + tap)",
          "value((c + 1) * p_.taps() - 1 - tap)", "image", "cpu.conv"),
    Fault("the halves of a 4-bit tile are swapped", KERNELS + "weight_only/weight_only_tile.h",
          "quad(q) | quad(q + 4) << 4", "quad(q + 4) | quad(q) << 4", "bits4", "cpu.matmul_n_bits",
          (KERNELS + "weight_only/weight_only_pack.cpp", KERNELS + "weight_only/weight_only_compact_pack.cpp")),
    # Passes and fusion rules
    Fault("a region returns its first step", "src/passes/fuse_regions.cpp",
          "body.set_results({inner.at(last.result())}", "body.set_results({inner.at(chain.front()->result())}",
          "formulas", "pass 'fuse_regions'"),
    Fault("a folded norm adds its mean", "src/passes/fold_scales.cpp", "constant(b, ops::sub, {bias,",
          "constant(b, ops::add, {bias,", "image", "pass 'fold_scales'"),
    Fault("a folded scale forgets the bias", "src/passes/fold_scales.cpp",
          "if (bias != nullptr) bias = constant(b, ops::mul, {bias, each});", "", "image", "pass 'fold_scales'"),
    Fault("attention multiplies where it should divide", "src/passes/raise_attention.cpp",
          "scale * *factor : scale / *factor", "scale * *factor : scale * *factor", "heads", "pass 'raise_attention'"),
    Fault("attention loses its mask", "src/passes/raise_attention.cpp", "return masked.mask;", "return nullptr;", "heads",
          "pass 'raise_attention'"),
    Fault("joined products are cut one column early", "src/passes/join_products.cpp", "begin += product.columns;",
          "begin += product.columns - 1;", "heads", "pass 'join_products'"),
    Fault("transposes join in the wrong order", "src/passes/simplify_algebra.cpp",
          "inner[static_cast<size_t>(outer[axis])]", "outer[static_cast<size_t>(inner[axis])]", "movement",
          "pass 'simplify_algebra'"),
    Fault("a position from the end is one off", "src/passes/simplify_algebra.cpp", "begin < 0 ? begin + *extent",
          "begin < 0 ? begin + *extent - 1", "movement", "pass 'simplify_algebra'"),
    # Generated code
    Fault("a generated difference has its sides swapped", "src/codegen/linear_form.cpp",
          "inputs[count++] = numbers.at(input.id());",
          "inputs[count++] = numbers.at(input.id());\n"
          "      if (expr->op() == ExprOp::sub) std::swap(inputs[0], inputs[1]);", "formulas", "cpu.mul+add"),
    Fault("a generated sum has the lanes beyond its row", "src/codegen/x86/body.cpp",
          "      if (tail) machine_.fill_beyond_tail(own, neutral_bits(reduction.op));\n", "", "rows", "cpu.sub+softmax"),
    Fault("generated constants lose bits", "src/codegen/linear_form.cpp",
          ".type = type, .input_type = type, .bits = bits});",
          ".type = type, .input_type = type, .bits = bits & ~uint64_t{0xffff}});", "formulas", "cpu.mul+add"),
    Fault("generated code drops a copy of its body", "src/codegen/x86/body.cpp",
          "    emit_stores(copy, tail);", "    if (copy > 0 || copies == 1) emit_stores(copy, tail);", "formulas",
          "cpu.mul+add"),
    # Layouts
    Fault("an image with channels first is read with channels last", "src/targets/cpu/convolution.cpp",
          "is_channels_last(x) || scales_x_ ? ActivationLayout::channels_last",
          "!is_channels_last(x) || scales_x_ ? ActivationLayout::channels_last", "image", "cpu.conv"),
    Fault("a pool of channels-last images has the rows as channels", "src/targets/cpu/pooling.cpp",
          "const PoolingTensor from{x.data, x.count() / x.dims[0], x.dims[1]};",
          "const PoolingTensor from{x.data, x.count() / x.dims[0], x.dims[2]};", "image", "cpu.max_pool"),
]


def verify(model, *program):
    command = [*map(str, program), "verify", str(MODELS / f"{model}.onnx"), "--target", "cpu", "--cases", "2"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def found(fault):
    """What verify prints of the fault's place; None if it finds nothing there."""
    text = (ROOT / fault.file).read_text()
    if text.count(fault.old) != 1:
        return None, f"{fault.file} has {text.count(fault.old)} places for it"
    shutil.rmtree(FOLDER, ignore_errors=True)
    for file in (fault.file, *fault.compiled):
        to = FOLDER / file
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text.replace(fault.old, fault.new) if file == fault.file else (ROOT / file).read_text())
    done = verify(fault.model, sys.executable, ROOT / "scripts/try_change.py", FOLDER, "lathe")
    if "error: " in done.stdout and "failed: " not in done.stdout:
        return None, f"it does not build:\n{done.stdout[-2000:]}"
    places = [line.strip() for line in done.stdout.splitlines() if line.startswith("  failed") and fault.place in line]
    return (places[0], None) if done.returncode == 1 and places else (None, f"NOT FOUND:\n{done.stdout[-2000:]}")


def main(words):
    if words == ["--list"]:
        print("\n".join(fault.name for fault in FAULTS))
        return 0
    unknown = set(words) - {fault.name for fault in FAULTS}
    if unknown:
        sys.exit(f"error: unknown faults {sorted(unknown)}; --list prints them")
    begin = time.monotonic()
    models.save_all(MODELS)
    chosen = [fault for fault in FAULTS if not words or fault.name in words]
    for model in sorted({fault.model for fault in chosen}):
        done = verify(model, ROOT / "build/release/bin/lathe")
        if done.returncode != 0:
            sys.exit(f"error: {model} fails without a fault:\n{done.stdout[-2000:]}")
    wrong = 0
    for fault in chosen:
        place, problem = found(fault)
        wrong += place is None
        print(f"{fault.name}: {place or problem}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} faults found, {(time.monotonic() - begin) / 60:.1f} minutes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
