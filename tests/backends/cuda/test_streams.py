"""Streams and events."""

import gc
import threading

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda import storage
from plugrad.backends.cuda.elementwise import Elementwise


def test_the_default_stream(cuda):
    default = cuda.default_stream()
    assert cuda.current_stream() is default
    assert default.ptr == 0
    assert repr(default) == "<plugrad.cuda.Stream 0x0>"
    cuda.synchronize()
    assert default.query()


def test_work_goes_to_the_current_stream(cuda):
    stream = cuda.Stream()
    assert stream.ptr != 0
    assert stream != cuda.default_stream()
    with cuda.stream(stream):
        assert cuda.current_stream() is stream
        with cuda.stream(None):
            assert cuda.current_stream() is stream
        x = plugrad.full((5,), 3.0, device="cuda")
        assert x.tolist() == [3.0] * 5
        assert arrays.to_host(arrays.contiguous(x.array)).tolist() == [3.0] * 5
    assert cuda.current_stream() is cuda.default_stream()
    stream.synchronize()
    assert stream.query()
    assert x.tolist() == [3.0] * 5


def test_leaving_by_an_error(cuda):
    with pytest.raises(KeyError), cuda.stream(cuda.Stream()):
        raise KeyError
    assert cuda.current_stream() is cuda.default_stream()


def test_set_stream(cuda):
    stream = cuda.Stream()
    cuda.set_stream(stream)
    try:
        assert cuda.current_stream() is stream
    finally:
        cuda.set_stream(cuda.default_stream())


def test_a_stream_belongs_to_the_thread(cuda):
    found = []
    with cuda.stream(cuda.Stream()):
        thread = threading.Thread(target=lambda: found.append(cuda.current_stream()))
        thread.start()
        thread.join()
    assert found == [cuda.default_stream()]


def test_every_stream_has_a_pool(cuda):
    first, second = cuda.Stream(), cuda.Stream()
    assert first.pool is not second.pool
    with cuda.stream(first):
        pointer = plugrad.empty(1000, device="cuda").array.gpudata
    with cuda.stream(second):
        assert plugrad.empty(1000, device="cuda").array.gpudata != pointer
    with cuda.stream(first):
        assert plugrad.empty(1000, device="cuda").array.gpudata == pointer


def test_streams_and_events_are_used_again(cuda):
    stream, event = cuda.Stream(), cuda.Event()
    event.record()
    pointer, pool, mark = stream.ptr, stream.pool, event.handle
    del stream, event
    stream, event = cuda.Stream(), cuda.Event()
    assert (stream.ptr, stream.pool, event.handle) == (pointer, pool, mark)
    assert event.query()  # as if new: nothing was recorded


def test_waiting_for_another_stream(cuda):
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.stream(first):
        x = plugrad.full((4,), 1.5, device="cuda")
    second.wait_stream(first)
    with cuda.stream(second):
        assert x.tolist() == [1.5] * 4
    cuda.default_stream().wait_stream(second)


def test_events(cuda):
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert start.query()
    start.synchronize()
    start.record()
    kept = [plugrad.ones(100, device="cuda") for _ in range(3)]
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    event = cuda.current_stream().record_event()
    event.wait()
    cuda.Stream().wait_event(event)
    assert len(kept) == 3


def test_what_an_event_is_asked_in_vain(cuda):
    plain, timed = cuda.Event(), cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        plain.elapsed_time(timed)
    with pytest.raises(RuntimeError, match="that were recorded"):
        timed.elapsed_time(cuda.Event(enable_timing=True))
    with pytest.raises(ValueError, match="between processes"):
        cuda.Event(interprocess=True)


def test_transfers_on_a_stream(cuda):
    host = np.arange(12.0).reshape(3, 4)
    with cuda.stream(cuda.Stream()):
        x = plugrad.tensor(host, device="cuda")
        host[...] = 0  # the transfer is over
        assert x.cpu().tolist() == np.arange(12.0).reshape(3, 4).tolist()


# ---- memory that several streams use -----------------------------------------------------------------------

PLUS_ONE = Elementwise("x + 1", inputs=("x",), name="plus_one")


@pytest.fixture
def two(cuda):
    """Two streams on which nothing is left to do."""
    streams = cuda.Stream(), cuda.Stream()
    yield streams
    cuda.synchronize()
    cuda.empty_cache()


def overwritten(stream, pointer):
    """Use what the pool of a stream gives for 1000 numbers; whether it is the block at `pointer`."""
    with plugrad.cuda.stream(stream):
        rubbish = [plugrad.full((1000,), 100.0, device="cuda") for _ in range(6)]
        stream.synchronize()
        return pointer in [x.array.gpudata for x in rubbish]


