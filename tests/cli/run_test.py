# SPDX-License-Identifier: MIT
"""lathe run: input files, output files and printed values of every format."""

import struct
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import program
from program import DIGITS


def png(pixels):
    """An 8-bit PNG of pixels [height, width] or [height, width, 3]."""
    def chunk(kind, content):
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    height, width = pixels.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def bilinear(row, size):
    """Linear interpolation with half-pixel centres and repeated ends."""
    at = np.clip((np.arange(size) + 0.5) * len(row) / size - 0.5, 0, len(row) - 1)
    return np.interp(at, np.arange(len(row)), row)


class Files(program.ProgramTest):
    def test_digits_are_classified(self):
        labels = (DIGITS / "labels.txt").read_text().split()
        for name in labels:
            text = self.run_program("run", DIGITS / "digits.onnx", "--input", DIGITS / f"{name}.png",
                                    "--labels", DIGITS / "labels.txt", "--top", 2)
            self.assertRegex(text, rf"\Aprobabilities f32\[1, 10\]\n    1\. {name} +(1|0\.\d+)\n    2\. ")

    def test_arrays_are_read_and_written_unchanged(self):
        model = self.identity_model()
        rng = np.random.default_rng(1)
        x = rng.normal(size=(3, 4)).astype(np.float32)
        np.save(self.path("c.npy"), x)
        np.save(self.path("fortran.npy"), np.asfortranarray(x))
        np.save(self.path("swapped.npy"), x.astype(">f4"))
        np.savez(self.path("stored.npz"), x=x)
        np.savez_compressed(self.path("packed.npz"), x=x)
        program.tensor_file(self.path("t.pb"), x)
        for name in ("c.npy", "fortran.npy", "swapped.npy", "stored.npz", "packed.npz", "t.pb"):
            for argument in (name, f"x={name}"):
                np.testing.assert_array_equal(self.result(model, "--input", argument), x)

    def test_named_values_override_defaults(self):
        weights = numpy_helper.from_array(np.full((2,), 3, np.float32), "w")
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"])], "g",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "w")],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])], [weights])
        model = self.path("scaled.onnx")
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)]), model)
        x = np.array([1, 2], np.float32)
        np.savez(self.path("x.npz"), x=x)
        np.savez(self.path("both.npz"), x=x, w=np.array([5, 7], np.float32))
        np.testing.assert_array_equal(self.result(model, "--input", "x.npz"), [3, 6])
        np.testing.assert_array_equal(self.result(model, "--input", "both.npz"), [5, 14])
        np.save(self.path("x.npy"), x)
        np.save(self.path("w.npy"), np.array([4, 9], np.float32))
        np.testing.assert_array_equal(self.result(model, "--input", "x=x.npy", "--input", "w=w.npy"), [4, 18])
        self.assertIn('"default of input w" = "f32[2]"', self.run_program("inspect", model))
        self.run_program("compile", model, "-o", "scaled.lathe")
        for arguments in (("--input", "w=w.npy"), ("--input", "both.npz"), ("--fill", "w=1")):
            self.run_program("run", "scaled.lathe", *arguments, code=2)
            self.assertIn("'w' is not an input: its value is compiled in", self.stderr)

    def test_outputs_are_written_in_every_format(self):
        model = self.identity_model()
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        np.save(self.path("x.npy"), x)
        self.run_program("run", model, "--input", "x.npy", "--output", "all.npz", "--output", "y=one.pb")
        with np.load(self.path("all.npz")) as archive:
            self.assertEqual(archive.files, ["y"])
            np.testing.assert_array_equal(archive["y"], x)
        proto = onnx.TensorProto.FromString(self.path("one.pb").read_bytes())
        self.assertEqual(proto.name, "y")
        np.testing.assert_array_equal(numpy_helper.to_array(proto), x)
        self.assertEqual({p.name for p in self.folder.iterdir()},
                         {"identity.onnx", "x.npy", "all.npz", "one.pb"})

    def test_every_element_type_of_numpy_is_read_and_written(self):
        rng = np.random.default_rng(2)
        for onnx_type, dtype in [
                (TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16),
                (TensorProto.INT8, np.int8), (TensorProto.INT64, np.int64),
                (TensorProto.UINT16, np.uint16), (TensorProto.UINT64, np.uint64),
                (TensorProto.BOOL, np.bool_), (TensorProto.COMPLEX64, np.complex64)]:
            x = rng.integers(0, 2, (2, 4)).astype(dtype)
            np.save(self.path("x.npy"), x)
            y = self.result(self.identity_model(onnx_type), "--input", "x.npy")
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y, x)

    def test_types_that_numpy_lacks_are_raw_bytes(self):
        for onnx_type, dtype in [(TensorProto.BFLOAT16, ml_dtypes.bfloat16),
                                 (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn)]:
            x = np.array([[0.5, -1, 2, 448]], dtype)
            np.save(self.path("x.npy"), x)
            y = self.result(self.identity_model(onnx_type), "--input", "x.npy")
            np.testing.assert_array_equal(y.view(dtype), x)

    def test_types_below_eight_bits_use_a_byte_per_element(self):
        x = np.array([[-8, 7, -1, 3, 0]], np.int8)
        np.save(self.path("x.npy"), x)
        model = self.identity_model(TensorProto.INT4, ("n", 5))
        np.testing.assert_array_equal(self.result(model, "--input", "x.npy"), x)

    def test_strings_are_read_and_written(self):
        x = np.array([["grüße", "", "x\u4e16y", "long" * 50]])
        np.save(self.path("x.npy"), x)
        y = self.result(self.identity_model(TensorProto.STRING), "--input", "x.npy")
        np.testing.assert_array_equal(y, x)

    def test_empty_tensors_are_read_and_written(self):
        np.save(self.path("x.npy"), np.zeros((0, 4), np.float32))
        self.assertEqual(self.result(self.identity_model(), "--input", "x.npy").shape, (0, 4))

    def test_random_inputs_depend_only_on_the_seed(self):
        model = self.identity_model()
        first = self.result(model, "--seed", 1, "--fill", "n=5")
        np.testing.assert_array_equal(self.result(model, "--seed", 1, "--fill", "n=5"), first)
        self.assertFalse((self.result(model, "--seed", 2, "--fill", "n=5") == first).any())
        self.assertEqual(first.shape, (5, 4))
        self.assertTrue((np.abs(first) <= 1).all() and first.std() > 0.3)

    def test_fill_sets_every_element(self):
        np.testing.assert_array_equal(self.result(self.identity_model(), "--fill", "x=2.5"),
                                      np.full((1, 4), 2.5, np.float32))

    def test_an_initialiser_can_be_overridden(self):
        model = self.save_model("d.onnx", [helper.make_node("Add", ["x", "b"], ["y"])],
                                [("x", TensorProto.FLOAT, [2]), ("b", TensorProto.FLOAT, [2])],
                                [("y", TensorProto.FLOAT, [2])],
                                [numpy_helper.from_array(np.array([10, 20], np.float32), "b")])
        np.testing.assert_array_equal(self.result(model, "--fill", "x=1"), [11, 21])
        np.testing.assert_array_equal(self.result(model, "--fill", "x=1", "--fill", "b=5"), [6, 6])

    def test_states_carry_over_between_runs(self):
        model = self.save_model(
            "s.onnx", [helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
                       helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0)],
            [("past", TensorProto.FLOAT, ["p"]), ("x", TensorProto.FLOAT, ["n"])],
            [("present", TensorProto.FLOAT, None), ("y", TensorProto.FLOAT, None)])
        self.assertEqual(self.result(model, "--state", "past=present", "--fill", "x=2", "--fill", "n=3",
                                     "--runs", 4), 24)


