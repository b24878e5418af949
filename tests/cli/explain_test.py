# SPDX-License-Identifier: MIT
"""explain --json and the page of explain --html, in a headless Chromium where there is one."""

import json
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import browser
import program
from program import DIGITS

COUNTING = program.ROOT / "examples" / "counting"
HOSTILE = "</script><img src=x onerror=alert(1)><!--'\"&lt;`${alert(2)}"


class PageTest(program.ProgramTest):
    def explain(self, model, *arguments):
        self.page = self.path("page.html")
        printed = self.run_program("explain", model, "--html", self.page, "--json", *arguments)
        return json.loads(printed)

    def loop_model(self, turns):
        """A loop of two instructions, an output that is an input, and an output twice."""
        scalar = [helper.make_tensor_value_info(n, t, []) for n, t in
                  (("i", TensorProto.INT64), ("c", TensorProto.BOOL), ("v", TensorProto.FLOAT))]
        ends = [helper.make_tensor_value_info(n, t, []) for n, t in (("go", TensorProto.BOOL), ("w", TensorProto.FLOAT))]
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Cos", ["v"], ["w"])],
                                 "body", scalar, ends)
        nodes = [helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body), helper.make_node("Identity", ["x"], ["z"]),
                 helper.make_node("Identity", ["y"], ["again"])]
        return self.save_model("loop.onnx", nodes, [("x", TensorProto.FLOAT, [])],
                               [(name, TensorProto.FLOAT, []) for name in ("y", "z", "again")],
                               [numpy_helper.from_array(np.int64(turns), "turns")])

    def hostile_model(self):
        weights = np.ones((8, 8), np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name=HOSTILE),
                 helper.make_node("Relu", ["h"], ["r"], name="<svg/onload=alert(3)>"),
                 helper.make_node("Softmax", ["r"], [HOSTILE], name="]]>\u2028<b>")]
        return self.save_model("hostile.onnx", nodes, [("x", TensorProto.FLOAT, ("n", 8))],
                               [(HOSTILE, TensorProto.FLOAT, ("n", 8))], [numpy_helper.from_array(weights, "w")])


