"""Streams and events."""

import threading

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import array as arrays


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
