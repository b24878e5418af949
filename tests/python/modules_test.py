# SPDX-License-Identifier: MIT
"""Programs built by the names of MIGraphX: instructions, literals, macros, bodies of if."""

import package

package.find()

import numpy as np

import lathe

CPU = lathe.get_target("cpu")


def run(build, **inputs):
    """Builds a program whose parameters have the inputs' shapes; its results."""
    p = lathe.program()
    mm = p.get_main_module()
    refs = [mm.add_parameter(name, lathe.argument(value).get_shape())
            for name, value in inputs.items()]
    made = build(mm, *refs)
    mm.add_return(made if isinstance(made, list) else [made])
    p.compile(CPU)
    return [np.asarray(value) for value in p.run(inputs)]


def apply(name, **attributes):
    return lambda mm, *args: mm.add_instruction(lathe.op(name, **attributes), list(args))


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10 - 1


def test_literals_and_parameters():
    p = lathe.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", lathe.shape(type="int32_type", lens=[3]))
    two = mm.add_literal(np.array([2, 2, 2], np.int32))
    assert two.get_literal().tolist() == [2, 2, 2] and x.name() == "@param"
    total = mm.add_instruction(lathe.op("add"), [x, two])
    assert total.shape() == lathe.shape(type="int32", lens=[3]) and total.inputs() == [x, two]
    mm.add_return([total])
    assert p.get_parameter_names() == ["x"] and p.get_output_shapes()[0].lens() == [3]
    p.compile(CPU)
    assert p.run({"x": np.array([1, 2, 3], np.int32)})[0].tolist() == [3, 4, 5]
    assert p.run({"x": np.array([0, 0, 7], np.int32)})[0].tolist() == [2, 2, 9]


def test_a_module_without_return_has_its_last_value():
    p = lathe.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", lathe.shape(type="float", lens=[2]))
    mm.add_instruction(lathe.op("neg"), [x])
    assert p.run({"x": [1, 2]})[0].tolist() == [-1, -2]


def test_elementwise_and_movement_ops():
    for name, expected in {"relu": np.maximum(X, 0), "exp": np.exp(X), "tanh": np.tanh(X),
                           "recip": 1 / (X + 9), "sqdiff": (X - X) ** 2}.items():
        args = (X, X) if name == "sqdiff" else (X + 9 if name == "recip" else X,)
        inputs = {f"x{i}": value for i, value in enumerate(args)}
        np.testing.assert_allclose(run(apply(name), **inputs)[0], expected, 1e-4, 1e-5)
    for name, attributes, expected in [
            ("transpose", {"permutation": [2, 0, 1]}, X.transpose(2, 0, 1)),
            ("reshape", {"dims": [4, 6]}, X.reshape(4, 6)),
            ("slice", {"axes": [1], "starts": [1], "ends": [3]}, X[:, 1:3]),
            ("unsqueeze", {"axes": [0]}, X[None]),
            ("multibroadcast", {"out_lens": [5, 2, 3, 4]}, np.broadcast_to(X, (5, 2, 3, 4))),
            ("flatten", {"axis": 2}, X.reshape(6, 4)),
            ("reverse", {"axes": [2]}, X[..., ::-1]),
            ("reduce_sum", {"axes": [1]}, X.sum(1, keepdims=True)),
            ("reduce_mean", {"axes": [0, 2]}, X.mean((0, 2), keepdims=True)),
            ("convert", {"target_type": "half_type"}, X.astype(np.float16)),
            ("softmax", {"axis": 2}, np.exp(X) / np.exp(X).sum(2, keepdims=True)),
            ("argmax", {"axis": 2}, X.argmax(2)[..., None]),
            ("pad", {"pads": [0, 0, 1, 0, 0, 1]}, np.pad(X, ((0, 0), (0, 0), (1, 1)))),
            ("prefix_scan_sum", {"axis": 1}, X.cumsum(1))]:
        got = run(apply(name, **attributes), x=X)[0]
        assert got.shape == expected.shape, (name, got.shape)
        np.testing.assert_allclose(got.astype(np.float32), expected, 2e-3, 1e-4, err_msg=name)
    row = np.arange(3, dtype=np.float32)
    got = run(apply("broadcast", axis=1, out_lens=[2, 3, 4]), x=row)[0]
    np.testing.assert_array_equal(got, np.broadcast_to(row[None, :, None], (2, 3, 4)))
    got = run(lambda mm, a, b: mm.add_instruction(lathe.op("concat", axis=2), [a, b]), a=X, b=X)[0]
    np.testing.assert_array_equal(got, np.concatenate([X, X], 2))