class Explain(PageTest):
    def test_the_work_of_a_product_is_counted(self):
        weights = np.ones((64, 32), np.float32)
        model = self.save_model("m.onnx", [helper.make_node("MatMul", ["x", "w"], ["h"]),
                                           helper.make_node("Relu", ["h"], ["y"])],
                                [("x", TensorProto.FLOAT, ("n", 64))], [("y", TensorProto.FLOAT, ("n", 32))],
                                [numpy_helper.from_array(weights, "w")])
        found = self.explain(model, "--fill", "n=16", "--target", "ref")
        product, relu = found["launches"]
        self.assertEqual((product["work"], relu["work"]), ("product", "elementwise"))
        self.assertEqual(product["operations"], 2 * 16 * 64 * 32)
        self.assertEqual(product["bytes"], 4 * (16 * 64 + 64 * 32 + 16 * 32))
        self.assertEqual((relu["operations"], relu["bytes"]), (16 * 32, 4 * 2 * 16 * 32))
        self.assertEqual((product["after"], relu["after"]), ([], [0]))
        self.assertEqual((product["reads"], relu["writes"]), (["x"], ["y"]))
        # ref fuses nothing: the value between both is written and read.
        fusion = [r for r in found["refusals"] if r["kind"] == "fusion"]
        self.assertEqual([(r["launch"], r["reader"], r["bytes"]) for r in fusion], [(0, 1, 2 * 4 * 16 * 32)])
        self.assertEqual(fusion[0]["reason"], "the target fuses nothing")
        # Without a run the sizes of free dims are not known.
        plain = json.loads(self.run_program("explain", model, "--json", "--target", "ref"))
        self.assertIsNone(plain["launches"][0]["bytes"])
        refusal = plain["refusals"][0]
        self.assertEqual((refusal["bytes"], refusal["symbolic_bytes"]), (None, f"{2 * 4 * 32}*n"))
        self.assertNotIn("run", plain)
        self.assertEqual([launch["kernel"] for launch in plain["launches"]],
                         [launch["kernel"] for launch in found["launches"]])

    def test_refusals_are_printed_with_reason_and_bytes(self):
        model = self.save_model("m.onnx", [helper.make_node("Cos", ["x"], ["s"]),
                                           helper.make_node("Relu", ["s"], ["r"]),
                                           helper.make_node("Cos", ["r"], ["y"])],
                                [("x", TensorProto.FLOAT, ("n", 64))], [("y", TensorProto.FLOAT, ("n", 64))])
        printed = self.run_program("explain", model, "--target", "ref")
        self.assertIn("refusals: 2\n", printed)
        self.assertRegex(printed, rf"\n +2  {2 * 2 * 4 * 64}\*n bytes +fusion: the target fuses nothing\n$")
        each = self.run_program("explain", model, "--target", "ref", "--all")
        self.assertRegex(each, rf"\n  {2 * 4 * 64}\*n bytes +fusion: cos 'Cos', relu 'Relu': the target fuses nothing\n")
        self.assertRegex(each, rf"\n  {2 * 4 * 64}\*n bytes +fusion: relu 'Relu', cos 'Cos': the target fuses nothing\n$")
        # A fixed shape has a number.
        self.assertIn(f"refusals: 1\n      1  {2 * 4 * 8 * 64} bytes", self.run_program("explain", self.save_model(
            "fixed.onnx", [helper.make_node("Cos", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
            [("x", TensorProto.FLOAT, (8, 64))], [("y", TensorProto.FLOAT, (8, 64))]), "--target", "ref"))

    def test_copies_are_part_of_the_graph(self):
        launches = json.loads(self.run_program("explain", self.loop_model(3), "--json"))["launches"]
        for launch in launches:
            self.assertLessEqual({"module", "after", "reads", "writes"}, set(launch))
        loop = next(i for i, launch in enumerate(launches) if launch["op"] == "loop")
        written = {name: launch for launch in launches for name in launch["writes"]
                   if launch["module"] == launches[loop]["module"]}
        self.assertEqual(set(written), {"y", "z", "again"})
        self.assertEqual((written["z"]["op"], written["z"]["reads"], written["z"]["after"]), ("copy", ["x"], []))
        self.assertEqual((written["again"]["op"], written["again"]["after"]), ("copy", [loop]))

    def test_work_beyond_64_bits_is_unknown(self):
        huge = (1 << 24, 1 << 24)
        for nodes in ([helper.make_node("MatMul", ["x", "w"], ["y"])],
                      [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]):
            model = self.save_model("huge.onnx", nodes, [(name, TensorProto.FLOAT, huge) for name in ("x", "w")],
                                    [("y", TensorProto.FLOAT, huge)])
            product = json.loads(self.run_program("explain", model, "--json"))["launches"][0]
            self.assertEqual((product["work"], product["operations"], product["bytes"]), ("product", None, 3 * 4 << 48))

    def test_the_times_of_a_run_add_up(self):
        found = self.explain(DIGITS / "digits.onnx", "--input", DIGITS / "four.png", "--threads", 1)
        run, launches = found["run"], found["launches"]
        self.assertEqual(run["threads"], 1)
        self.assertAlmostEqual(sum(launch["ms"] for launch in launches) + run["between_ms"], run["ms"], places=6)
        self.assertAlmostEqual(sum(event["ms"] for event in run["events"] if event["depth"] == 0) + run["between_ms"],
                               run["ms"], places=6)
        self.assertGreater(run["bytes_per_second"], 0)
        self.assertGreater(run["roofs"][0]["operations_per_second"], 0)
        self.assertTrue(all(0 <= launch["ms"] for launch in launches))

    def test_a_model_folder_has_a_page_of_one_token(self):
        found = self.explain(COUNTING, "--threads", 1)
        run, launches = found["run"], found["launches"]
        self.assertEqual(run["inputs"], ["1 token after 128 to 133"])
        self.assertEqual(run["threads"], 1)
        self.assertAlmostEqual(sum(launch["ms"] for launch in launches) + run["between_ms"], run["ms"], places=6)
        self.assertTrue(any(launch["work"] == "product" and launch["calls"] == 1 for launch in launches))
        self.assertIn("packed", found["notes"])
        self.assertIn(found["notes"].splitlines()[0], self.page.read_text())
        before = (COUNTING / "model.onnx").read_bytes()
        self.run_program("explain", COUNTING, "--html", COUNTING / "model.onnx", code=2)
        self.assertEqual((COUNTING / "model.onnx").read_bytes(), before)
        self.run_program("explain", COUNTING, "--html", self.page, "--fill", "x=1", code=2)
        self.assertIn("--fill does not apply to the model folder", self.stderr)

    def test_flags_that_need_a_run_need_a_page(self):
        self.run_program("explain", DIGITS / "digits.onnx", "--input", DIGITS / "four.png", code=2)
        self.assertIn("--html", self.stderr)
        model = self.hostile_model()
        before = model.read_bytes()
        self.run_program("explain", model, "--html", model, code=2)
        self.assertEqual(model.read_bytes(), before)

    def test_names_in_a_model_are_data_of_the_page(self):
        self.explain(self.hostile_model())
        text = self.page.read_text()
        for mark in ("<img", "<b>", "<svg/onload", "onerror=alert(1)>"):
            self.assertNotIn(mark, text)
        self.assertEqual(text.count("</script>"), 2)


class Browser(program.ProgramTest):
    def script(self, text):
        path = self.path("browser")
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def test_a_stub_is_no_browser(self):
        self.assertFalse(browser.runs(self.script("echo 'chromium-browser requires the chromium snap' >&2; exit 1")))
        self.assertFalse(browser.runs(self.script("echo another program")))
        self.assertFalse(browser.runs(self.path("absent")))
        self.assertTrue(browser.runs(self.script("echo Chromium 1.2.3")))

    def test_a_browser_that_does_not_answer_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "sent no message for 0.2 s"):
            browser.Browser(self.path("profile"), self.script("exec sleep 1000"), 0.2)
        with self.assertRaisesRegex(RuntimeError, "ended|sent no message"):
            browser.Browser(self.path("profile"), self.script("printf 'half a message' >&4; exec sleep 1000"), 0.2)


@unittest.skipUnless(browser.PROGRAM, "no Chromium: make test-page installs one")
class Page(PageTest):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(self.path("profile"))
        self.addCleanup(self.browser.close)

    def open(self, model, *arguments):
        found = self.explain(model, *arguments)
        self.browser.open(self.page)
        # The page itself and no other file.
        self.assertEqual([url for url in self.browser.requests() if not url.startswith("data:")], [self.page.as_uri()])
        return found

    def cells(self, table, column):
        return self.browser.value(f"[...document.querySelectorAll('#{table} td[data-column=\"{column}\"]')]"
                                  ".map((cell) => [cell.dataset.value, cell.textContent])")

    def test_its_figures_are_those_of_the_json(self):
        found = self.open(DIGITS / "digits.onnx", "--input", DIGITS / "four.png")
        launches, run = found["launches"], found["run"]
        for column, key in (("Launch", "name"), ("Kernel", "kernel")):
            self.assertEqual([text for _, text in self.cells("list", column)], [launch[key] for launch in launches])
        for column, key in (("Time", "ms"), ("Bytes", "bytes"), ("Operations", "operations")):
            self.assertEqual([float(value) for value, _ in self.cells("list", column)],
                             [launch[key] for launch in launches])
        for launch, (_, text) in zip(launches, self.cells("list", "Time")):
            self.assertAlmostEqual(float(text.split()[0]), launch["ms"], delta=max(1e-4, launch["ms"] * 1e-3))
        self.assertEqual([(int(value), text) for value, text in self.cells("refused", "Bytes")][:1],
                         [(found["refusals"][0]["bytes"], self.cells("refused", "Bytes")[0][1])])
        self.assertEqual([text for _, text in self.cells("refused", "Reason")],
                         [refusal["reason"] for refusal in found["refusals"]])
        figures = dict(self.browser.value("[...document.querySelectorAll('[data-figure]')]"
                                          ".map((f) => [f.dataset.figure, Number(f.dataset.value)])"))
        self.assertEqual(figures["ms"], run["ms"])
        self.assertEqual(figures["kernels"] + figures["views"], len(launches))
        self.assertEqual(figures["bandwidth"], run["bytes_per_second"])
        self.assertEqual(figures["roof-f32"], run["roofs"][0]["operations_per_second"])
        self.assertEqual(figures["bytes"], sum(launch["bytes"] * launch["calls"] for launch in launches))
        points = self.browser.value("[...document.querySelectorAll('#roofs circle')]"
                                    ".map((c) => [Number(c.dataset.launch), Number(c.dataset.x), Number(c.dataset.y)])")
        expected = [i for i, l in enumerate(launches) if l["operations"] and l["bytes"] and l["ms"] > 0]
        self.assertEqual(sorted(point[0] for point in points), expected)
        for i, x, y in points:
            launch = launches[i]
            self.assertAlmostEqual(x, launch["operations"] / launch["bytes"], delta=1e-9 * x)
            self.assertAlmostEqual(y, launch["operations"] * launch["calls"] / launch["ms"] * 1e3, delta=1e-9 * y)
        bars = self.browser.value("document.querySelectorAll('#timeline rect').length")
        self.assertEqual(bars, len(run["events"]))
        shown = [launch for launch in launches if launch["work"] != "view"]
        self.assertEqual(self.browser.value("document.querySelectorAll('#nodes .node:not(.end)').length"), len(shown))
        self.assertEqual(self.browser.messages, [])

    def test_a_long_loop_is_shown_in_part(self):
        found = self.open(self.loop_model(75_000))
        events = found["run"]["events"]
        self.assertGreater(len(events), 150_000)
        self.assertEqual(self.browser.messages, [])
        self.assertEqual(self.browser.value("document.querySelectorAll('#timeline rect').length"), 10_000)
        self.assertIn(f"10000 longest of {len(events)} events", self.browser.value("document.getElementById('left-out').innerText"))
        self.assertEqual(len(self.cells("list", "Launch")), len(found["launches"]))
        boxes = self.browser.value("[...document.querySelectorAll('#nodes .node:not(.end) title')].map((t) => t.textContent)")
        self.assertEqual(sum(text.startswith("copy: ") for text in boxes),
                         sum(launch["op"] == "copy" for launch in found["launches"]))
        # Arrow keys visit each launch once, however often it ran.
        self.browser.value("document.getElementById('timeline').focus()")
        order = list(dict.fromkeys(event["launch"] for event in events if event["launch"] is not None))
        for launch in order:
            self.browser.press("ArrowRight")
            self.assertEqual(self.browser.value("document.querySelector('#selected h3').textContent"),
                             found["launches"][launch]["name"])

    def test_keys_reach_everything_in_both_themes(self):
        found = self.open(DIGITS / "digits.onnx")
        title = "document.querySelector('#selected h3').textContent"
        events = [event["launch"] for event in found["run"]["events"]]
        self.browser.value("document.getElementById('timeline').focus()")
        for i in range(2):
            self.browser.press("ArrowRight")
            self.assertEqual(self.browser.value(title), found["launches"][events[i]]["name"])
        self.browser.press("+")
        self.browser.press("End")
        self.assertEqual(self.browser.value(title), found["launches"][events[-1]]["name"])
        self.browser.value("document.getElementById('nodes').focus()")
        self.browser.press("Home")
        first = self.browser.value(title)
        self.browser.press("ArrowDown")
        self.assertNotEqual(self.browser.value(title), first)
        self.browser.press("/")
        self.assertEqual(self.browser.value("document.activeElement.id"), "filter")
        self.browser.value("document.getElementById('filter').value = 'no such launch';"
                           "document.getElementById('filter').dispatchEvent(new Event('input'))")
        self.assertEqual(self.browser.value("[...document.querySelectorAll('#list tbody tr')].filter((r) => !r.hidden).length"), 0)
        self.browser.press("Escape")
        ground = "getComputedStyle(document.body).backgroundColor"
        grounds = set()
        for theme in ("light", "dark"):
            self.browser.press("t")
            self.assertEqual(self.browser.value("document.documentElement.dataset.theme"), theme)
            grounds.add(self.browser.value(ground))
        self.assertEqual(len(grounds), 2)
        self.assertEqual(self.browser.messages, [])

    def test_hostile_names_are_shown_as_they_are(self):
        found = self.open(self.hostile_model())
        names = [text for _, text in self.cells("list", "Launch")]
        self.assertEqual(names, [launch["name"] for launch in found["launches"]])
        self.assertTrue(any("</script>" in name for name in names))
        self.assertEqual(self.browser.value("document.querySelectorAll('img, b').length"), 0)
        self.assertEqual(self.browser.messages, [])


if __name__ == "__main__":
    program.main()
