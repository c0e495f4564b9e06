"""Random index expressions against NumPy, on the CPU and on the emulated CUDA device."""

import numpy as np
import pytest

import plugrad


def random_index(rng, shape):
    """An index into a tensor of this shape, valid or not: integers, slices, None, Ellipsis, arrays and masks."""
    common = tuple(rng.integers(1, 3, rng.integers(0, 3)))
    arrays = rng.random() < 0.7
    entries, axis, ellipsis = [], 0, False
    while True:
        choice = rng.random()
        if choice < 0.1:
            entries.append(None)
        elif choice < 0.16 and not ellipsis:
            ellipsis = True
            entries.append(Ellipsis)
            axis += int(rng.integers(0, len(shape) - axis + 1))
        elif choice < 0.19 and arrays:
            entries.append(bool(rng.random() < 0.7))
        elif axis >= len(shape) or choice > 0.95:
            return tuple(entries)
        else:
            axis += _one_more(rng, entries, shape[axis:], common, arrays)


def _one_more(rng, entries, shape, common, arrays):
    """Another entry for dimensions that are left; returns for how many."""
    n, choice = shape[0], rng.random()
    if choice < 0.3:
        ends = [None, *range(-n - 1, n + 2)]
        start, stop = (ends[rng.integers(len(ends))] for _ in range(2))
        entries.append(slice(start, stop, [None, 1, 2, 3, -1, -2][rng.integers(6)]))
    elif choice < 0.5 and n:
        position = rng.integers(-n, n)
        entries.append(int(position) if rng.random() < 0.7 else np.array(position))
    elif arrays and choice < 0.8 and n:
        own = tuple(1 if rng.random() < 0.3 else length for length in common)
        entries.append(rng.integers(-n, n, own[rng.integers(0, len(own) + 1) :]))
    elif arrays:
        count = int(rng.integers(1, len(shape) + 1))
        entries.append(rng.random(shape[:count]) < 0.4)
        return count
    else:
        entries.append(slice(None))
    return 1


def check_against_numpy(seed, rounds, device):
    """Read, write and differentiate at random indices; returns how many of them were valid."""
    rng, valid = np.random.default_rng(seed), 0
    for _ in range(rounds):
        shape = tuple(int(n) for n in rng.integers(rng.random() >= 0.1, 5, rng.integers(0, 5)))
        index = random_index(rng, shape)
        x = rng.standard_normal(shape)
        case = f"seed {seed}, shape {shape}, index {index}"
        try:
            places = np.asarray(np.arange(x.size).reshape(shape)[index])
        except (IndexError, ValueError):
            try:
                plugrad.tensor(x, device=device)[index]
            except IndexError:
                continue
            raise AssertionError(f"accepted: {case}") from None
        valid += 1
        given = index
        if device != "cpu":
            given = tuple(
                plugrad.tensor(entry, device=device)
                if isinstance(entry, np.ndarray) and rng.random() < 0.5
                else entry
                for entry in index
            )
        _check_reading(rng, x, given, places, device, case)
        if x.size:
            _check_writing(rng, x, given, places, device, case)
    return valid


def _check_reading(rng, x, index, places, device, case):
    leaf = plugrad.tensor(x, requires_grad=True)
    out = leaf.to(device)[index]
    np.testing.assert_array_equal(out.detach().cpu().numpy(), x.ravel()[places], case)
    seed = rng.standard_normal(places.shape)
    (grad,) = plugrad.autograd.grad(out, [leaf], plugrad.tensor(seed, device=device))
    wanted = np.zeros(x.size)
    np.add.at(wanted, places.ravel(), seed.ravel())
    np.testing.assert_allclose(
        grad.cpu().numpy(), wanted.reshape(x.shape), 1e-12, 1e-12, err_msg=case
    )


def _check_writing(rng, x, index, places, device, case):
    """The last of several writes to one place stays, and it alone has a gradient."""
    shape = tuple(1 if rng.random() < 0.3 else n for n in places.shape)
    values = rng.standard_normal(shape)
    leaf, source = (plugrad.tensor(a, requires_grad=True) for a in (x, values))
    out = leaf.to(device) * 1.0
    out[index] = source.to(device)
    last = dict(zip(places.ravel().tolist(), range(places.size)))
    at, order = np.array(list(last), dtype=int), np.array(list(last.values()), dtype=int)
    wanted = x.copy().ravel()
    wanted[at] = np.broadcast_to(values, places.shape).ravel()[order]
    np.testing.assert_array_equal(out.detach().cpu().numpy().ravel(), wanted, case)
    seed = rng.standard_normal(x.shape)
    grads = plugrad.autograd.grad(out, [leaf, source], plugrad.tensor(seed, device=device))
    to_x, to_values = seed.copy().ravel(), np.zeros(places.size)
    to_values[order] = to_x[at]
    to_x[at] = 0
    to_values = to_values.reshape(places.shape)
    axes = tuple(d for d, n in enumerate(shape) if n == 1)
    np.testing.assert_array_equal(grads[0].cpu().numpy().ravel(), to_x, case)
    np.testing.assert_allclose(
        grads[1].cpu().numpy(), to_values.sum(axes, keepdims=True), 1e-12, 1e-12, err_msg=case
    )


@pytest.mark.parametrize(("device", "rounds"), [("cpu", 300), ("cuda", 100)])
def test_random_expressions(device, rounds, request):
    if device == "cuda":
        request.getfixturevalue("cuda")
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    assert check_against_numpy(seed, rounds, device) > rounds // 2


def test_a_single_bool_is_a_new_dimension():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x[True].shape == (1, 2, 2)
    assert x[False].shape == (0, 2, 2)
    assert x[:, True, 0].tolist() == x.numpy()[:, True, 0].tolist()
    zero = plugrad.tensor(5.0)
    assert zero[zero > 3].tolist() == [5]
    assert zero[zero > 9].tolist() == []
    zero[zero > 3] = 7.0
    assert zero.item() == 7
    assert zero.index_put((True,), plugrad.tensor([2.0])).tolist() == 2
