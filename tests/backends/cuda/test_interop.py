"""Memory shared with other libraries: __cuda_array_interface__ and DLPack."""

import gc

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda.interface import imported


class Foreign:
    """An array of another library."""

    def __init__(self, tensor, **changes):
        self.kept = tensor
        interface = {**tensor.__cuda_array_interface__, **changes}
        self.__cuda_array_interface__ = {k: v for k, v in interface.items() if v != "gone"}


class Packed:
    """An array of another library that speaks DLPack only."""

    def __init__(self, tensor, device=None):
        self.kept = tensor
        self.device = device
        self.streams = []

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.kept.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.device or self.kept.__dlpack_device__()


# ---- __cuda_array_interface__ ----------------------------------------------------------------------


def test_what_is_exported(cuda):
    x = plugrad.tensor(np.arange(6.0).reshape(2, 3), device="cuda")
    assert x.__cuda_array_interface__ == {
        "shape": (2, 3),
        "strides": None,
        "typestr": "<f8",
        "data": (x.array.gpudata, False),
        "version": 3,
        "stream": 1,
    }
    flipped = plugrad.Tensor(arrays.view_by(lambda a: a[::-1], x.array))
    interface = flipped.__cuda_array_interface__
    assert interface["strides"] == (-24, 8)
    assert interface["data"][0] == x.array.gpudata + 24
    stream = cuda.Stream()
    with cuda.stream(stream):
        assert x.__cuda_array_interface__["stream"] == stream.ptr


def test_only_on_the_device_and_outside_the_graph(cuda):
    assert not hasattr(plugrad.ones(2), "__cuda_array_interface__")
    assert not hasattr(plugrad.ones(2, requires_grad=True), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="would leave the graph; use detach"):
        plugrad.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__  # noqa: B018


def test_memory_is_shared_not_copied(cuda):
    x = plugrad.tensor(np.arange(6.0).reshape(2, 3), device="cuda")
    shared = plugrad.as_tensor(Foreign(x))
    assert shared.array.gpudata == x.array.gpudata
    assert shared.tolist() == x.tolist()
    arrays.fill(shared.array, 7)
    assert x.tolist() == np.full((2, 3), 7.0).tolist()
    moved = plugrad.as_tensor(Foreign(x), device="cpu")
    assert moved.device == "cpu"
    assert plugrad.tensor(Foreign(x)).array.gpudata != x.array.gpudata


def test_memory_lives_as_long_as_who_shares_it(cuda):
    gc.collect()  # what batteries left
    before = cuda.memory_allocated()
    shared = plugrad.as_tensor(Foreign(plugrad.ones(1000, device="cuda")))
    gc.collect()
    assert cuda.memory_allocated() == before + 4000
    view = plugrad.Tensor(arrays.view_by(lambda a: a[10:], shared.array))
    del shared
    gc.collect()
    assert view.cpu().numpy().sum() == 990
    del view
    gc.collect()
    assert cuda.memory_allocated() == before


def test_forms_of_the_interface(cuda):
    x = plugrad.tensor(np.arange(6.0).reshape(2, 3), device="cuda")
    for changes in (
        {"stream": "gone", "version": 2},
        {"stream": None},
        {"strides": "gone"},
        {"strides": (24, 8)},
        {"stream": 2},
    ):
        assert plugrad.as_tensor(Foreign(x, **changes)).tolist() == x.tolist()
    reverse = Foreign(x, strides=(-24, -8), data=(x.array.gpudata + 40, False))
    assert plugrad.as_tensor(reverse).tolist() == np.arange(6.0)[::-1].reshape(2, 3).tolist()
    empty = Foreign(x, shape=(0, 3), data=(0, False), strides=None)
    assert plugrad.as_tensor(empty).shape == (0, 3)


def test_memory_that_must_not_be_written_is_copied(cuda):
    x = plugrad.ones(3, device="cuda")
    taken = plugrad.as_tensor(Foreign(x, data=(x.array.gpudata, True)))
    assert taken.array.gpudata != x.array.gpudata
    assert taken.tolist() == [1.0, 1.0, 1.0]


def test_what_cannot_be_imported(cuda):
    x = plugrad.ones(3, device="cuda")
    for changes, said in (
        ({"mask": object()}, "Foreign with a mask"),
        ({"typestr": ">f4"}, "of dtype >f4"),
        ({"stream": 0}, "stream 0"),
    ):
        with pytest.raises(TypeError, match=said):
            plugrad.as_tensor(Foreign(x, **changes))


@pytest.mark.parametrize(
    "offset, typestr, strides, said",
    [
        (2, "<f4", None, "address .* no multiple of 4"),
        (0, "<f4", (6,), "strides .* no multiples of 4 bytes"),
        (8, "<c16", None, "no multiple of 16"),
        (0, "<M8[s]", None, "datetime64"),
        (0, "|S4", None, r"\|S4|bytes|S4"),
        (0, "|V8", None, "void|V8"),
        (0, "<f16", None, "longdouble|float128"),
    ],
)
def test_memory_that_no_kernel_can_read(cuda, offset, typestr, strides, said):
    kept = plugrad.zeros(16, device="cuda")

    interface = {
        "shape": (2,),
        "typestr": typestr,
        "data": (kept.array.gpudata + offset, False),
        "strides": strides,
        "version": 3,
    }

    class Source:
        __cuda_array_interface__ = interface

    with pytest.raises(TypeError, match=said):
        plugrad.as_tensor(Source())
    interface["shape"] = (0,)
    if typestr in ("<f4", "<c16"):
        assert plugrad.as_tensor(Source()).shape == (0,)