def test_a_block_waits_for_the_other_stream_that_reads_it(cuda, two):
    first, second = two
    with cuda.stream(first):
        x = plugrad.full((1000,), 7.0, device="cuda")
    second.wait_stream(first)
    with cuda.stream(second):
        y = PLUS_ONE(x.array)
    pointer = x.array.gpudata
    del x
    assert not overwritten(first, pointer)
    with cuda.stream(second):
        assert arrays.to_host(y)[:2].tolist() == [8.0, 8.0]
    assert overwritten(first, pointer)  # it was read: the pool has it again


@pytest.mark.parametrize(
    "read",
    [
        lambda x: arrays.copied(x),
        lambda x: PLUS_ONE(arrays.view_by(lambda a: a[::2][::-1], x)),
        lambda x: plugrad.matmul(plugrad.as_tensor(x).reshape(10, 100).T, plugrad.ones(10, 1, device="cuda")),
        lambda x: plugrad.as_tensor(x)[plugrad.tensor([3, 1], device="cuda")],
        lambda x: plugrad.as_tensor(x).reshape(10, 100).sum(0),
        lambda x: arrays.fill(x, 3.0),
    ],
    ids=["copy", "view of a view", "product", "index", "sum", "fill"],
)  # fmt: skip
def test_every_kind_of_use_is_noted(cuda, two, read):
    first, second = two
    with cuda.stream(second):
        read(plugrad.ones(1000, device="cuda").array)  # batteries run here, and they wait
    with cuda.stream(first):
        x = plugrad.full((1000,), 7.0, device="cuda").array
    second.wait_stream(first)
    with cuda.stream(second):
        kept = read(x)
    pointer = x.gpudata
    del x
    with cuda.stream(first):
        assert plugrad.empty(1000, device="cuda").array.gpudata != pointer
    del kept


def test_backward_on_another_stream_than_forward(cuda, two):
    first, second = two
    for _ in range(3):
        with cuda.stream(first):
            x = plugrad.ones(1000, device="cuda", requires_grad=True)
            y = ((x * 3).exp() * (x * 2)).sum()
        second.wait_stream(first)
        with cuda.stream(second):
            y.backward()
        del y
        overwritten(first, 0)
        with cuda.stream(second):
            np.testing.assert_allclose(x.grad[:2].tolist(), 8 * np.exp(3), rtol=1e-5)


def test_record_stream(cuda, two):
    first, second = two
    with cuda.stream(first):
        x = plugrad.full((1000,), 7.0, device="cuda")
    x.record_stream(second)
    pointer = x.array.gpudata
    del x
    if cuda.is_emulated():  # on which nothing runs before it is waited for
        assert not overwritten(first, pointer)
    second.synchronize()
    assert overwritten(first, pointer)
    with pytest.raises(RuntimeError, match="record_stream.*'cpu'"):
        plugrad.ones(3).record_stream(second)


def test_a_block_that_waits_is_counted_and_given_back(cuda, two):
    first, second = two
    cuda.empty_cache()
    with cuda.stream(first):
        x = plugrad.ones(1 << 20, device="cuda")
    held, reserved = cuda.memory_allocated(), cuda.memory_reserved()
    x.record_stream(second)
    del x
    assert cuda.memory_allocated() < held
    storage.reclaim(wait=True)
    cuda.empty_cache()
    assert cuda.memory_reserved() <= reserved - (4 << 20)


def test_arrays_in_a_cycle_leave_the_counters_right(cuda):
    gc.collect()  # what batteries left
    before = cuda.memory_allocated()

    class Holder:
        pass

    for _ in range(10):
        holder = Holder()
        holder.array, holder.itself = arrays.empty(100, "f4"), holder
        del holder
    gc.collect()
    assert cuda.memory_allocated() == before


@pytest.mark.parametrize("between", ["default", "its own", "nothing"])
def test_a_missing_wait_shows_although_memory_is_allocated_in_between(cuda, two, between):
    if not cuda.is_emulated():
        pytest.skip("which stream is faster is not known on hardware")
    first, second = two
    with cuda.stream(first):
        x = PLUS_ONE(plugrad.zeros(100, device="cuda").array)
    with cuda.stream(second):
        y = arrays.empty(100, "f4")
        PLUS_ONE(x, out=y)
    cuda.synchronize()
    with cuda.stream(first):
        PLUS_ONE(x, out=x)
    if between == "default":
        plugrad.empty(3, device="cuda")
    elif between == "its own":
        with cuda.stream(second):
            plugrad.empty(3, device="cuda")
    with cuda.stream(second):  # does not wait for the first
        PLUS_ONE(x, out=y)
        second.synchronize()
        assert arrays.to_host(y)[:2].tolist() == [2.0, 2.0]
