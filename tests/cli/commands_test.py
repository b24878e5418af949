# SPDX-License-Identifier: MIT
"""inspect, perf, verify, ops, doctor, help, interrupts and timeouts."""

import json
import os
import pathlib
import platform
import re
import signal
import shutil
import stat
import subprocess
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import program
from program import DIGITS, ROOT

def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


COMMANDS = ["inspect", "run", "perf", "compile", "explain", "verify", "generate", "chat", "tokenize",
            "detokenize", "render-chat", "ops", "doctor"]


class Help(program.ProgramTest):
    def test_help_names_the_forms_of_models_that_a_command_takes(self):
        for command in ("inspect", "perf", "compile", "explain", "verify"):
            text = self.run_program(command, "--help").split("Options:")[0]
            for form in ("ONNX model", "compiled file", "of program", "language model", "GGUF"):
                self.assertIn(form, text.replace("of a program", "of program"), command)

    def test_every_command_has_help_with_an_example(self):
        listing = self.run_program("--help")
        for command in COMMANDS:
            self.assertRegex(listing, rf"\n  {command} +[A-Z].*\.\n")
            self.assertIn(f"\n  lathe {command}", self.run_program(command, "--help").split("Example:")[1])

    def test_the_examples_run(self):
        for command in COMMANDS:
            example = self.run_program(command, "--help").split("Example:\n")[1].strip()
            run = subprocess.run(["bash", "-c", example], cwd=ROOT, capture_output=True, text=True,
                                 env=dict(os.environ, PATH=f"{program.PROGRAM.parent}:{os.environ['PATH']}"))
            self.assertEqual((run.returncode, run.stderr), (0, ""), example)

    def test_the_log_has_levels(self):
        model = DIGITS / "digits.onnx"
        self.run_program("run", model, "--log", 1)
        self.assertRegex(self.stderr, r"\A\[1\] '.*digits.onnx' on \w+: \d+ launches, \d+ threads\n\Z")
        self.run_program("run", model, env={"LATHE_LOG": "5"})
        self.assertRegex(self.stderr, r"(?m)^\[2\] +[\d.]+ ms  conv\+relu 'conv1'$")
        self.assertRegex(self.stderr, r"(?m)^\[3\] canonical: fold_constants ")
        self.assertRegex(self.stderr, r"(?m)^\[5\] after fold_constants:\nprogram ")

    def test_the_version_is_one_line(self):
        self.assertRegex(self.run_program("--version"), r"\Alathe \d+\.\d+\.\d+\n\Z")

    def test_a_missing_command_prints_the_usage_and_an_error(self):
        self.assertIn("commands:", self.run_program(code=2))
        self.assertEqual(self.stderr, "error: the command is missing; see: lathe --help\n")

    def test_boolean_flags_have_a_negation(self):
        self.assertRegex(self.run_program("perf", "--help"), r"(?m)^  --\[no-\]json  +Prints one JSON object")
        self.assertRegex(self.run_program("generate", "--help"), r"(?m)^  -v,--\[no-\]verbose  +Prints effective")
        model = DIGITS / "digits.onnx"
        for flags, is_json in ((("--no-json",), False), (("--json", "--no-json"), False), (("--no-json", "--json"), True)):
            self.assertEqual(self.run_program("explain", model, *flags).startswith("{"), is_json, flags)
        for flags, value in ((("--no-pin-threads",), "false"), (("--pin-threads",), "true")):
            text = self.run_program("doctor", *flags, env={"LATHE_PIN_THREADS": "true"})
            self.assertIn(f"option       pin-threads = {value} (from --pin-threads)", text)


class Target(program.ProgramTest):
    """The default target is auto: the best one present, never null."""

    def test_every_command_prints_the_target_that_it_chose(self):
        best = re.search(r"(?m)^target +(\w+): .* \(auto\)$", self.run_program("doctor"))[1]
        self.assertEqual(best, "cpu" if platform.machine() == "x86_64" else "ref")
        model = DIGITS / "digits.onnx"
        for more in ((), ("--target", "auto")):
            self.run_program("run", model, "--log", 1, *more)
            self.assertIn(f"' on {best}: ", self.stderr)
            perf = self.run_program("perf", model, "-n", 1, *more)
            self.assertRegex(perf, rf"\A.*digits.onnx on {best}, \d+ threads\n")
            self.assertIn(f"digits.onnx on {best}: ", self.run_program("explain", model, *more))
            self.assertIn(f" cases on {best}\n", self.run_program("verify", model, "--cases", 1, *more))
            self.run_program("generate", ROOT / "examples" / "counting", "--ids", 1, "-v", *more)
            self.assertIn(f"\ntarget {best}, threads ", self.stderr)

    def test_a_named_target_is_used(self):
        self.assertIn("digits.onnx on ref: ", self.run_program("explain", DIGITS / "digits.onnx", "--target", "ref"))
        self.assertIn("digits.onnx on ref: ", self.run_program("explain", DIGITS / "digits.onnx",
                                                               env={"LATHE_TARGET": "ref"}))


