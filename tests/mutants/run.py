# SPDX-License-Identifier: MIT
"""Plants faults of order, memory and state, of generated code and of the GPU target, one at a time: each must
fail a test.

usage: run.py [--list] [--check] [--gpu] [NAME...]

--check: whether all can be planted. --gpu: those of the GPU target alone, on gpu:host. Most others run on
the simulated device, built by scripts/try_change.py over build/release; the tree stays unchanged. Each
program first passes the same tests without the fault. Exits with 1 if a fault passes.
"""

import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

from gpu_faults import GPU_FAULTS, KERNELS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build/mutants"


@dataclass
class Fault:
    name: str
    file: str
    old: str
    new: str
    program: str
    tests: str


DEVICE = "*DeviceSession*"
WAITS = "    if (context.stream != nullptr) context.stream->synchronize();\n    execution.frame().finish(call.receiver);\n"
FAULTS = [
    Fault("the host reads a device slot", "src/passes/place.cpp",
          "if (!on_device_ || device == lies_there(*source)) return source;",
          "if (!on_device_ || !device || lies_there(*source)) return source;", "runtime_tests", DEVICE),
    Fault("a slot is reused before its reader's event", "src/plan/planner_waits.cpp",
          "  keep_until_waited();\n}", "}", "runtime_tests", DEVICE),
    Fault("a run returns before its input's copy", "src/runtime/session.cpp",
          WAITS, "    execution.frame().finish(call.receiver);\n", "runtime_tests", DEVICE),
    Fault("a page is allocated after its step's memory is bound", "src/llm/model/step_tables.cpp",
          "  prepare_tables();\n  // Once, for all states of a group: other steps may add pages.\n"
          "  lists_.counts_.clear();",
          "  lists_.counts_.clear();\n  struct Late {\n    StepTables& tables;\n"
          "    ~Late() { tables.prepare_tables(); }\n  } const late{*this};",
          "decoders_tests", "*SimDecoder*"),
    Fault("a page table is stale in a later step", "src/llm/model/packed_runner.cpp",
          "  if (!fits) box = Box{Tensor(type, Dims(dims.begin(), dims.end()))};",
          "  if (fits && dims.size() == 2 && dims[1] > 2) return;\n"
          "  if (!fits) box = Box{Tensor(type, Dims(dims.begin(), dims.end()))};",
          "decoders_tests", "*SimDecoder*:*Decoder*"),
    Fault("a later run has the extents of the first", "src/runtime/frame.cpp",
          "  RunBlock& block = *run_blocks_[segment];\n  std::copy",
          "  RunBlock& block = *run_blocks_[segment];\n"
          "  static std::vector<const void*> uploaded;\n"
          "  if (std::ranges::find(uploaded, &block) != uploaded.end()) return;\n"
          "  uploaded.push_back(&block);\n  std::copy", "runtime_tests", DEVICE),
    Fault("nothing waits for a found extent", "src/runtime/frame.cpp",
          "  if (launch.waits >= 0) events_[static_cast<size_t>(launch.waits)]->synchronize();\n", "",
          "runtime_tests", DEVICE),
    Fault("an append is dropped as dead", "src/passes/eliminate_dead_code.cpp",
          "  if (updates_state(instruction)) return true;\n", "", "runtime_tests", DEVICE),
    Fault("a shared reader is moved before the append", "src/passes/decoder/share_kv_caches.cpp",
          "    Builder builder(main_, &other);", "    Builder builder(main_, &first);", "passes_tests",
          "*share_kv_caches*"),
    Fault("a failed launch is ignored", "src/runtime/session.cpp",
          WAITS, "    try {\n      if (context.stream != nullptr) context.stream->synchronize();\n"
          "    } catch (const Error&) {\n    }\n    execution.frame().finish(call.receiver);\n", "runtime_tests",
          DEVICE),
    Fault("a row's sum has lanes beyond the tail", "src/codegen/x86/body.cpp",
          "      if (tail) machine_.fill_beyond_tail(own, neutral_bits(reduction.op));\n", "",
          "codegen_tests", "GeneratedRows*"),
    Fault("two spilled values share a slot", "src/codegen/x86/body.cpp",
          "      spilled.slot = free_slots_.back();\n      free_slots_.pop_back();",
          "      spilled.slot = free_slots_.back();", "codegen_tests", "Generated*"),
    Fault("a value is released before its last use", "src/codegen/x86/body.cpp",
          "if (!is_cell(id) && next_use(id, at) == INT_MAX) release(id, copy);",
          "if (!is_cell(id) && next_use(id, at + 1) == INT_MAX) release(id, copy);", "codegen_tests", "Generated*"),
    Fault("a pointer in the call is not rewound between phases", "src/codegen/x86/emit.cpp",
          "      a_.sub(pointer(operand), reg::rax);\n", "", "codegen_tests", "GeneratedRows*"),
    Fault("a shift reads bits that a narrow integer lost", "src/codegen/narrow.cpp",
          "        return exact ? in_range(std::min<Wide>(a.least, 0), std::max<Wide>(a.most, 0))",
          "        return a.is_exact() || true ? in_range(std::min<Wide>(a.least, 0), std::max<Wide>(a.most, 0))",
          "codegen_tests", "Narrow*"),
    Fault("integers of 64 bits are compared by their high halves alone", "src/codegen/split.cpp",
          "return logic(ExprOp::bit_or, high, low);", "return low == kNone ? low : high;", "codegen_tests", "Split.*"),
    Fault("a maximum loses NaN", "src/codegen/x86/support.cpp",
          "return node.kind == Node::Kind::constant && (node.bits & kMaxInt) <= kInfinity;",
          "return node.kind == Node::Kind::constant || (node.bits & kMaxInt) <= kInfinity;",
          "codegen_tests", "Generated*"),
]
OF_GPU = [Fault(name, file, old, new, "gpu_tests", tests) for name, file, old, new, tests in GPU_FAULTS]


