# SPDX-License-Identifier: MIT
"""Values on a device: OrtValue, IO binding and DLPack on `sim` and on `gpu:host`, to the values of the host."""

import ctypes
import itertools
import unittest.mock

import numpy as np
import package

package.find()

import lathe
import lathe.onnxruntime as ort
from lathe import _core
from lathe.onnxruntime import OrtDevice, SessionIOBinding, _providers, backend

MODEL = "examples/digits/digits.onnx"
DEVICES = ("sim", "gpu:host")


def session_on(target):
    return ort.InferenceSession(MODEL, providers=[("LatheExecutionProvider", {"target": target})])


def pixels(seed, shape):
    return np.random.default_rng(seed).random([1 if not isinstance(n, int) else n for n in shape], np.float32)


HOST = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
INPUT, OUTPUT = HOST.get_inputs()[0], HOST.get_outputs()[0].name
X = pixels(1, INPUT.shape)
WANTED = HOST.run(None, {INPUT.name: X})[0]


def near(found, wanted=WANTED):
    assert found.shape == wanted.shape and np.abs(found - wanted).max() < 1e-4


def test_values():
    for device in DEVICES:
        value = ort.OrtValue.ortvalue_from_numpy(X, device)
        assert value.device_name() == device.split(":")[0]
        assert value.shape() == list(X.shape) and value.is_tensor() and value.has_value()
        assert (value.data_type(), value.element_type()) == ("tensor(float)", 1)
        assert value.tensor_size_in_bytes() == X.nbytes and value.data_ptr() != X.ctypes.data
        assert np.array_equal(value.numpy(), X) and np.array_equal(np.asarray(value), X)
        zeros = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float16, device)
        assert zeros.numpy().dtype == np.float16 and not zeros.numpy().any()
        zeros.update_inplace(np.ones((2, 3), np.float16))
        assert zeros.numpy().all()
        package.raises(lathe.InvalidArgument, lambda: zeros.update_inplace(np.ones(3, np.float16)), "cannot copy")
        other = ort.OrtValue.ortvalue_from_shape_and_type(X.shape, np.float32, device)
        ort.copy_tensors([value], [other])
        assert np.array_equal(other.numpy(), X)


def test_runs_read_values_on_the_device():
    for device in DEVICES:
        session = session_on(device)
        value = ort.OrtValue.ortvalue_from_numpy(X, device)
        near(session.run(None, {INPUT.name: value._value})[0])
        [result] = session.run_with_ort_values(None, {INPUT.name: value})
        near(result.numpy())
        assert result.device_name() == "cpu"


def test_binding():
    for device in DEVICES:
        session = session_on(device)
        binding = session.io_binding()
        value = ort.OrtValue.ortvalue_from_numpy(X, device)
        binding.bind_ortvalue_input(INPUT.name, value)
        binding.bind_output(OUTPUT, device)
        session.run_with_iobinding(binding)
        [result] = binding.get_outputs()
        assert result.device_name() == device.split(":")[0]
        near(result.numpy())
        near(binding.copy_outputs_to_cpu()[0])
        # Memory of the caller, by its address; then new content at it.
        room = ort.OrtValue.ortvalue_from_shape_and_type(WANTED.shape, np.float32, device)
        binding.bind_input(INPUT.name, device, 0, np.float32, X.shape, value.data_ptr())
        binding.bind_output(OUTPUT, device, 0, np.float32, WANTED.shape, room.data_ptr())
        for seed in range(3):
            x = pixels(seed, X.shape)
            value.update_inplace(x)
            session.run_with_iobinding(binding)
            near(room.numpy(), HOST.run(None, {INPUT.name: x})[0])
        binding.bind_ortvalue_output(OUTPUT, room)
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].data_ptr() == room.data_ptr()
        # Both on the host again.
        binding.bind_cpu_input(INPUT.name, X)
        binding.bind_output(OUTPUT)
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].device_name() == "cpu"
        near(binding.get_outputs()[0].numpy())
        low = SessionIOBinding(session)
        low.bind_input(INPUT.name, value)
        low.bind_output(OUTPUT, OrtDevice.make(device, 0))
        session.run_with_iobinding(low)
        assert low.get_outputs()[0].device_name() == device.split(":")[0]