class Inspect(program.ProgramTest):
    def test_a_printed_text_is_parsed_to_the_same_text(self):
        for stage in ("imported", "canonical", "lowered"):
            text = self.run_program("inspect", DIGITS / "digits.onnx", "--stop-after", stage,
                                    "--literals", "p.lathe.txt.literals")
            shutil.copy(DIGITS / "digits.onnx", self.folder)
            self.path("p.lathe.txt").write_text(text.replace(str(DIGITS) + "/", ""))
            again = self.run_program("inspect", "p.lathe.txt")
            self.assertEqual(again, self.path("p.lathe.txt").read_text())
            self.assertIn(f"stage {stage}", text)

    def test_a_text_and_its_model_have_equal_results(self):
        text = self.run_program("inspect", DIGITS / "digits.onnx", "--stop-after", "lowered",
                                "--literals", "p.lathe.txt.literals")
        self.path("p.lathe.txt").write_text(text.replace(str(DIGITS) + "/", ""))
        shutil.copy(DIGITS / "digits.onnx", self.folder)
        image = DIGITS / "four.png"
        np.testing.assert_array_equal(self.result("p.lathe.txt", "--input", image),
                                      self.result(DIGITS / "digits.onnx", "--input", image))

    def test_json_names_instructions_and_types(self):
        found = json.loads(self.run_program("inspect", DIGITS / "digits.onnx", "--format", "json"))
        main = found["modules"][0]
        self.assertEqual(main["parameters"], [{"name": "image", "type": "f32[batch, 1, 8, 8]"}])
        ops = [i["op"] for i in main["instructions"]]
        self.assertIn("conv", ops)
        self.assertEqual(main["results"][0]["name"], "probabilities")
        self.assertEqual(found["symbols"][0]["name"], "batch")

    def test_dot_has_a_node_per_instruction(self):
        dot = self.run_program("inspect", DIGITS / "digits.onnx", "--format", "dot")
        self.assertTrue(dot.startswith("digraph ") and dot.rstrip().endswith("}"))
        self.assertEqual(len(re.findall(r'label="conv[ "]', dot)), 2)

    def test_svg_requires_graphviz(self):
        fake = self.path("dot")
        fake.write_text("#!/bin/sh\ncat > copy\necho '<svg/>'\n")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        svg = self.run_program("inspect", DIGITS / "digits.onnx", "--format", "svg",
                               env={"PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(svg, "<svg/>\n")
        self.assertTrue(self.path("copy").read_text().startswith("digraph"))
        self.run_program("inspect", DIGITS / "digits.onnx", "--format", "svg", code=4,
                         env={"PATH": "/nonexistent"})
        self.assertIn("Graphviz", self.stderr)

    def test_onnx_is_a_model_of_one_node_per_instruction(self):
        text = self.run_program("inspect", DIGITS / "digits.onnx", "--format", "onnx")
        model = onnx.ModelProto.FromString(text.encode(errors="surrogateescape"))
        self.assertEqual({n.domain for n in model.graph.node}, {"lathe"})
        self.assertEqual([o.op_type for o in model.graph.node].count("conv"), 2)
        self.assertEqual(model.graph.input[0].type.tensor_type.shape.dim[0].dim_param, "batch")
        weights = {w.name: w for w in model.graph.initializer}
        np.testing.assert_array_equal(
            numpy_helper.to_array(weights["conv1.bias"]),
            numpy_helper.to_array({w.name: w for w in onnx.load(DIGITS / "digits.onnx")
                                   .graph.initializer}["conv1.bias"]))

    def test_damaged_literals_are_not_written_as_onnx(self):
        weight = np.random.default_rng(1).standard_normal((80, 80)).astype(np.float32)
        model = self.save_model("w.onnx", [helper.make_node("Transpose", ["w"], ["t"]),
                                           helper.make_node("MatMul", ["x", "t"], ["y"])],
                                [("x", TensorProto.FLOAT, [1, 80])],
                                [("y", TensorProto.FLOAT, [1, 80])],
                                [numpy_helper.from_array(weight, "w")])
        text = self.run_program("inspect", model, "--stop-after", "lowered", "--target", "cpu",
                                "--literals", "w.lathe.txt.literals")
        self.path("w.lathe.txt").write_text(text)
        self.run_program("inspect", "w.lathe.txt", "--format", "onnx")
        side = self.path("w.lathe.txt.literals")
        damaged = bytearray(side.read_bytes())
        damaged[-1000] ^= 1
        side.write_bytes(damaged)
        self.run_program("inspect", "w.lathe.txt", "--format", "onnx", code=3)
        self.assertIn("the file is damaged", self.stderr)

    def test_the_weights_of_a_large_model_are_mapped(self):
        """The weight is a hole in the file; the limit of address space leaves no room for a copy."""
        size = 400 << 20
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4])
        tensor = weight.SerializeToString() + b"\x4a" + varint(size)
        model = self.save_model("small.onnx", [helper.make_node("Add", ["x", "w"], ["y"])],
                                [("x", TensorProto.FLOAT, [1])], [("y", TensorProto.FLOAT, None)])
        whole = onnx.load(model)
        graph = whole.graph.SerializeToString() + b"\x2a" + varint(len(tensor) + size) + tensor
        whole.ClearField("graph")
        with open(self.path("large.onnx"), "wb") as file:
            file.write(whole.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph)
            file.truncate(file.tell() + size)
        limit = "unlimited"
        if os.environ.get("TEST_PRESET", "release") in ("release", "gcc"):
            limit = (size >> 10) + (100 << 10)
        script = f"ulimit -v {limit}; exec {program.PROGRAM} inspect large.onnx"
        text = subprocess.check_output(["sh", "-c", script], cwd=self.folder, text=True)
        self.assertIn('literal f32[104857600] file "large.onnx" offset ', text)


