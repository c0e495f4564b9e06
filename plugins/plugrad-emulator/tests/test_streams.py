"""Work waits for a synchronisation; what orders streams on a GPU orders them here."""

import threading

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()

ADD = 'extern "C" __global__ void kernel(int *y, int a) { y[threadIdx.x] += a; }'


@pytest.fixture
def add(kernel):
    return kernel(ADD)


@pytest.fixture
def device_zeros(emulator):
    return driver.to_device(np.zeros(32, np.int32))


def pinned(value=0):
    array = driver.pagelocked_empty(32, np.int32)
    array[:] = value
    return array


def run(add, y, a, stream):
    add(y, np.int32(a), grid=(1, 1), block=(32, 1, 1), stream=stream)


def test_results_are_stale_before_a_synchronisation(add, device_zeros):
    stream, host = driver.Stream(), pinned(-1)
    run(add, device_zeros, 3, stream)
    driver.memcpy_dtoh_async(host, device_zeros, stream)
    assert (host == -1).all()
    stream.synchronize()
    assert (host == 3).all()


def test_a_pinned_source_is_read_late_and_a_pageable_one_at_once(device_zeros):
    stream, host = driver.Stream(), pinned(1)
    driver.memcpy_htod_async(device_zeros, host, stream)
    host[:] = 2
    stream.synchronize()
    assert (driver.from_device(device_zeros, 32, np.int32) == 2).all()
    pageable = np.full(32, 5, np.int32)
    driver.memcpy_htod_async(device_zeros, pageable, stream)
    pageable[:] = 6
    stream.synchronize()
    assert (driver.from_device(device_zeros, 32, np.int32) == 5).all()


def test_a_copy_to_pageable_memory_waits(add, device_zeros):
    stream, host = driver.Stream(), np.empty(32, np.int32)
    run(add, device_zeros, 4, stream)
    driver.memcpy_dtoh_async(host, device_zeros, stream)
    assert (host == 4).all()


def test_the_default_stream_waits_for_blocking_streams(add, device_zeros):
    stream = driver.Stream()
    run(add, device_zeros, 1, stream)
    assert (driver.from_device(device_zeros, 32, np.int32) == 1).all()


def test_a_blocking_stream_waits_for_the_default_stream(add, device_zeros):
    stream, host = driver.Stream(), pinned()
    run(add, device_zeros, 1, None)
    driver.memcpy_dtoh_async(host, device_zeros, stream)
    stream.synchronize()
    assert (host == 1).all()


def test_streams_do_not_wait_for_each_other(add, device_zeros):
    first, second, host = driver.Stream(), driver.Stream(), pinned()
    run(add, device_zeros, 1, first)
    driver.memcpy_dtoh_async(host, device_zeros, second)
    second.synchronize()
    assert (host == 0).all()
    first.synchronize()
    assert (driver.from_device(device_zeros, 32, np.int32) == 1).all()


def test_an_event_orders_streams(add, device_zeros):
    first, second, third, event, host = (
        driver.Stream(),
        driver.Stream(),
        driver.Stream(),
        driver.Event(),
        pinned(),
    )
    run(add, device_zeros, 1, first)
    event.record(first)
    run(add, device_zeros, 10, first)
    second.wait_for_event(event)
    driver.memcpy_dtoh_async(host, device_zeros, second)
    second.synchronize()
    assert (host == 1).all()
    later = driver.Event()
    later.record(first)
    third.wait_for_event(later)
    driver.memcpy_dtoh_async(host, device_zeros, third)
    third.synchronize()
    assert (host == 11).all()


def test_an_event_that_is_gone_before_its_work(add, device_zeros):
    stream = driver.Stream()
    for _ in range(10):
        run(add, device_zeros, 1, stream)
        driver.Event().record(stream)
    stream.synchronize()
    assert (driver.from_device(device_zeros, 32, np.int32) == 10).all()