def test_a_result_of_the_host_is_copied_to_the_device():
    binding = HOST.io_binding()
    binding.bind_cpu_input(INPUT.name, X)
    binding.bind_output(OUTPUT, "sim")
    HOST.run_with_iobinding(binding)
    assert binding.get_outputs()[0].device_name() == "sim"
    near(binding.get_outputs()[0].numpy())


def test_values_of_another_device_are_refused():
    value = ort.OrtValue.ortvalue_from_numpy(X, "gpu:host")
    package.raises(lathe.InvalidArgument, lambda: HOST.run(None, {INPUT.name: value._value}), "lies on device 'gpu:host'")
    binding = session_on("sim").io_binding()
    binding.bind_cpu_input(INPUT.name, X)
    room = ort.OrtValue.ortvalue_from_shape_and_type(WANTED.shape, np.float32, "gpu:host")
    binding.bind_ortvalue_output(OUTPUT, room)
    package.raises(lathe.InvalidArgument, binding._run, "but the plan runs on 'sim'")
    package.raises(lathe.Unsupported, lambda: ort.OrtValue.ortvalue_from_numpy(X, "hip", 4096), "device memory")
    package.raises(lathe.Unsupported, lambda: ort.OrtValue.ortvalue_from_numpy(X, "dml"), "device memory")


def test_dlpack():
    for device in DEVICES:
        value = ort.OrtValue.ortvalue_from_numpy(X, device)
        kind, number = value.__dlpack_device__()
        assert kind == 12 and number >= 0
        for versioned in (None, (1, 0)):
            shared = ort.OrtValue.from_dlpack(value.__dlpack__(max_version=versioned))
            assert shared.data_ptr() == value.data_ptr() and np.array_equal(shared.numpy(), X)
        assert ort.OrtValue.from_dlpack(value).data_ptr() == value.data_ptr()
    assert ort.OrtValue.from_dlpack(ort.OrtValue.ortvalue_from_numpy(X)).device_name() == "cpu"


class Producer:
    """A value of another library, whose work the consumer's stream shall follow."""

    def __init__(self, value):
        self.value, self.stream = value, None

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.stream = stream
        return self.value.__dlpack__(max_version=max_version)


class OlderProducer(Producer):
    """One that knows no versions."""

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


def test_a_producer_follows_the_stream_of_the_device():
    for device, make in itertools.product(DEVICES, (Producer, OlderProducer)):
        producer = make(ort.OrtValue.ortvalue_from_numpy(X, device))
        shared = _core.from_dlpack(producer, waits_on=device)
        # Only a driver's streams have handles.
        assert (producer.stream is not None) == (device == "gpu:host") and producer.stream != 0
        near(session_on(device).run(None, {INPUT.name: shared})[0])
        assert np.array_equal(shared.numpy(), X)
        other = _core.from_dlpack(producer, waits_on=device)
        other.assign(X + 1)
        assert np.array_equal(producer.value.numpy(), X + 1)


def read_only(value):
    """A value of the same memory, from a producer that forbids writes."""
    capsule = value.__dlpack__(max_version=(1, 0))
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # Behind the version, the context and the deleter.
    ctypes.c_uint64.from_address(address(capsule, b"dltensor_versioned") + 24).value = 1
    return ort.OrtValue.from_dlpack(capsule)


def test_read_only_memory_is_not_written():
    for device in DEVICES:
        value = ort.OrtValue.ortvalue_from_shape_and_type(WANTED.shape, np.float32, device)
        for fixed in (read_only(value), ort.OrtValue.from_dlpack(read_only(value))):
            assert fixed.data_ptr() == value.data_ptr() and fixed.__dlpack_device__() == value.__dlpack_device__()
            package.raises(lathe.InvalidArgument, lambda: fixed.update_inplace(WANTED), "read-only")
            package.raises(lathe.InvalidArgument, fixed.__dlpack__, "read-only")
            binding = session_on(device).io_binding()
            package.raises(lathe.InvalidArgument, lambda: binding.bind_ortvalue_output(OUTPUT, fixed), "read-only")
        assert not value.numpy().any()
        value.update_inplace(WANTED)
        near(fixed.numpy())