class Images(program.ProgramTest):
    def pixels_of(self, pixels, dims, *arguments, element_type=TensorProto.FLOAT):
        self.path("p.png").write_bytes(png(pixels))
        return self.result(self.identity_model(element_type, dims), "--input", "p.png", *arguments)

    def test_pixels_are_scaled_to_0_to_1(self):
        pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
        found = self.pixels_of(pixels, (1, 1, "h", "w"))
        np.testing.assert_allclose(found[0, 0], pixels / 255, rtol=1e-6)
        np.testing.assert_allclose(self.pixels_of(pixels, ("h", "w")), pixels / 255, rtol=1e-6)

    def test_channels_are_first_or_last(self):
        pixels = np.random.default_rng(3).integers(0, 256, (5, 6, 3)).astype(np.uint8)
        first = self.pixels_of(pixels, ("n", 3, "h", "w"))
        np.testing.assert_allclose(first[0], pixels.transpose(2, 0, 1) / 255, rtol=1e-6)
        last = self.pixels_of(pixels, (1, "h", "w", 3))
        np.testing.assert_allclose(last[0], pixels / 255, rtol=1e-6)
        named = self.pixels_of(pixels, (1, "h", "w", "c"), "--layout", "nhwc")
        np.testing.assert_allclose(named[0], pixels / 255, rtol=1e-6)

    def test_integers_are_not_scaled(self):
        pixels = np.random.default_rng(4).integers(0, 256, (5, 6, 3)).astype(np.uint8)
        found = self.pixels_of(pixels, (1, "h", "w", 3), element_type=TensorProto.UINT8)
        np.testing.assert_array_equal(found[0], pixels)

    def test_normalisation_is_per_channel(self):
        pixels = np.full((2, 2, 3), 51, np.uint8)
        found = self.pixels_of(pixels, (1, 3, 2, 2), "--mean", "0.1,0.2,0.3", "--std", "0.5,0.25,2")
        np.testing.assert_allclose(found[0, :, 0, 0], [0.2, 0, -0.05], atol=1e-6)
        found = self.pixels_of(pixels, (1, 3, 2, 2), "--scale", "2")
        np.testing.assert_allclose(found, np.full((1, 3, 2, 2), 102), rtol=1e-6)

    def test_downscaling_averages_areas(self):
        pixels = np.random.default_rng(5).integers(0, 256, (6, 6)).astype(np.uint8)
        found = self.pixels_of(pixels, (1, 1, 3, 2))
        expected = pixels.reshape(3, 2, 2, 3).mean(axis=(1, 3)) / 255
        np.testing.assert_allclose(found[0, 0], expected, rtol=1e-5)

    def test_downscaling_weights_partial_pixels(self):
        pixels = np.array([[0, 90, 240]], np.uint8)
        found = self.pixels_of(pixels, (1, 1, 1, 2), "--scale", "1")
        np.testing.assert_allclose(found[0, 0, 0], [(0 + 0.5 * 90) / 1.5, (0.5 * 90 + 240) / 1.5],
                                   rtol=1e-6)

    def test_upscaling_is_bilinear(self):
        pixels = np.random.default_rng(6).integers(0, 256, (3, 4)).astype(np.uint8)
        found = self.pixels_of(pixels, (1, 1, 7, 9), "--scale", "1")
        rows = np.stack([bilinear(row, 9) for row in pixels.astype(float)])
        expected = np.stack([bilinear(column, 7) for column in rows.T]).T
        np.testing.assert_allclose(found[0, 0], expected, rtol=1e-5, atol=1e-4)