class Perf(program.ProgramTest):
    def test_json_has_latencies_in_order_and_every_instruction(self):
        found = json.loads(self.run_program("perf", DIGITS / "digits.onnx", "--json", "--iterations", 5,
                                            "--warmup", 1, "--fill", "batch=2"))
        latency = found["latency_ms"]
        self.assertTrue(0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"])
        self.assertGreater(found["peak_memory_bytes"], 1 << 20)
        self.assertEqual(found["iterations"], 5)
        self.assertEqual(found["inputs"], ["image f32[2, 1, 8, 8]"])
        self.assertEqual(sum(i["calls"] for i in found["instructions"] if i["op"] == "conv+relu"), 2)
        total = sum(i["ms"] for i in found["instructions"]) + found["overhead_ms"]
        self.assertAlmostEqual(sum(o["ms"] for o in found["ops"]) + found["overhead_ms"], total, 6)

    def test_inputs_and_outputs_stay_in_the_memory_of_a_device(self):
        model = DIGITS / "digits.onnx"
        found = json.loads(self.run_program("perf", model, "--json", "-n", 2, "--target", "sim", "--device-io"))
        self.assertEqual(found["on_device"], ["image", "probabilities"])
        self.assertIn("  on the device: image, probabilities\n",
                      self.run_program("perf", model, "-n", 2, "--target", "sim", "--device-io"))
        self.assertEqual(json.loads(self.run_program("perf", model, "--json", "-n", 2, "--target", "sim"))["on_device"], [])
        self.run_program("perf", model, "--target", "cpu", "--device-io", code=2)
        self.assertEqual(self.stderr, "error: --device-io requires a target with memory of its own, such as gpu; "
                                      "'cpu' has none\n")

    def test_the_table_names_nodes(self):
        text = self.run_program("perf", DIGITS / "digits.onnx", "--iterations", 2)
        self.assertRegex(text, r"latency of 2 runs in ms: min [\d.]+, p50 ")
        self.assertIn("conv+relu 'conv1' : f32[batch, 16, 8, 8]", text)

    def test_a_trace_is_json_with_an_event_per_launch(self):
        for command in ("perf", "run"):
            self.run_program(command, DIGITS / "digits.onnx", "--trace", "t.json")
            events = json.loads(self.path("t.json").read_text())
            self.assertTrue(all(e["ph"] == "X" and e["dur"] >= 0 for e in events))
            self.assertEqual([e["cat"] for e in events].count("conv+relu"), 2)


class Verify(program.ProgramTest):
    def test_a_model_passes_with_its_stored_outputs(self):
        found = json.loads(self.run_program("verify", DIGITS / "digits.onnx", "--json"))
        self.assertEqual((found["failed"], found["unsupported"]), (0, 0))
        self.assertEqual(found["passed"], len(found["list"]))
        self.assertEqual(found["list"][-1]["name"], "test_data_set_0")

    def test_other_stored_outputs_are_a_difference(self):
        model = self.save_model("relu.onnx", [helper.make_node("Relu", ["x"], ["y"])],
                                [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT, ["n"])])
        data = self.path("test_data_set_0")
        data.mkdir()
        program.tensor_file(data / "input_0.pb", np.array([-1, 2], np.float32))
        program.tensor_file(data / "output_0.pb", np.array([0, 2], np.float32), "y")
        self.assertIn("passed", self.run_program("verify", model))
        program.tensor_file(data / "output_0.pb", np.array([0, 2.01], np.float32), "y")
        text = self.run_program("verify", model, code=1)
        self.assertIn("element 1 is 2, expected 2.0", text)
        self.run_program("verify", model, "--tolerance", "0.01")

    def test_expected_outputs_come_from_an_archive(self):
        model = self.identity_model()
        x = np.ones((2, 4), np.float32)
        np.save(self.path("x.npy"), x)
        np.savez(self.path("y.npz"), y=x)
        self.run_program("verify", model, "--input", "x.npy", "--expected", "y.npz")
        np.savez(self.path("y.npz"), y=x + 1)
        self.run_program("verify", model, "--input", "x.npy", "--expected", "y.npz", code=1)

    def test_quantised_models_are_judged_by_instruction_and_distribution(self):
        rng = np.random.default_rng(7)
        weights = [numpy_helper.from_array(rng.integers(-128, 127, (8, 6)).astype(np.int8), "w"),
                   numpy_helper.from_array(np.float32(0.01), "s"),
                   numpy_helper.from_array(np.int8(0), "z")]
        model = self.save_model(
            "q.onnx", [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
                       helper.make_node("MatMulInteger", ["q", "w", "qz", "z"], ["p"]),
                       helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT),
                       helper.make_node("Mul", ["qs", "s"], ["scale"]),
                       helper.make_node("Mul", ["f", "scale"], ["y"])],
            [("x", TensorProto.FLOAT, ["n", 8])], [("y", TensorProto.FLOAT, None)], weights)
        found = json.loads(self.run_program("verify", model, "--json"))
        self.assertTrue(found["quantises"])
        self.assertEqual(found["failed"], 0)

    def test_states_are_verified_over_several_steps(self):
        model = self.save_model(
            "s.onnx", [helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
                       helper.make_node("CumSum", ["present", "axis"], ["y"])],
            [("past", TensorProto.FLOAT, ["p"]), ("x", TensorProto.FLOAT, ["n"])],
            [("present", TensorProto.FLOAT, None), ("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.int64(0), "axis")])
        found = json.loads(self.run_program("verify", model, "--json", "--state", "past=present"))
        self.assertEqual(found["failed"], 0)
        self.assertIn("[", found["list"][-1]["values"][0]["type"])


def endless_model(test):
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Neg", ["v"], ["w"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("w", TensorProto.FLOAT, [4])])
    return test.save_model("endless.onnx", [helper.make_node("Loop", ["", "", "x"], ["y"], body=body)],
                           [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.FLOAT, None)])


class VerifySeveral(program.ProgramTest):
    def two_models(self):
        """Two folders with a model and stored outputs."""
        for name in ("a", "b"):
            data = self.path(f"{name}/test_data_set_0")
            data.mkdir(parents=True)
            model = self.save_model("m.onnx", [helper.make_node("Relu", ["x"], ["y"])],
                                    [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])])
            shutil.move(model, self.path(f"{name}/model.onnx"))
            program.tensor_file(data / "input_0.pb", np.array([-1, 2], np.float32))
            program.tensor_file(data / "output_0.pb", np.array([0, 2], np.float32), "y")

    def test_every_model_and_folder_has_a_verdict(self):
        self.two_models()
        for first, second in (("a", "b"), ("a/model.onnx", "b/model.onnx"), ("a", "b/model.onnx")):
            found = json.loads(self.run_program("verify", first, second, "--json"))
            self.assertEqual([(r["model"], r["failed"]) for r in found], [(first, 0), (second, 0)])
        program.tensor_file(self.path("b/test_data_set_0/output_0.pb"), np.array([0, 2.5], np.float32), "y")
        for first, second in (("a", "b"), ("b", "a"), ("b/model.onnx", "a/model.onnx")):
            found = json.loads(self.run_program("verify", first, second, "--json", code=1))
            self.assertEqual([r["failed"] for r in found], [int("b" in first), int("b" in second)])
        text = self.run_program("verify", "a", "b", code=1)
        self.assertRegex(text, r"(?s)\Aa: 1 models on \w+\n1 passed.*\nb: 1 models on .*element 1 is 2, expected 2.5")

    def test_an_error_of_one_model_does_not_end_the_others(self):
        self.two_models()
        found = json.loads(self.run_program("verify", "missing.onnx", "a", "--json", code=7))
        self.assertEqual(found[1]["passed"], 1)
        self.assertIn("cannot open 'missing.onnx'", found[0]["error"])
        self.assertTrue(self.stderr.startswith("error: cannot open 'missing.onnx'"), self.stderr)

        for name, code, reason in (("cut.lathe", 3, "cut.lathe"), ("org/nothing", 7, "Hugging Face cache"),
                                   ("org/nothing:Q4_K_M", 7, "Hugging Face cache")):
            self.path("cut.lathe").write_bytes(self.compiled()[:100])
            for arguments in ((name, "a"), ("a", name)):
                found = {r["model"]: r for r in json.loads(self.run_program("verify", *arguments, "--json", code=code))}
                self.assertEqual(found["a"]["passed"], 1)
                self.assertIn(reason, found[name]["error"])
                self.assertEqual(self.stderr.count("error: "), 1)
            self.assertEqual(self.run_program("verify", name, code=code), "")

    def compiled(self):
        self.run_program("compile", "a/model.onnx", "-o", "whole.lathe")
        return self.path("whole.lathe").read_bytes()

    def test_broken_test_data_is_an_error(self):
        self.two_models()
        self.path("b/test_data_set_0/input_0.pb").write_bytes(b"\x0a\xff")
        for subject in ("b", "b/model.onnx"):
            self.run_program("verify", subject, code=3)
            self.assertRegex(self.stderr, r"\Aerror: .*b/test_data_set_0/input_0.pb")
        self.assertEqual(self.run_program("verify", "a", "b", code=3).count("1 passed"), 1)

    def test_flags_of_models_do_not_apply_to_folders(self):
        self.two_models()
        for flag, value in (("--fill", "x=1"), ("--cases", "2"), ("--tolerance", "1"), ("--seed", "3")):
            self.run_program("verify", "a/model.onnx", "b", flag, value, code=2)
            self.assertIn(f"lathe verify: {flag} does not apply to the folder of models 'b'", self.stderr)


