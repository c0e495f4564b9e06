"""CUDA kernels of the indexing family on the emulated device, against their reference functions."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad_ops.indexing.spec import ARRAY, WHOLE

SHAPE = (5, 4, 6)
SPECS = [
    (ARRAY,),
    (ARRAY, WHOLE),
    (WHOLE, ARRAY),
    (WHOLE, WHOLE, ARRAY),
    (ARRAY, ARRAY),
    (ARRAY, WHOLE, ARRAY),
    (ARRAY, ARRAY, ARRAY),
    (0, WHOLE, ARRAY),
    (WHOLE, ARRAY, 0),
    (0, None, ARRAY),
    (1, ARRAY, Ellipsis, ARRAY),
    (Ellipsis, ARRAY),
    (ARRAY, Ellipsis),
    (None, ARRAY, Ellipsis, None),
    (ARRAY, None, ARRAY),
    ((None, None, -2), ARRAY),
    (ARRAY, (1, 3, 1)),
]
LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.asarray(x.T, order="C").T,
    "reversed": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim],
    "stride 0": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x,
}  # fmt: skip


@pytest.fixture
def kernels(cuda):
    from plugrad_ops.indexing import cuda as found

    return found


def values_of(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.random(shape) > 0.5
    return rng.integers(-40, 40, shape).astype(dtype)  # sums are exact


def indices_for(spec, index_shape):
    """An array of indices for each `ARRAY`, the later ones broadcast."""
    rng = np.random.default_rng(len(spec))
    used = sum(entry is not None and entry is not Ellipsis for entry in spec)
    axis, found = 0, []
    for entry in spec:
        if entry == ARRAY:
            shape = index_shape if not found else index_shape[-1:]
            found.append(rng.integers(-SHAPE[axis], SHAPE[axis], shape))
        axis += len(SHAPE) - used if entry is Ellipsis else entry is not None
    return found


def check(device, kernels, name, *arrays, **constants):
    operator = getattr(plugrad.ops, name)
    constants = {**operator.schema.defaults, **constants}
    wanted = operator.function(*(x.copy() for x in arrays), **constants)
    got = device.run(getattr(kernels, name), *arrays, **constants)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex128", "bool", "int8"])
@pytest.mark.parametrize("spec", SPECS)
def test_arrays_and_slices(device, kernels, spec, dtype):
    index_shapes = [(7,), (2, 3), (), (1,)] if dtype == "float32" else [(2, 3)]
    for index_shape in index_shapes:
        indices = indices_for(spec, index_shape)
        x = values_of(SHAPE, dtype)
        seen = plugrad.ops.index.function(x, *indices, spec=spec).shape
        new = values_of(seen, dtype, 1)
        check(device, kernels, "index", x, *indices, spec=spec)
        check(device, kernels, "index_clear", x, *indices, spec=spec)
        check(device, kernels, "index_write", x, new, *indices, spec=spec)
        check(device, kernels, "index_write", x, new, *indices, spec=spec, accumulate=True)
        check(device, kernels, "index_write_", x, new, *indices, spec=spec)
        check(device, kernels, "index_accumulate", new, *indices, shape=SHAPE, spec=spec)
        small = [i.astype(np.int32) for i in indices]
        check(device, kernels, "last_writes", *small, shape=SHAPE, spec=spec)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spec", [(ARRAY,), (WHOLE, ARRAY), (ARRAY, WHOLE, ARRAY)])
def test_any_layout(device, kernels, spec, layout):
    indices = [LAYOUTS[layout](i) for i in indices_for(spec, (2, 3))]
    x = LAYOUTS[layout](values_of(SHAPE, "float64"))
    new = LAYOUTS[layout](plugrad.ops.index.function(x, *indices, spec=spec))
    check(device, kernels, "index", x, *indices, spec=spec)
    check(device, kernels, "index_write", x, new, *indices, spec=spec)
    check(device, kernels, "index_accumulate", new, *indices, shape=SHAPE, spec=spec)
    if layout != "stride 0":
        check(device, kernels, "index_write_", x, new, *indices, spec=spec)


@pytest.mark.parametrize("columns", [1, 3, 32, 33, 40])
def test_many_rows_meet(device, kernels, columns):
    rows = np.random.default_rng(5).integers(0, 7, 500)
    grad = values_of((500, columns), "float32")
    check(device, kernels, "index_accumulate", grad, rows, shape=(9, columns), spec=(ARRAY,))
    check(device, kernels, "index", values_of((9, columns), "float32"), rows, spec=(ARRAY,))


def test_sums_have_the_same_bits_each_time(device, kernels):
    rng = np.random.default_rng(6)
    grad, rows = device.up(rng.standard_normal((900, 3))), device.up(rng.integers(0, 4, 900))
    runs = [
        device.down(kernels.index_accumulate(grad, rows, shape=(4, 3), spec=(ARRAY,)))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*runs)


ALONG = [
    ((3, 4), (3, 7), 1),
    ((3, 4), (9, 4), 0),
    ((3, 1), (1, 4), 0),
    ((1, 4), (5, 2), 1),
    ((2, 3, 4), (2, 5, 1), 1),
    ((2, 3, 4), (1, 5, 4), 1),
    ((2, 3, 1), (1, 5, 4), 1),
    ((40, 33), (40, 33), 0),
    ((), (), 0),
]


@pytest.mark.parametrize(("shape", "index_shape", "dim"), ALONG)
def test_along_a_dimension(device, kernels, shape, index_shape, dim):
    n = shape[dim] if shape else 1
    indices = np.asarray(np.random.default_rng(7).integers(-n, n, index_shape))
    for layout, dtype in itertools.product(LAYOUTS.values(), ["float64", "int8"]):
        x, where = layout(values_of(shape, dtype)), layout(indices)
        check(device, kernels, "take_along_dim", x, where, dim=dim)
        seen = plugrad.ops.take_along_dim.function(x, where, dim=dim)
        check(device, kernels, "add_along_dim", layout(seen), where, shape=shape, dim=dim)


def test_what_is_written_may_come_from_the_same_memory(device, kernels):
    from plugrad.backends.cuda.array import as_strided

    x = device.up(np.arange(8))
    kernels.index_write_(x, as_strided(x, (7,), (8,)), spec=((1, None, None),))
    np.testing.assert_array_equal(device.down(x), [0, 0, 1, 2, 3, 4, 5, 6])
    x = device.up(np.array([2, 0, 1]))
    kernels.index_write_(x, device.up(np.array([7, 8, 9])), x, spec=(ARRAY,))
    np.testing.assert_array_equal(device.down(x), [8, 9, 7])


# ---- indices that lie outside --------------------------------------------------------------------------------

OUTSIDE = [
    ("index", lambda bad: ([np.zeros((5, 0)), np.array([bad])], {"spec": (ARRAY,)})),
    ("index", lambda bad: ([np.zeros((9, 5)), np.array([8]), np.array([[0], [bad]])], {"spec": (ARRAY, ARRAY)})),
    ("index_clear", lambda bad: ([np.zeros(5), np.array([bad])], {"spec": (ARRAY,)})),
    ("index_write_", lambda bad: ([np.zeros(5), np.zeros(2), np.array([0, bad])], {"spec": (ARRAY,)})),
    ("index_accumulate", lambda bad: ([np.zeros(2), np.array([0, bad])], {"shape": (5,), "spec": (ARRAY,)})),
    ("add_along_dim", lambda bad: ([np.zeros(2), np.array([0, bad])], {"shape": (5,), "dim": 0})),
    ("take_along_dim", lambda bad: ([np.zeros(5), np.array([0, bad])], {"dim": 0})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), OUTSIDE)
@pytest.mark.parametrize("bad", [5, -6])
def test_an_index_outside_is_an_error_that_names_it(device, kernels, name, call, bad):
    arrays, constants = call(bad)
    with pytest.raises(IndexError, match=f"{name}: index {bad} is out of bounds.*size 5.*shape"):
        device.run(getattr(kernels, name), *arrays, **constants)


def test_looking_at_indices_can_be_left_out(device, kernels, cuda, monkeypatch):
    monkeypatch.setattr(cuda, "check_indices", False, raising=False)
    x, where = np.arange(1.0, 6.0), np.array([0, 7, 4])
    np.testing.assert_array_equal(device.run(kernels.index, x, where, spec=(ARRAY,)), [1, 0, 5])
    written = device.run(kernels.index_write, x, np.full(3, 9.0), where, spec=(ARRAY,))
    np.testing.assert_array_equal(written, [9, 2, 3, 4, 9])
    added = device.run(kernels.index_accumulate, np.ones(3), where, shape=(5,), spec=(ARRAY,))
    np.testing.assert_array_equal(added, [1, 0, 0, 0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda x, at: x[at],
        lambda x, at: x.gather(0, at),
        lambda x, at: x.__setitem__(at, 1.0),
        lambda x, at: x.index_put((at,), plugrad.ones(1, device="cuda")),
        lambda x, at: x.index_add(0, at, plugrad.ones(1, device="cuda")),
    ],
)
def test_where_nothing_is_every_index_is_an_error_even_if_none_is_looked_at(
    cuda, monkeypatch, call
):
    monkeypatch.setattr(cuda, "check_indices", False)
    with pytest.raises(IndexError, match="index 0 is out of bounds for a dimension of size 0"):
        call(plugrad.ones(0, device="cuda"), plugrad.tensor([0], device="cuda"))


def test_few_writes_take_memory_of_their_size(cuda):
    x = plugrad.zeros(300_000, device="cuda", requires_grad=True)
    at = plugrad.tensor([5, 299_999, 5, 0, -1], device="cuda")
    values = plugrad.tensor([1.0, 2.0, 3.0, 4.0, 5.0], device="cuda", requires_grad=True)
    written = x * 1
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    written[at] = values
    assert cuda.max_memory_allocated() - before < 10_000
    assert written[[0, 5, 299_999]].tolist() == [4.0, 3.0, 5.0]
    assert written.count_nonzero().item() == 3
    written.sum().backward()
    assert values.grad.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert (x.grad == 0).sum().item() == 3


@pytest.mark.parametrize("spec", SPECS)
def test_last_writes_by_sorting(device, kernels, monkeypatch, spec):
    monkeypatch.setattr(kernels, "LARGE", 0)
    monkeypatch.setattr(kernels, "SPARSE", 0)
    indices = indices_for(spec, (2, 9))
    x = values_of(SHAPE, "float32")
    seen = plugrad.ops.index.function(x, *indices, spec=spec).shape
    check(device, kernels, "index_write", x, values_of(seen, "float32", 1), *indices, spec=spec)
    check(device, kernels, "last_writes", *indices, shape=SHAPE, spec=spec)


@pytest.mark.parametrize(
    "index",
    [
        [0, 2],
        np.array([0, 2]),
        plugrad.tensor([0, 2]),
        np.array([True, False, True]),
        (slice(1, None), [0, 1]),
        ([plugrad.tensor(0), plugrad.tensor(2)], 1),
    ],
    ids=["list", "array", "tensor on the host", "mask", "slice and list", "list of tensors"],
)
def test_an_index_from_the_host_serves_a_tensor_on_the_device(cuda, index):
    values = np.arange(12.0).reshape(3, 4)
    expected, x = plugrad.tensor(values)[index], plugrad.tensor(values, device="cuda")
    assert x[index].cpu().tolist() == expected.tolist()
    x[index] = 7.0
    assert x[index].cpu().tolist() == np.full(expected.shape, 7.0).tolist()


@pytest.mark.parametrize("of", [lambda x: x > 1, lambda x: plugrad.tensor([0, 2], device="cuda")])
def test_an_index_on_the_device_does_not_serve_a_tensor_on_the_host(cuda, of):
    x = plugrad.tensor([1.0, 2.0, 3.0])
    index = of(x.cuda())
    for call in (
        lambda: x[index],
        lambda: x.__setitem__(index, 1.0),
        lambda: x.index_put((index,), plugrad.ones(2)),
    ):
        with pytest.raises(RuntimeError, match="on 'cpu'.*got one on 'cuda'"):
            call()


def test_a_mask_on_the_device_chooses_elements_there(cuda):
    x = plugrad.tensor([1.0, 5.0, 3.0], device="cuda", requires_grad=True)
    chosen = x[x > 2]
    assert chosen.device == "cuda" and chosen.cpu().tolist() == [5.0, 3.0]
    chosen.sum().backward()
    assert x.grad.cpu().tolist() == [0.0, 1.0, 1.0]