def run_tests(command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def fails(fault):
    """Whether a test fails, or the reason why the fault could not be tried."""
    source, file = ROOT / fault.file, fault.file
    shutil.rmtree(FOLDER, ignore_errors=True)
    if file.startswith(KERNELS):
        # Device code is text in a source.
        source, file = ROOT / "build/release/generated/targets/gpu/kernels.inc", "src/targets/gpu/kernels.inc"
        holder = FOLDER / "src/targets/gpu/code/source.cpp"
        holder.parent.mkdir(parents=True)
        shutil.copy(ROOT / "src/targets/gpu/code/source.cpp", holder)
    before, text, after = "", source.read_text(), ""
    if fault.file.startswith(KERNELS):
        # All sources, each after its name.
        begin = text.index(f'{{"{fault.file.removeprefix(KERNELS)}",')
        end = text.find('\n{"', begin)
        before, text, after = text[:begin], text[begin:end], text[end:]
    if text.count(fault.old) != 1:
        return f"{fault.file} has {text.count(fault.old)} places for it"
    changed = FOLDER / file
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(before + text.replace(fault.old, fault.new) + after)
    tests = [f"--gtest_filter={fault.tests}", "--gtest_fail_fast", "--gtest_brief=1"]
    done = run_tests([sys.executable, ROOT / "scripts/try_change.py", FOLDER, fault.program, *tests])
    if "does not compile" in done.stdout or "does not link" in done.stdout or "error: build/release" in done.stdout:
        return f"it does not build:\n{done.stdout[-2000:]}"
    return done.returncode != 0


def main(words):
    faults = OF_GPU if "--gpu" in words else FAULTS + OF_GPU
    words = [word for word in words if word != "--gpu"]
    if words == ["--list"]:
        print("\n".join(fault.name for fault in faults))
        return 0
    if words == ["--check"]:
        places = {fault.name: (ROOT / fault.file).read_text().count(fault.old) for fault in faults}
        lost = [f"{name}: {count} places for it" for name, count in places.items() if count != 1]
        print("\n".join(lost or [f"{len(faults)} faults, each has its place"]))
        return 1 if lost else 0
    unknown = set(words) - {fault.name for fault in faults}
    if unknown:
        sys.exit(f"error: unknown faults {sorted(unknown)}; --list prints them")
    passed, wrong = set(), 0
    for fault in faults:
        if words and fault.name not in words:
            continue
        key = (fault.program, fault.tests)
        if key not in passed:
            program = ROOT / "build/release/tests" / fault.program
            done = run_tests([program, f"--gtest_filter={fault.tests}", "--gtest_brief=1"])
            if done.returncode != 0:
                sys.exit(f"error: {fault.program} fails without a fault:\n{done.stdout[-2000:]}")
            passed.add(key)
        result = fails(fault)
        wrong += result is not True
        print(f"{fault.name}: {'a test fails' if result is True else result or 'NO TEST FAILS'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