class Printing(program.ProgramTest):
    def test_values_are_nested_by_axis(self):
        np.save(self.path("x.npy"), np.array([[1, 2.5, -3, 1e10], [0, np.nan, np.inf, -0.125]], np.float32))
        self.assertEqual(self.run_program("run", self.identity_model(), "--input", "x.npy"),
                         "y f32[2, 4]\n  [[1 2.5 -3 1e+10]\n   [0 nan inf -0.125]]\n")

    def test_long_axes_are_shortened(self):
        model = self.identity_model(dims=("n",))
        text = self.run_program("run", model, "--fill", "n=5000", "--fill", "x=1")
        self.assertEqual(text, "y f32[5000]\n  [1 1 1 … 1 1 1]\n")

    def test_top_sorts_by_value_then_index(self):
        np.save(self.path("x.npy"), np.array([[0, 3, 3, np.nan], [9, 1, 2, 3]], np.float32))
        text = self.run_program("run", self.identity_model(), "--input", "x.npy", "--top", 3)
        rows = [line.split() for line in text.splitlines()]
        self.assertEqual(rows, [["y", "f32[2,", "4]"], ["row", "0"], ["1.", "1", "3"], ["2.", "2", "3"],
                                ["3.", "0", "0"], ["row", "1"], ["1.", "0", "9"], ["2.", "3", "3"],
                                ["3.", "2", "2"]])

    def test_control_characters_in_names_are_escaped(self):
        model = self.save_model("e.onnx", [helper.make_node("Identity", ["x"], ["\x1b[31my"])],
                                [("x", TensorProto.FLOAT, [1])], [("\x1b[31my", TensorProto.FLOAT, [1])])
        self.assertTrue(self.run_program("run", model).startswith(r"\x1b[31my f32[1]"))


if __name__ == "__main__":
    program.main()