def test_extension_devices_of_other_libraries_are_refused():
    value = ort.OrtValue.ortvalue_from_numpy(X, "sim")

    class Foreign:
        def __dlpack_device__(self):
            return value.__dlpack_device__()

        def __dlpack__(self, max_version=None):
            capsule = value.__dlpack__(max_version=max_version)
            # Another library's capsule has another destructor.
            set_destructor = ctypes.pythonapi.PyCapsule_SetDestructor
            set_destructor.argtypes = [ctypes.py_object, ctypes.c_void_p]
            set_destructor(capsule, None)
            return capsule

    for take in (ort.OrtValue.from_dlpack, lathe.argument.from_dlpack):
        package.raises(lathe.InvalidArgument, lambda take=take: take(Foreign()), "DLPack device (12, ")
        assert take(value) is not None
    package.raises(lathe.InvalidArgument, lambda: ort.OrtValue.from_dlpack(Foreign().__dlpack__()), "(12, ")


def devices(*present):
    """A machine with these GPUs."""
    return unittest.mock.patch.object(_core, "has_device", side_effect=lambda name: name in present)


def target_of(*providers):
    return _providers.choose_target(_providers.normalize(list(providers), None), True)[0]


def test_gpus_are_for_providers_that_name_them():
    amd, nvidia = ("gpu", "hip", "hip:0", "hip:1"), ("gpu", "cuda", "cuda:0")
    with devices(*amd, *nvidia) as asked:
        session = ort.InferenceSession(MODEL)
        assert (session._target, session.get_providers()) == ("cpu", ["CPUExecutionProvider"])
        assert target_of() == target_of("CPUExecutionProvider") == target_of("LatheExecutionProvider") == "cpu"
        assert lathe.get_target("cpu").name == "cpu"
        assert not asked.called, asked.call_args_list
        assert target_of("MIGraphXExecutionProvider") == target_of("ROCMExecutionProvider") == "hip:0"
        assert target_of(("ROCMExecutionProvider", {"device_id": 1})) == "hip:1"
        assert target_of(("CUDAExecutionProvider", {"device_id": 7})) == "cuda:7"
    listed = {}
    for name, present in (("amd", amd), ("nvidia", nvidia), ("none", ())):
        with devices(*present):
            listed[name] = [name.removesuffix("ExecutionProvider") for name in ort.get_available_providers()]
            assert (ort.get_device() == "GPU") == ("gpu" in lathe.get_targets()) == bool(present)
    assert listed == {"amd": ["MIGraphX", "ROCM", "Lathe", "CPU"], "nvidia": ["CUDA", "Lathe", "CPU"],
                      "none": ["Lathe", "CPU"]}
    with devices(*amd):
        package.raises(RuntimeError, lambda: target_of("CUDAExecutionProvider"), "CUDAExecutionProvider")
        assert not {"gpu", "device memory"} & set(lathe.features())


def test_the_backend_runs_on_the_device_it_was_asked_for():
    assert backend.supports_device("gpu:host") and not backend.supports_device("HIP:4096")
    [found] = backend.prepare(MODEL, "GPU:HOST").run([X])
    near(found)
    with devices("cuda:1"), unittest.mock.patch.object(ort.InferenceSession, "_load", side_effect=KeyError) as load:
        package.raises(KeyError, lambda: backend.prepare(MODEL, "CUDA:1"))
        assert load.call_args.args[0] == [("LatheExecutionProvider", {"target": "cuda:1"})]
        package.raises(RuntimeError, lambda: backend.prepare(MODEL, "GPU"), "is not present")


def test_copies_of_migraphx_are_refused_with_their_remedy():
    for call in (lathe.to_gpu, lathe.from_gpu, lathe.allocate_gpu, lathe.gpu_sync):
        error = package.raises(lathe.Unsupported, call, "pass arrays to program.run()")
        assert "no such device" not in str(error)


def test_targets():
    assert ("gpu" in lathe.get_targets()) == _core.has_device("gpu")
    package.raises(lathe.Unsupported, lambda: lathe.get_target("hip:4096"), "get_target('hip:4096') is not supported: gpu")
    p, expected = lathe.parse_onnx(MODEL), lathe.parse_onnx(MODEL)
    p.compile(lathe.get_target("gpu:host"))
    expected.compile(lathe.get_target("cpu"))
    inputs = {name: np.full(shape.lens(), 0.5, np.float32) for name, shape in p.get_parameter_shapes().items()}
    near(np.asarray(p.run(inputs)[0]), np.asarray(expected.run(inputs)[0]))


package.run(globals())