class VerifyLanguageModel(program.ProgramTest):
    def test_each_kernel_is_compared_over_a_prompt_and_steps(self):
        counting = program.ROOT / "examples" / "counting"
        found = json.loads(self.run_program("verify", counting, "--json"))
        self.assertEqual((found["passed"], found["failed"], found["cases"]), (1, 0, 1))
        check = found["list"][0]
        self.assertRegex(check["name"], r"\A\w+, each kernel, prompt of 16 tokens and 4 steps\Z")
        self.assertTrue({value["name"].partition(".")[2] for value in check["values"]} >=
                        {"gather", "matmul", "sequence_attention"})
        self.run_program("verify", counting, "--cases", 2, code=2)
        self.assertIn("--cases does not apply to the language model", self.stderr)


class VerifyFolder(program.ProgramTest):
    def add_case(self, name, expected, endless=False):
        folder = self.path(f"tree/{name}")
        (folder / "test_data_set_0").mkdir(parents=True)
        model = endless_model(self) if endless else self.save_model(
            "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, [4])],
            [("y", TensorProto.FLOAT, [4])])
        shutil.move(model, folder / "model.onnx")
        data = folder / "test_data_set_0"
        program.tensor_file(data / "input_0.pb", np.arange(4, dtype=np.float32))
        program.tensor_file(data / "output_0.pb", np.asarray(expected, np.float32), "y")

    def statuses(self, code, *arguments, **more):
        found = json.loads(self.run_program("verify", "tree", "--json", *arguments, code=code, **more))
        for status in ("passed", "failed", "unsupported"):
            self.assertEqual(found[status], [c["status"] for c in found["list"]].count(status))
        return {c["name"]: (c["status"], c["detail"]) for c in found["list"]}

    def test_cases_are_found_and_compared(self):
        self.add_case("a", [0, -1, -2, -3])
        self.add_case("deep/er/b", [0, -1, -2, -3])
        self.assertEqual({s for s, _ in self.statuses(0).values()}, {"passed"})
        self.add_case("c", [0, -1, -2, 3])
        found = self.statuses(1)
        self.assertEqual(sorted(found), ["a", "c", "deep/er/b"])
        self.assertEqual(found["c"][0], "failed")
        self.assertIn("element 3 is -3, expected 3", found["c"][1])
        text = self.run_program("verify", "tree", code=1)
        self.assertTrue(text.endswith("2 passed, 1 failed, 0 unsupported\n"), text)

    def test_a_crash_fails_one_case(self):
        for name in "abde":
            self.add_case(name, [0, -1, -2, -3])
        self.add_case("c", [0, 0, 0, 0], endless=True)
        limit = ["sh", "-c", f"ulimit -t 2; exec {program.PROGRAM} verify tree --json"]
        process = subprocess.run(limit, cwd=self.folder, capture_output=True, timeout=program.SECONDS)
        self.assertEqual(process.returncode, 1)
        found = {c["name"]: c for c in json.loads(process.stdout)["list"]}
        self.assertIn("signal", found["c"]["detail"])
        self.assertEqual([n for n, c in found.items() if c["status"] == "passed"], list("abde"))

    def test_a_folder_without_models_is_an_error(self):
        self.path("tree").mkdir()
        self.run_program("verify", "tree", code=2)