def test_pycudas_arrays(cuda):
    plugrad.cuda.synchronize()
    from pycuda.gpuarray import to_gpu

    array = to_gpu(np.arange(4, dtype="f4"))
    for x in (plugrad.Tensor(array), plugrad.as_tensor(array)):
        assert x.array is array
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert imported(array) is array
    total = plugrad.Tensor(array[1:]).cpu() + 1
    assert total.tolist() == [2.0, 3.0, 4.0]


# ---- DLPack on the host ----------------------------------------------------------------------------


def test_host_tensors_go_through_numpy():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    back = plugrad.from_dlpack(x.numpy())
    assert np.shares_memory(back.numpy(), x.numpy())
    with pytest.raises(RuntimeError, match="would leave the graph"):
        np.from_dlpack(plugrad.ones(2, requires_grad=True))


def test_what_has_no_dlpack():
    with pytest.raises(TypeError, match="takes an array with __dlpack__, got list"):
        plugrad.from_dlpack([1.0])
    with pytest.raises(BufferError, match="device of DLPack's type 10 .*1 .cpu., 2 .cuda."):
        plugrad.from_dlpack(Packed(plugrad.ones(2), device=(10, 0)))


# ---- DLPack on the device --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (0, 2), (5,), (2, 3)], ids=str)
def test_there_and_back(cuda, dtype, shape):
    host = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    x = plugrad.tensor(host, device="cuda")
    assert x.__dlpack_device__() == (2, 0)
    back = plugrad.from_dlpack(x)
    assert (back.device, back.dtype, back.shape) == ("cuda", host.dtype, shape)
    if host.size:
        assert back.array.gpudata == x.array.gpudata
    np.testing.assert_array_equal(back.cpu().numpy(), host)


def test_strides_and_offsets(cuda):
    host = np.arange(24.0).reshape(4, 6)
    array = arrays.from_host(host)
    for view in (lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[2, 3:]):
        x = plugrad.Tensor(arrays.view_by(view, array))
        back = plugrad.from_dlpack(x)
        assert back.array.strides == x.array.strides
        np.testing.assert_array_equal(back.cpu().numpy(), view(host))


def test_a_capsule_keeps_the_memory(cuda):
    before = cuda.memory_allocated()
    x = plugrad.ones(1000, device="cuda")
    capsule = x.__dlpack__()
    del x
    assert cuda.memory_allocated() == before + 4000
    del capsule  # nobody took it
    assert cuda.memory_allocated() == before
    taken = plugrad.from_dlpack(plugrad.ones(1000, device="cuda"))
    view = plugrad.Tensor(arrays.view_by(lambda a: a[1:], taken.array))
    del taken
    assert cuda.memory_allocated() == before + 4000
    assert view.cpu().numpy().sum() == 999
    del view
    assert cuda.memory_allocated() == before


def test_a_capsule_is_used_once(cuda):
    class Again(Packed):
        def __dlpack__(self, *, stream=None):
            return self.capsule

    source = Again(plugrad.ones(3, device="cuda"))
    source.capsule = source.kept.__dlpack__()
    assert plugrad.from_dlpack(source).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(BufferError, match="or a used one"):
        plugrad.from_dlpack(source)


def test_streams_are_agreed_on(cuda):
    source = Packed(plugrad.ones(3, device="cuda"))
    plugrad.from_dlpack(source)
    stream = cuda.Stream()
    with cuda.stream(stream):
        assert plugrad.from_dlpack(source).tolist() == [1.0, 1.0, 1.0]
    assert source.streams == [1, stream.ptr]
    for asked in (None, -1, 1, 2, stream.ptr):
        source.kept.__dlpack__(stream=asked)


def test_what_a_consumer_may_ask_for(cuda):
    x = plugrad.tensor([1.0, 2.0], device="cuda")
    x.__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError, match="asked for on device .4, 0."):
        x.__dlpack__(dl_device=(4, 0))
    with pytest.raises(BufferError, match="cannot be shared with the host without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)

    class Host:
        def __dlpack__(self, **wishes):
            return x.__dlpack__(dl_device=(1, 0))

        def __dlpack_device__(self):
            return 1, 0

    np.testing.assert_array_equal(np.from_dlpack(Host()), [1.0, 2.0])

    class Copied(Packed):
        def __dlpack__(self, *, stream=None):
            return self.kept.__dlpack__(stream=stream, copy=True)

    taken = plugrad.from_dlpack(Copied(x))
    assert taken.array.gpudata != x.array.gpudata
    assert taken.tolist() == [1.0, 2.0]


def test_what_dlpack_cannot_hold(cuda):
    array = arrays.empty(3, np.dtype("M8[s]"))
    with pytest.raises(BufferError, match="DLPack has no dtype datetime64"):
        plugrad.Tensor(array).__dlpack__()
    uneven = arrays.as_strided(arrays.empty(10, "f4"), (2,), (6,))
    with pytest.raises(BufferError, match="no whole elements"):
        plugrad.Tensor(uneven).__dlpack__()
    with pytest.raises(RuntimeError, match="would leave the graph"):
        plugrad.ones(2, device="cuda", requires_grad=True).__dlpack__()


def test_cupy_reads_what_it_may():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    if not plugrad.cuda.is_available() or plugrad.cuda.is_emulated():
        pytest.skip("CuPy works on hardware only")
    x = plugrad.arange(6, device="cuda")
    np.testing.assert_array_equal(cupy.asarray(x).get(), np.arange(6))
    np.testing.assert_array_equal(cupy.from_dlpack(x).get(), np.arange(6))
