# SPDX-License-Identifier: MIT
"""Programs adapted from published examples, each run with onnxruntime and with lathe.onnxruntime: the
same code, the same results within 1e-4."""

import tempfile
import threading
import warnings

import package

package.find()

import numpy as np
import onnxruntime

import lathe.onnxruntime

CPU = ["CPUExecutionProvider"]
RANDOM = np.random.default_rng(5)


def path_of(name):
    path = package.SHARED / "models" / name
    if not path.exists():
        raise package.Skip(f"{path} is not present")
    return str(path)


def compare(program, rtol=1e-4, atol=1e-4):
    """Runs the program with both libraries; its results are a list of arrays or plain values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = program(onnxruntime), program(lathe.onnxruntime)
    assert len(theirs) == len(ours)
    for expected, got in zip(theirs, ours):
        if isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol, atol)
        elif isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(got, expected)
        else:
            assert got == expected, (got, expected)


def signature(session):
    return [(arg.name, arg.type, len(arg.shape)) for arg in session.get_inputs() + session.get_outputs()]


def test_load_and_predict():
    path = path_of("vision/mnist-8/model.onnx")
    image = RANDOM.random((1, 1, 28, 28), np.float32)

    def program(rt):
        session = rt.InferenceSession(path, providers=rt.get_available_providers())
        name = session.get_inputs()[0].name
        label = session.get_outputs()[0].name
        return [session.run([label], {name: image})[0], signature(session)]

    compare(program)


def test_random_input_of_the_shape_of_the_model():
    path = path_of("vision/super-resolution-10/super_resolution.onnx")
    image = RANDOM.random((1, 1, 224, 224), np.float32)

    def program(rt):
        options = rt.SessionOptions()
        options.graph_optimization_level = rt.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = rt.InferenceSession(path, options, providers=CPU)
        shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
        assert np.random.randn(*shape).shape == image.shape
        return session.run(None, {session.get_inputs()[0].name: image})

    compare(program)


def test_detection():
    path = path_of("vision/yolox-nano/yolox_nano.onnx")
    image = RANDOM.random((1, 3, 416, 416), np.float32) * 255

    def program(rt):
        session = rt.InferenceSession(path, providers=CPU)
        boxes = session.run(None, {session.get_inputs()[0].name: image})[0]
        scores = boxes[0, :, 4:5] * boxes[0, :, 5:]
        return [boxes, signature(session), int(scores.max(1).argmax())]

    compare(program, 1e-3, 1e-3)


def test_question_answering_by_bert():
    path = path_of("text/vespa-transformers/dummy_transformer_mlm.onnx")
    ids = RANDOM.integers(0, 30000, (2, 12))

    def program(rt):
        session = rt.InferenceSession(path, providers=CPU)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids)}
        logits = session.run(["logits"], feed)[0]
        return [logits, logits.argmax(-1)]

    compare(program)


def test_speech_with_state():
    path = path_of("audio/silero-vad/silero_vad.onnx")
    samples = RANDOM.standard_normal((20, 1, 576)).astype(np.float32) / 10

    def program(rt):
        options = rt.SessionOptions()
        options.inter_op_num_threads = 1
        options.intra_op_num_threads = 1
        session = rt.InferenceSession(path, sess_options=options, providers=CPU)
        state, out = np.zeros((2, 1, 128), np.float32), []
        for chunk in samples:
            probability, state = session.run(
                None, {"input": chunk, "state": state, "sr": np.array(16000, np.int64)})
            out.append(probability)
        return [np.concatenate(out), state]

    compare(program)


def test_io_binding_with_values_that_stay():
    path = path_of("vision/espcn-qonnx/float_nn_resize.onnx")

    def program(rt):
        session = rt.InferenceSession(path, providers=CPU)
        arg = session.get_inputs()[0]
        shape = [size if isinstance(size, int) else 1 for size in arg.shape]
        image = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        value = rt.OrtValue.ortvalue_from_numpy(image)
        binding = session.io_binding()
        binding.bind_input(name=arg.name, device_type=value.device_name(), device_id=0,
                           element_type=np.float32, shape=value.shape(), buffer_ptr=value.data_ptr())
        binding.bind_output(session.get_outputs()[0].name, "cpu")
        session.run_with_iobinding(binding)
        first = binding.copy_outputs_to_cpu()[0].copy()
        value.update_inplace(image * 2)
        session.run_with_iobinding(binding)
        return [first, binding.get_outputs()[0].numpy()]

    compare(program)


def test_common_errors():
    path = path_of("vision/mnist-8/model.onnx")

    def program(rt):
        state = rt.capi.onnxruntime_pybind11_state
        session = rt.InferenceSession(path, providers=CPU)
        name = session.get_inputs()[0].name
        good = np.zeros((1, 1, 28, 28), np.float32)
        seen = []
        for feed, names in [({name: good.astype(np.float64)}, None), ({"misspelled": good}, None),
                            ({name: good[..., :27]}, None), ({name: good[0]}, None),
                            ({name: good}, ["misspelled"]), ({}, None)]:
            try:
                session.run(names, feed)
                seen.append("fine")
            except (state.InvalidArgument, ValueError) as error:
                seen.append("InvalidArgument" if "input feed" not in str(error) else "ValueError")
        return [seen[0], *seen[2:5], seen[5]]

    compare(program)


def test_metadata():
    path = path_of("vision/mnist-8/model.onnx")

    def program(rt):
        meta = rt.InferenceSession(path, providers=CPU).get_modelmeta()
        return [meta.custom_metadata_map, meta.description, meta.domain, meta.graph_name,
                meta.producer_name, meta.version]

    compare(program)


def test_profiling():
    path = path_of("vision/mnist-8/model.onnx")

    def program(rt):
        import json

        with tempfile.TemporaryDirectory() as folder:
            options = rt.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = f"{folder}/prof"
            session = rt.InferenceSession(path, options, providers=CPU)
            session.run(None, {session.get_inputs()[0].name: np.zeros((1, 1, 28, 28), np.float32)})
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
        kinds = {event["cat"] for event in events}
        spent = sum(event["dur"] for event in events if event["cat"] == "Node")
        return ["Session" in kinds, "Node" in kinds, spent >= 0]

    compare(program)


def test_backend():
    path = path_of("vision/mnist-8/model.onnx")
    image = RANDOM.random((1, 1, 28, 28), np.float32)

    def program(rt):
        import importlib

        backend = importlib.import_module(f"{rt.__name__}.backend")
        return list(backend.prepare(path, "CPU").run(image)) + [backend.supports_device("CPU")]

    compare(program)


def test_quantised_models():
    for name in ("vision/mobilenetv2-qdq-int8/model.onnx", "vision/squeezenet-fp16/model.onnx"):
        path = path_of(name)

        def program(rt, path=path):
            session = rt.InferenceSession(path, providers=CPU)
            arg = session.get_inputs()[0]
            shape = [size if isinstance(size, int) else 1 for size in arg.shape]
            kind = np.float16 if "float16" in arg.type else np.float32
            image = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(kind)
            scores = session.run(None, {arg.name: image})[0]
            return [int(np.asarray(scores).reshape(-1).argmax())]

        compare(program)


def test_providers_of_rocm_with_options():
    path = path_of("vision/mnist-8/model.onnx")
    image = RANDOM.random((1, 1, 28, 28), np.float32)
    options = {
        "device_id": 0,
        "arena_extend_strategy": "kNextPowerOfTwo",
        "gpu_mem_limit": 2 * 1024 * 1024 * 1024,
        "cudnn_conv_algo_search": "EXHAUSTIVE",
        "do_copy_in_default_stream": True,
    }
    for providers in (["MIGraphXExecutionProvider"], ["ROCMExecutionProvider"],
                      [("ROCMExecutionProvider", options)],
                      [("ROCMExecutionProvider", options), "CPUExecutionProvider"]):

        def program(rt, providers=providers):
            session = rt.InferenceSession(path, providers=providers)
            return [*session.run(None, {"Input3": image}), session.get_providers()[-1]]

        compare(program)


def test_a_session_for_each_device():
    path = path_of("vision/mnist-8/model.onnx")
    images = RANDOM.random((2, 1, 1, 28, 28), np.float32)

    def program(rt):
        sessions = [rt.InferenceSession(path, providers=[
            ("MIGraphXExecutionProvider", {"device_id": device}), "CPUExecutionProvider"])
            for device in (0, 1)]
        name = sessions[0].get_inputs()[0].name
        return [session.run(None, {name: image})[0] for session, image in zip(sessions, images)]

    compare(program)


def test_run_async():
    path = path_of("vision/mnist-8/model.onnx")
    image = RANDOM.random((1, 1, 28, 28), np.float32)

    class Await:
        def __init__(self):
            self.event = threading.Event()
            self.outputs, self.error = None, ""

        def fill(self, outputs, error):
            self.outputs, self.error = outputs, error
            self.event.set()

    def callback(outputs, state, error):
        state.fill(outputs, error)

    def program(rt):
        options = rt.SessionOptions()
        options.intra_op_num_threads = 2
        session = rt.InferenceSession(path, options, providers=CPU)
        state = Await()
        session.run_async(["Plus214_Output_0"], {"Input3": image}, callback, state)
        assert state.event.wait(60)
        return [state.outputs[0], state.error]

    compare(program)


def test_random_input_of_a_fixed_shape():
    path = path_of("vision/yolox-nano/yolox_nano.onnx")

    def program(rt):
        session = rt.InferenceSession(path, providers=["MIGraphXExecutionProvider"])
        np.random.seed(4)
        x = np.random.randn(*session.get_inputs()[0].shape).astype(np.float32)
        return session.run(None, {session.get_inputs()[0].name: x})

    compare(program, 1e-3, 1e-3)


package.run(globals())