class Lists(program.ProgramTest):
    def test_ops_are_listed_and_described(self):
        self.assertRegex(self.run_program("ops"), r"\nmatmul +Matrix multiplication")
        self.assertIn("attributes:\n  axis: ", self.run_program("ops", "softmax"))

    def test_generated_pages_are_up_to_date(self):
        for page, arguments in (("ops.md", ["ops", "--markdown"]),
                                ("options.md", ["doctor", "--options-markdown"]),
                                ("formats.md", ["doctor", "--formats-markdown"]),
                                ("passes.md", ["doctor", "--passes-markdown"])):
            self.assertEqual((ROOT / "docs" / page).read_text(), self.run_program(*arguments),
                             f"run: build/release/bin/lathe {' '.join(arguments)} > docs/{page}")

    def test_doctor_prints_machine_and_options(self):
        text = self.run_program("doctor", env={"LATHE_THREADS": "3", "HOME": "/nonexistent"})
        for row in ("version", "system", "processor", "memory", "target", "gpu", "codegen", "ops"):
            self.assertRegex(text, rf"(?m)^{row} ")
        self.assertIn("option       threads = 3 (from LATHE_THREADS)", text)
        for vendor in ("cuda", "hip"):
            self.assertRegex(text, rf"(?m)^gpu +{vendor}(: none: |:0: )\S")