def test_matrices_convolutions_and_pooling():
    a, b = np.ones((2, 3), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(run(apply("dot"), a=a, b=b)[0], a @ b)
    image = np.ones((1, 2, 5, 5), np.float32)
    weights = np.ones((3, 2, 3, 3), np.float32)
    got = run(apply("convolution", padding=[1, 1], stride=[2, 2]), x=image, w=weights)[0]
    assert got.shape == (1, 3, 3, 3) and got[0, 0, 1, 1] == 18 and got[0, 0, 0, 0] == 8
    pooled = run(apply("pooling", mode=lathe.op.pooling_mode.average, lengths=[5, 5]), x=image)[0]
    assert pooled.shape == (1, 2, 1, 1) and pooled[0, 0, 0, 0] == 1
    assert run(apply("pooling", mode="max", lengths=[2, 2], stride=[2, 2]), x=image)[0].shape == (
        1, 2, 2, 2)


def test_pooling_windows():
    image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    for mode in ("max", 1, lathe.op.pooling_mode.max):
        got = run(apply("pooling", mode=mode, lengths=[2, 2], dilations=[3, 2], stride=[1, 2]),
                  x=image)[0]
        assert got.tolist() == [[[[17, 19], [22, 24]]]]
    assert run(apply("pooling", mode="average", dyn_global=True), x=image)[0].tolist() == [[[[12]]]]
    got = run(apply("pooling", mode="lpnorm", lengths=[5, 5], lp_order=1), x=image)[0]
    assert got.tolist() == [[[[300]]]]
    unknown = apply("pooling", mode="mean", lengths=[1, 1])
    package.raises(lathe.InvalidArgument, lambda: run(unknown, x=image), "mode")


def test_scales_of_the_shape_of_the_values():
    x = np.array([[1, -2, 3], [4, 5, 60]], np.float32)
    scale = np.array([[1, 2, 3], [0.5, 1, 2]], np.float32)
    zero = np.array([[1, 2, 3], [-4, 5, 100]], np.int8)
    codes = run(apply("quantizelinear"), x=x, scale=scale, zero=zero)[0]
    assert codes.dtype == np.int8 and codes.tolist() == [[2, 1, 4], [4, 10, 127]]
    np.testing.assert_array_equal(run(apply("dequantizelinear"), x=codes, scale=scale, zero=zero)[0],
                                  [[1, -2, 3], [4, 5, 54]])
    signed = run(apply("quantizelinear", out_type="int8_type"), x=x, scale=scale)[0]
    assert signed.dtype == np.int8 and signed.tolist() == [[1, -1, 1], [8, 5, 30]]
    assert run(apply("quantizelinear"), x=x, scale=scale)[0].tolist() == [[1, 0, 1], [8, 5, 30]]


def test_limits_of_the_shape_of_the_values():
    low, high = np.full_like(X, -0.5), X * 0.5
    np.testing.assert_array_equal(run(apply("clip"), x=X, low=low, high=high)[0],
                                  np.minimum(np.maximum(X, low), high))
    limits = (np.array(-0.5, np.float32), np.array(0.5, np.float32))
    np.testing.assert_array_equal(run(apply("clip"), x=X, low=limits[0], high=limits[1])[0],
                                  np.clip(X, -0.5, 0.5))


def test_indices_of_32_bits():
    at = np.array([[0, 1], [1, 2]], np.int32)
    np.testing.assert_array_equal(run(apply("gathernd"), x=X, at=at)[0], X[[0, 1], [1, 2]])
    expected = X.copy()
    expected[[0, 1], [1, 2]] = 7
    got = run(apply("scatternd_none"), x=X, at=at, values=np.full((2, 4), 7, np.float32))[0]
    np.testing.assert_array_equal(got, expected)


def test_remainders():
    a, b = np.array([5, -5, 5, -7.5], np.float32), np.array([3, 3, -3, -2], np.float32)
    np.testing.assert_array_equal(run(apply("mod"), a=a, b=b)[0], np.mod(a, b))
    np.testing.assert_array_equal(run(apply("fmod"), a=a, b=b)[0], np.fmod(a, b))
    a, b = a.astype(np.int32), b.astype(np.int32)
    np.testing.assert_array_equal(run(apply("mod"), a=a, b=b)[0], np.mod(a, b))


def test_several_results():
    def build(mm, x):
        top = mm.add_instruction(lathe.op("topk", k=2, axis=2), [x])
        return [mm.add_instruction(lathe.op("get_tuple_elem", index=i), [top]) for i in (0, 1)]

    values, indices = run(build, x=X)
    np.testing.assert_array_equal(values, np.sort(X, 2)[..., :1:-1])
    assert indices.dtype == np.int64 and indices[0, 0].tolist() == [3, 2]


def test_macros():
    a, b, c = (np.random.default_rng(i).random((3, 3), np.float32) for i in range(3))
    macro = lambda name, **attributes: lambda mm, *args: mm.add_macro(
        lathe.macro(name, **attributes), list(args))[-1]
    got = run(macro("gemm", alpha=0.5, beta=2.0, transB=True), a=a, b=b, c=c)[0]
    np.testing.assert_allclose(got, 0.5 * a @ b.T + 2 * c, 1e-4)
    got = run(macro("einsum", equation="ij,kj->ik"), a=a, b=b)[0]
    np.testing.assert_allclose(got, a @ b.T, 1e-4)
    got = run(macro("sub", broadcasted_axis=1), a=X, b=X[0, :, 0])[0]
    np.testing.assert_allclose(got, X - X[0, :, 0][:, None])
    assert run(macro("mul"), a=X, b=X[0])[0].shape == X.shape


def test_macros_of_quantised_and_decoder_models():
    x = np.arange(0, 250, 50, dtype=np.uint8)
    zero = np.array(100, np.uint8)
    both = lambda **attributes: lambda mm, *args: mm.add_macro(
        lathe.macro("bias_uint8", **attributes), list(args))
    shifted, difference = run(both(has_bias=True), x=x, zero=zero)
    assert shifted.dtype == np.int8 and shifted.tolist() == [-128, -78, -28, 22, 72]
    assert difference.tolist() == (x.astype(int) - 100).tolist()
    assert [v.tolist() for v in run(both(), x=x, zero=zero)] == [shifted.tolist()] * 2
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 3, 4, 6)).astype(np.float32)
    angles = random.random((9, 3), np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    for interleaved in (False, True):
        for positions in (np.array([[2], [4]]), np.array([[1, 2, 3, 4], [5, 0, 7, 8]])):
            at = positions + np.arange(4) if positions.shape[1] == 1 else positions
            c, s = cos[at][:, None], sin[at][:, None]
            expected = np.empty_like(x)
            even, odd = ((..., slice(0, None, 2)), (..., slice(1, None, 2))) if interleaved else (
                (..., slice(0, 3)), (..., slice(3, None)))
            expected[even] = x[even] * c - x[odd] * s
            expected[odd] = x[odd] * c + x[even] * s
            got = run(lambda mm, *args: mm.add_macro(
                lathe.macro("rotary_embedding", interleaved=interleaved), list(args))[-1],
                x=x, positions=positions, cos=cos, sin=sin)[0]
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def test_bodies_of_if_capture_outer_values():
    p = lathe.program()
    mm = p.get_main_module()
    condition = mm.add_parameter("cond", lathe.shape(type="bool", lens=[]))
    x = mm.add_parameter("x", lathe.shape(type="float", lens=[3]))
    y = mm.add_parameter("y", lathe.shape(type="float", lens=[3]))
    yes, no = p.create_module("yes"), p.create_module("no")
    ten = yes.add_literal(np.full(3, 10, np.float32))
    yes.add_return([yes.add_instruction(lathe.op("add"), [x, ten])])
    no.add_return([no.add_instruction(lathe.op("mul"), [x, y])])
    result = mm.add_instruction(lathe.op("if"), [condition], [yes, no])
    mm.add_return([result])
    p.compile(CPU)
    params = {"x": np.array([1, 2, 3], np.float32), "y": np.full(3, 2, np.float32)}
    assert p.run({"cond": np.array(True), **params})[0].tolist() == [11, 12, 13]
    assert p.run({"cond": np.array(False), **params})[0].tolist() == [2, 4, 6]


def test_bodies_nest():
    p = lathe.program()
    mm = p.get_main_module()
    first = mm.add_parameter("first", lathe.shape(type="bool", lens=[1]))
    second = mm.add_parameter("second", lathe.shape(type="bool", lens=[1]))
    x = mm.add_parameter("x", lathe.shape(type="float", lens=[2]))
    outer, inner, other, last = (p.create_module(name) for name in "abcd")
    inner.add_return([inner.add_instruction(lathe.op("neg"), [x])])
    other.add_return([other.add_instruction(lathe.op("exp"), [x])])
    outer.add_return([outer.add_instruction(lathe.op("if"), [second], [inner, other])])
    last.add_return([last.add_instruction(lathe.op("add"), [x, x])])
    mm.add_return([mm.add_instruction(lathe.op("if"), [first], [outer, last])])
    p.compile(CPU)
    x = np.array([1, 2], np.float32)
    for flags, expected in (((1, 1), -x), ((1, 0), np.exp(x)), ((0, 1), x + x)):
        given = {"first": np.array(flags[:1], bool), "second": np.array(flags[1:], bool), "x": x}
        np.testing.assert_allclose(p.run(given)[0], expected, 1e-5)


def test_loops_carry_values_and_collect_rows():
    p = lathe.program()
    mm = p.get_main_module()
    trips = mm.add_parameter("trips", lathe.shape(type="int64", lens=[1]))
    go = mm.add_parameter("go", lathe.shape(type="bool", lens=[1]))
    start = mm.add_parameter("start", lathe.shape(type="float", lens=[2]))
    factor = mm.add_parameter("factor", lathe.shape(type="float", lens=[2]))
    body = p.create_module("body")
    step = body.add_parameter("step", lathe.shape(type="int64", lens=[1]))
    body.add_parameter("on", lathe.shape(type="bool", lens=[1]))
    x = body.add_parameter("x", lathe.shape(type="float", lens=[2]))
    grown = body.add_instruction(lathe.op("mul"), [x, factor])
    limit = body.add_literal(np.array([3], np.int64))
    on = body.add_instruction(lathe.op("less"), [step, limit])
    row = body.add_instruction(lathe.op("add"), [
        grown, body.add_instruction(lathe.op("convert", target_type="float"), [step])])
    body.add_return([on, grown, row])
    looped = mm.add_instruction(lathe.op("loop", max_iterations=6), [trips, go, start], [body])
    mm.add_return([mm.add_instruction(lathe.op("get_tuple_elem", index=i), [looped]) for i in (0, 1)])
    assert [s.lens() for s in p.get_output_shapes()] == [[2], [6, 2]]
    p.compile(CPU)
    given = {"start": np.array([1, 2], np.float32), "factor": np.array([2, 3], np.float32)}
    for most, enabled, steps in ((2, True, 2), (9, True, 4), (5, False, 0)):
        last, rows = p.run({"trips": np.array([most]), "go": np.array([enabled]), **given})
        expected = np.zeros((6, 2), np.float32)
        value = given["start"]
        for i in range(steps):
            value = value * given["factor"]
            expected[i] = value + i
        np.testing.assert_allclose(last, value)
        np.testing.assert_allclose(rows, expected)
    package.raises(RuntimeError, lambda: mm.add_instruction(lathe.op("loop"), [trips], [body]))


def test_parsed_modules_can_be_read():
    p = lathe.parse_onnx(package.ROOT / "examples/digits/digits.onnx")
    names = [instruction.name() for instruction in p.get_main_module()]
    assert names[0] == "@param" and names[-1] == "@return" and "@literal" in names
    literal = next(i for i in p.get_main_module() if i.name() == "@literal")
    assert literal.get_literal().get_shape().elements() > 0 and literal.outputs()
    package.raises(RuntimeError, lambda: p.get_main_module().add_literal(1))


def test_custom_ops_run_python_functions():
    calls = []

    def scaled(x, factor):
        calls.append(x.shape)
        if factor < 0:
            raise KeyError("negative factor")
        return x * factor

    lathe.custom_op("scaled_by", scaled, attributes={"factor": 2.0}, doc="x times a factor.")
    assert run(apply("scaled_by"), x=X)[0].tolist() == (X * 2).tolist() and calls
    assert run(apply("scaled_by", factor=3.0), x=X)[0].tolist() == (X * 3).tolist()
    package.raises(KeyError, lambda: run(apply("scaled_by", factor=-1.0), x=X), "negative factor")
    lathe.custom_op("rows_and_total", lambda a, b: (a[:1] + b[:1], np.array([a.sum()], a.dtype)),
                    operands=["a", "b"], results=2,
                    compute_shape=lambda a, b: [lathe.shape(type=a.type(), lens=[1, *a.lens()[1:]]),
                                                lathe.shape(type=a.type(), lens=[1])])

    def build(mm, a, b):
        both = mm.add_instruction(lathe.op("rows_and_total"), [a, b])
        return [mm.add_instruction(lathe.op("get_tuple_elem", index=i), [both]) for i in (0, 1)]

    row, total = run(build, a=X, b=X)
    np.testing.assert_allclose(row, 2 * X[:1])
    np.testing.assert_allclose(total, [X.sum()], 1e-5)
    lathe.custom_op("wrong_shape", lambda x: x[:1])
    package.raises(RuntimeError, lambda: run(apply("wrong_shape"), x=X), "shape")
    package.raises(RuntimeError, lambda: lathe.custom_op("add", scaled), "add")


def test_bad_calls_are_errors():
    p = lathe.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", lathe.shape(type="float", lens=[3]))
    for call in (lambda: mm.add_instruction(lathe.op("nothing"), [x]),
                 lambda: mm.add_instruction(lathe.op("add"), [x]),
                 lambda: mm.add_instruction(lathe.op("reshape", dims=[5]), [x]),
                 lambda: mm.add_instruction(lathe.op("softmax", axs=0), [x]),
                 lambda: mm.add_instruction(lathe.op("dot", alpha=2.0), [x, x]),
                 lambda: mm.add_instruction(lathe.op("convolution", padding_mode=1), [x, x]),
                 lambda: mm.add_instruction(lathe.op("if"), [x], []),
                 lambda: mm.add_parameter("x", lathe.shape(type="float", lens=[3])),
                 lambda: x.get_literal(), lambda: lathe.program().compile(CPU)):
        package.raises(RuntimeError, call)
    package.raises(KeyError, lambda: mm.add_instruction(lathe.op("reshape"), [x]))
    mm.add_return([x])
    package.raises(RuntimeError, lambda: mm.add_return([x]))
    assert p.run({"x": [1, 2, 3]})[0].tolist() == [1, 2, 3]


package.run(globals())
