"""Device memory: counting, caching, and what is said when there is none left."""

import gc

import pytest

import plugrad

FAR_TOO_MANY = 1 << 44


@pytest.fixture
def memory(cuda):
    gc.collect()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    return cuda


def test_counting(memory):
    before = memory.memory_allocated()
    x = plugrad.empty(1000, device="cuda")
    assert memory.memory_allocated() == before + 4000
    view = plugrad.as_tensor(x.array)
    del x
    assert memory.memory_allocated() == before + 4000
    del view
    assert memory.memory_allocated() == before
    assert memory.max_memory_allocated() == before + 4000
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == before


def test_nothing_takes_nothing(memory):
    before = memory.memory_allocated()
    x = plugrad.empty((0, 5), device="cuda")
    assert memory.memory_allocated() == before
    assert x.tolist() == []
    assert x.shape == (0, 5)


@pytest.mark.parametrize("shape", [(2**61,), (2**32, 2**32), (2**40, 3, 2**40)])
@pytest.mark.parametrize("make", [plugrad.empty, plugrad.zeros, plugrad.ones])
def test_more_bytes_than_can_be_addressed(memory, make, shape):
    before = memory.memory_allocated()
    with pytest.raises(ValueError, match="more bytes than can be addressed"):
        make(shape, dtype=plugrad.float64, device="cuda")
    assert memory.memory_allocated() == before


def test_freed_memory_is_used_again(memory):
    x = plugrad.empty(100_000, device="cuda")
    pointer = x.array.gpudata
    held = memory.memory_reserved()
    del x
    assert memory.memory_reserved() == held
    x = plugrad.empty(100_000, device="cuda")
    assert x.array.gpudata == pointer
    del x
    memory.empty_cache()
    assert memory.memory_reserved() < held


def test_stats(memory):
    x = plugrad.empty(100, device="cuda")
    stats = memory.memory_stats()
    assert stats["allocated_bytes.all.current"] == memory.memory_allocated()
    assert stats["allocated_bytes.all.peak"] == memory.max_memory_allocated()
    assert stats["reserved_bytes.all.current"] == memory.memory_reserved()
    blocks = stats["active.all.current"]
    del x
    assert memory.memory_stats()["active.all.current"] == blocks - 1
    free, total = memory.mem_get_info()
    assert 0 < free <= total


def test_out_of_memory_says_where_it_went(memory):
    kept = plugrad.ones(1 << 18, device="cuda")
    cached = plugrad.ones(1 << 18, device="cuda")
    del cached
    with pytest.raises(memory.OutOfMemoryError) as found:
        plugrad.empty((4, FAR_TOO_MANY // 16), device="cuda")
    text = str(found.value)
    assert f"float32[4, {FAR_TOO_MANY // 16}] (16384.00 GiB)" in text
    assert "1.00 MiB are held by arrays" in text
    assert "lost to the rounding of their blocks" in text
    assert "are free" in text
    assert isinstance(found.value, MemoryError)
    assert isinstance(found.value, RuntimeError)
    assert kept.tolist()[:2] == [1.0, 1.0]


def test_cached_blocks_are_given_back_before_giving_up(memory):
    from plugrad.backends.cuda import device
    from plugrad.backends.cuda.memory import allocate

    cached = plugrad.empty(100_000, device="cuda")
    del cached
    held = memory.memory_reserved()

    class Pool:
        def allocate(self, nbytes):
            if memory.memory_reserved() == held:
                raise device.driver().MemoryError("cuMemAlloc failed: out of memory")
            return f"{nbytes} bytes"

    assert allocate(Pool(), 10, "float32[2]") == "10 bytes"
    assert memory.memory_reserved() < held


def test_after_running_out_the_next_call_works(memory):
    for _ in range(3):
        with pytest.raises(memory.OutOfMemoryError):
            plugrad.empty(FAR_TOO_MANY, device="cuda")
        memory.empty_cache()
        x = plugrad.full((3,), 2.0, device="cuda")
        assert x.tolist() == [2.0, 2.0, 2.0]


def test_other_errors_are_not_taken_for_a_lack_of_memory(memory):
    from plugrad.backends.cuda import device
    from plugrad.backends.cuda.memory import allocate

    class Pool:
        def allocate(self, nbytes):
            raise device.driver().LogicError(
                "cuMemAlloc failed: an illegal memory access was encountered"
            )

    with pytest.raises(
        memory.CudaError, match="queued earlier failed.*illegal memory access"
    ) as found:
        allocate(Pool(), 10, "float32[2]")
    assert not isinstance(found.value, MemoryError)