class Ends(program.ProgramTest):
    def slow_kernel(self):
        """A matrix multiplication that takes minutes."""
        return self.save_model("slow.onnx", [helper.make_node("MatMul", ["a", "a"], ["y"])],
                               [("a", TensorProto.FLOAT, ["n", "n"])], [("y", TensorProto.FLOAT, None)])

    def interrupt(self, *arguments):
        """Interrupts a run that has begun: after the log's line the user time is that of its launches.

        The system's time is not: before the first launch it clears the pages of large results."""
        process = self.start(*arguments, "--log", 1, "--threads", 1)
        self.assertIn(b" launches, ", process.stderr.readline())
        begin = self.user_time(process)
        while self.user_time(process) < begin + 0.5:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.SECONDS)
        self.assertEqual(process.returncode, 130)
        return err.decode()

    def user_time(self, process):
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")

    def test_an_interrupt_ends_a_loop(self):
        self.assertIn("error: run cancelled after ",
                      self.interrupt("run", endless_model(self), "--output", "y.npy"))
        self.assertFalse(self.path("y.npy").exists())

    def test_an_interrupt_ends_even_a_long_kernel(self):
        self.assertIn("error: interrupted: exiting with work unfinished",
                      self.interrupt("run", self.slow_kernel(), "--fill", "n=12000"))

    def test_a_timeout_ends_a_run(self):
        self.run_program("run", endless_model(self), "--timeout", 0.5, code=130)
        self.assertIn("timed out after", self.stderr)


if __name__ == "__main__":
    program.main()