def test_times_between_events(add, device_zeros):
    stream, start, end = driver.Stream(), driver.Event(), driver.Event()
    start.record(stream)
    for _ in range(50):
        run(add, device_zeros, 1, stream)
    end.record(stream)
    with pytest.raises(driver.Error, match="not ready"):
        end.time_since(start)
    end.synchronize()
    assert end.time_since(start) > 0


def test_polling_comes_to_an_end(add, device_zeros):
    stream, event = driver.Stream(), driver.Event()
    for _ in range(5):
        run(add, device_zeros, 1, stream)
    event.record(stream)
    assert not event.query()
    assert event.query()
    run(add, device_zeros, 1, stream)
    questions = 0
    while not stream.is_done():
        questions += 1
    assert questions < 10


def test_freeing_waits_for_all_work(add, emulator, context):
    stream, memory = driver.Stream(), driver.to_device(np.zeros(32, np.int32))
    run(add, memory, 1, stream)
    memory.free()
    context.synchronize()
    assert emulator.diagnostics() == []


def test_a_long_queue(add, device_zeros):
    stream = driver.Stream()
    for _ in range(3000):
        run(add, device_zeros, 1, stream)
    stream.synchronize()
    assert (driver.from_device(device_zeros, 32, np.int32) == 3000).all()


def test_several_threads(add, context, emulator):
    failures = []

    def count_in_a_stream(k):
        stream, memory = driver.Stream(), driver.to_device(np.zeros(32, np.int32))
        for _ in range(50):
            run(add, memory, k, stream)
        stream.synchronize()
        assert (driver.from_device(memory, 32, np.int32) == 50 * k).all()

    def work(k):
        try:
            context.push()
            try:
                count_in_a_stream(k)  # what it made is gone before the context is
            finally:
                context.pop()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_thread_without_a_context(emulator):
    errors = []

    def work():
        try:
            driver.Stream()
        except driver.Error as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors
    assert "invalid device context" in errors[0]


# ---- blocks of a pool --------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
def test_a_missing_wait_shows_although_an_extent_was_set_in_between(
    add, device_zeros, emulator, own
):
    first, second, host, block = driver.Stream(), driver.Stream(), pinned(), driver.mem_alloc(64)
    run(add, device_zeros, 1, first)
    emulator.set_extent(int(block), 10, second.handle if own else 0)
    driver.memcpy_dtoh_async(host, device_zeros, second)
    second.synchronize()
    assert (host == 0).all()


def test_an_extent_holds_behind_what_its_stream_has_queued(add, emulator, context):
    stream, other, host = driver.Stream(), driver.Stream(), pinned()
    block = driver.mem_alloc(256)
    driver.memset_d32(block, 0, 64)
    context.synchronize()
    run(add, block, 5, stream)
    driver.memcpy_dtoh_async(host, block, stream)
    emulator.set_extent(int(block), 16, stream.handle)  # given away in the order of the stream
    stream.synchronize()
    assert (host == 5).all()
    assert emulator.diagnostics() == []
    assert (driver.from_device(block, 4, np.int32) == -1).all()  # what was there is gone
    emulator.set_extent(int(block), 256, stream.handle)
    driver.memset_d32_async(block, 1, 64, stream)  # checked when called: the new extent counts
    run(add, block, 5, other)  # does not wait for the stream: meets the old extent
    with pytest.raises(driver.Error):
        other.synchronize()
    assert "of a 16-byte allocation" in emulator.last_error()


def test_extents_after_a_reset_are_those_that_were_set(add, emulator, context):
    block = driver.mem_alloc(256)
    emulator.set_extent(int(block), 4)
    emulator.reset()  # drops what is queued
    emulator.set_extent(int(block), 128)
    emulator.reset()
    run(add, block, 5, driver.Stream())
    context.synchronize()
    assert emulator.diagnostics() == []


def test_peeking_lets_nothing_run(add, device_zeros, emulator):
    stream, event = driver.Stream(), driver.Event()
    run(add, device_zeros, 1, stream)
    event.record(stream)
    with emulator.peeking():
        for _ in range(5):
            assert not event.query()
            assert not stream.is_done()
    stream.synchronize()
    with emulator.peeking():
        assert event.query()
        assert stream.is_done()
