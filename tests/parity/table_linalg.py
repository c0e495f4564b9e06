"""Matrix products and factorisations. What a factorisation leaves open is compared through invariants."""

import numpy as np
from calls import Call, Fixed, case, real

PLAIN = (
    "plain",
    "scalar",
    "ones",
    "strided",
)  # random matrices, so that no two eigenvalues are alike


def batch(d, most=2):
    """Sizes before those of a matrix."""
    return (
        ()
        if d.situation in ("scalar", "ones")
        else tuple(d.integer(1, 2) for _ in range(d.integer(0, most - 1)))
    )


def size(d):
    if d.situation == "empty":
        return d.choice([0, 2])
    return d.integer(1, 3)


def square(d, least=1):
    """Well conditioned: random, with a heavy diagonal."""
    n = max(d.integer(1, 3), least)
    values = d.rng.normal(size=(*batch(d), n, n)) + 3 * np.diag(
        d.rng.choice([-1.0, 1.0], n) * np.arange(1, n + 1)
    )
    return d.laid_out_plain(values)


def symmetric(d):
    values = square(d)
    return d.laid_out_plain((values + np.swapaxes(values, -1, -2)) / 2)


def definite(d):
    values = square(d)
    return d.laid_out_plain(values @ np.swapaxes(values, -1, -2) + np.eye(values.shape[-1]))


def triangular(d):
    return d.laid_out_plain(np.tril(square(d)))


def matrix(make, name="A", **choices):
    return case(
        lambda d: Call({name: make(d)}, d.pick(choices)),
        kinds=("float64", "float32"),
        situations=PLAIN,
        loose=256,
    )


# ---- products --------------------------------------------------------------------------------------------


def _matmul(d):
    n, k, m = size(d), size(d), size(d)
    a, b = d.choice([((n, k), (k, m)), ((k,), (k, m)), ((n, k), (k,)), ((k,), (k,)), ((2, n, k), (k, m)), ((2, n, k), (1, k, m)), ((n, k), (2, k, m)), ((k,), (2, k, m)), ((2, n, k), (k,))])  # fmt: skip
    return Call({"input": d.array(a), "other": d.array(b)}, positional=d.choice([1, 2]))


def product(first, second, names=("input", "mat2")):
    """Two tensors whose sizes are letters, alike where the letters are."""

    def make(d):
        sizes = {letter: size(d) for letter in "nkmbj"}
        arrays = [
            d.array(tuple(sizes[letter] for letter in letters)) for letters in (first, second)
        ]
        return Call(dict(zip(names, arrays)), positional=d.choice([1, 2]))

    return case(make, loose=4)


def added(first, second, third, names):
    def make(d):
        sizes = {letter: size(d) for letter in "nkmb"}
        arrays = [
            d.array(tuple(sizes[letter] for letter in letters))
            for letters in (first, second, third)
        ]
        scales = {"beta": [2, 0], "alpha": [3]}
        return Call(dict(zip(names, arrays)), d.pick(scales), d.choice([1, 3]))

    return case(make, loose=4)


def _linear(d):
    n, m = size(d), size(d)
    call = {"input": d.array((*d.shape(0, 2), n)), "weight": d.array((m, n))}
    if d.maybe():
        call["bias"] = d.array((m,))
    return Call(call, positional=d.choice([1, 3]))


def _bilinear(d):
    n, m, k = 2, 3, 2
    call = {"input1": d.array((4, n)), "input2": d.array((4, m)), "weight": d.array((k, n, m))}
    if d.maybe():
        call["bias"] = d.array((k,))
    return Call(call)


EQUATIONS = [
    ("ij,jk->ik", "ij", "jk"),
    ("ij,jk", "ij", "jk"),
    ("bij,bjk->bik", "bij", "bjk"),
    ("ij->ji", "ij"),
    ("ii->i", "ii"),
    ("ii", "ii"),
    ("ij->", "ij"),
    ("i,j->ij", "i", "j"),
    ("i,i->", "i", "i"),
    ("ij,kj->ik", "ij", "kj"),
    ("bij,j->bi", "bij", "j"),
    ("...ij,...jk->...ik", "bij", "bjk"),
    ("...i->...", "bi"),
    ("ij,jk,kb->ib", "ij", "jk", "kb"),
]


def _einsum(d):
    equation, *operands = d.choice(EQUATIONS)
    sizes = {letter: size(d) for letter in "bijk"}
    arrays = [d.array(tuple(sizes[letter] for letter in letters)) for letters in operands]
    return Call({"equation": equation, "operands": arrays}, positional=2)


def _tensordot(d):
    if d.maybe():
        return Call({"a": d.array((2, 3, 4)), "b": d.array((3, 4, 2))}, {"dims": 2})
    return Call(
        {"a": d.array((2, 3, 4)), "b": d.array((4, 2, 3))},
        {"dims": d.choice([([1, 2], [2, 0]), ([0], [1])])},
    )


def _chain(d):
    n, k, m, j = (d.integer(1, 3) for _ in range(4))
    return Call({"tensors": [d.array((n, k)), d.array((k, m)), d.array((m, j))][: d.integer(2, 3)]})


def _cross(d):
    shape = (*d.shape(0, 2), 3)
    return Call({"input": d.array(shape), "other": d.array(shape)}, {"dim": -1})


def _vecdot(d):
    shape = d.shape(1)
    return Call({"x": d.array(shape), "y": d.array(d.broadcast(shape))})


def _kron(d):
    return Call({"input": d.array(d.shape(0, 2)), "other": d.array(d.shape(0, 2))})


def _vander(d):
    return Call({"x": d.array(d.shape(1, 2))}, d.pick({"N": [1, 4]}))


# ---- systems ---------------------------------------------------------------------------------------------


def _solve(d):
    a = square(d)
    vector = a.ndim == 2 and d.maybe()
    b = a.shape[:-1] if vector else (*a.shape[:-1], d.integer(1, 3))
    return Call({"A": a, "B": d.array(b, real)}, {} if vector else d.pick({"left": [True]}))


def _solve_triangular(d):
    a, upper = triangular(d), d.maybe()
    if upper:
        a = np.ascontiguousarray(np.swapaxes(a, -1, -2))
    call = {"A": a, "B": d.array((*a.shape[:-1], 2))}
    return Call(call, {"upper": upper, **d.pick({"unitriangular": [True]})})


def _cholesky_solve(d):
    a = np.abs(triangular(d))
    return Call({"B": d.array((*a.shape[:-1], 2)), "L": a}, d.pick({"upper": [False]}))


def _lstsq(d):
    b = batch(d)
    return Call({"A": d.array((*b, 4, 2)), "B": d.array((*b, 4, 2))})


def _lu(d):
    a = square(d)
    return (
        a,
        Fixed(np.broadcast_to(np.arange(1, a.shape[-1] + 1, dtype="int32"), a.shape[:-1]).copy()),
        d.array((*a.shape[:-1], 2)),
    )


def _linalg_lu_solve(d):
    lu, pivots, b = _lu(d)
    return Call({"LU": lu, "pivots": pivots, "B": b}, d.pick({"left": [True], "adjoint": [True]}))


def _lu_solve(d):
    lu, pivots, b = _lu(d)
    return Call({"b": b, "LU_data": lu, "LU_pivots": pivots})


def _power(d):
    return Call({"A": square(d), "n": d.choice([-2, -1, 1, 2, 3, 4])})


# ---- factorisations: what does not depend on signs, phases or order ----------------------------------------


def _transposed(x):
    return x.transpose(-2, -1)


def _eigh_of(lib, outputs, *args):
    values, vectors = outputs
    return values, (vectors * lib.sin(values).unsqueeze(-2)) @ _transposed(vectors)


def _svd_of(lib, outputs, *args):
    u, s, vh = outputs
    k = s.shape[-1]
    u, vh = u[..., :, :k], vh[..., :k, :]
    return s, (u * lib.sin(s).unsqueeze(-2)) @ vh


def _qr_of(lib, outputs, *args):
    q, r = outputs
    return q @ r, lib.abs(r), lib.abs(q)


def _slogdet_of(lib, outputs, *args):
    return outputs[0].detach(), outputs[1]  # PyTorch has zeros as the sign's gradient


def _any_matrix(d):
    n, m = d.choice([(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)])
    return d.laid_out_plain(d.rng.normal(size=(*batch(d), n, m)))


def _tall_matrix(d):
    n, m = d.choice([(2, 2), (3, 2), (3, 3), (3, 1)])
    return d.laid_out_plain(d.rng.normal(size=(*batch(d), n, m)))


def _matrix_norm(d):
    orders = ["fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2]
    return Call({"A": _any_matrix(d), "ord": d.choice(orders)}, d.pick({"keepdim": [True]}))


def _vector_norm(d):
    shape = d.shape(empty=False)
    call = {"x": d.array(shape), "ord": d.choice([2, 1, 3, 0.5, 0, np.inf, -np.inf, -1])}
    return Call(call, d.pick({"dim": [d.dim(shape), d.dims(shape)], "keepdim": [True]}))


def _norm(d):
    if d.maybe():
        a = _any_matrix(d)
        return Call({"A": a, "ord": d.choice(["fro", "nuc", 1, 2, np.inf])}, {"dim": (-2, -1)})
    shape = d.shape(1, empty=False)
    return Call(
        {"A": d.array(shape)}, {"ord": d.choice([None, 2, 1, 3.0, np.inf]), "dim": d.dim(shape)}
    )


DECOMPOSED = {"kinds": ("float64", "float32"), "situations": PLAIN, "loose": 256}

TABLE = {
    "matmul": case(_matmul, loose=4),
    "linalg.matmul": case(_matmul, loose=4).floating,
    "Tensor.__matmul__": case(_matmul, loose=4),
    "mm": product("nk", "km"),
    "bmm": product("bnk", "bkm"),
    "mv": product("nk", "k", names=("input", "vec")),
    "dot": product("k", "k", names=("input", "tensor")),
    "vdot": product("k", "k", names=("input", "other")),
    "inner": product("nk", "mk", names=("input", "other")),
    "outer": product("n", "m", names=("input", "vec2")),
    "ger": product("n", "m", names=("input", "vec2")),
    "addmm": added("nm", "nk", "km", ("input", "mat1", "mat2")),
    "addmv": added("n", "nk", "k", ("input", "mat", "vec")),
    "addr": added("nm", "n", "m", ("input", "vec1", "vec2")),
    "baddbmm": added("bnm", "bnk", "bkm", ("input", "batch1", "batch2")),
    "addbmm": added("nm", "bnk", "bkm", ("input", "batch1", "batch2")),
    "einsum": case(
        _einsum, run=lambda lib, equation, operands: lib.einsum(equation, *operands), loose=4
    ),
    "tensordot": case(_tensordot, loose=4),
    "chain_matmul": case(
        _chain, run=lambda lib, tensors: lib.chain_matmul(*tensors), loose=8
    ).floating,
    "multi_dot": case(_chain, loose=8).floating,
    "kron": case(_kron),
    "cross": case(_cross),
    "vecdot": case(_vecdot, loose=4).floating,
    "vander": case(_vander).without("ones", "scalar", "empty"),
    "linear": case(_linear, loose=4).floating,
    "bilinear": case(_bilinear, loose=4).floating,
    "det": matrix(square),
    "logdet": matrix(definite, "input"),
    "slogdet": matrix(square).but(through=_slogdet_of),
    "inv": matrix(square),
    "inverse": matrix(square, "input"),
    "pinv": matrix(_any_matrix),
    "pinverse": matrix(_any_matrix, "input"),
    "cholesky": matrix(definite, upper=[True]),
    "cholesky_inverse": matrix(lambda d: np.abs(triangular(d)), "L"),
    "cholesky_solve": case(_cholesky_solve, **DECOMPOSED),
    "solve": case(_solve, **DECOMPOSED),
    "solve_triangular": case(_solve_triangular, **DECOMPOSED),
    "lstsq": case(_lstsq, through=lambda lib, out, *args: out[0], **DECOMPOSED),
    "eigh": case(lambda d: Call({"A": symmetric(d)}), through=_eigh_of, **DECOMPOSED),
    "eigvalsh": matrix(symmetric),
    "svd": case(
        lambda d: Call({"A": _any_matrix(d)}, {"full_matrices": False}),
        through=_svd_of,
        **DECOMPOSED,
    ),
    "svdvals": matrix(_any_matrix),
    "qr": case(lambda d: Call({"A": _tall_matrix(d)}), through=_qr_of, **DECOMPOSED),
    "lu": matrix(square),
    "lu_factor": matrix(square),
    "matrix_exp": matrix(square).but(loose=2048),
    "matrix_power": case(_power, **DECOMPOSED),
    "matrix_norm": case(_matrix_norm, **DECOMPOSED),
    "vector_norm": case(_vector_norm, loose=4).floating,
    "linalg.norm": case(_norm, **DECOMPOSED),
    "matrix_rank": matrix(_any_matrix).but(orders=0),
    "cond": matrix(square, p=[None, 2, 1, "fro"]),
    "cholesky_ex": matrix(definite, upper=[True]),
    "inv_ex": matrix(square),
    "lu_factor_ex": matrix(square),
    "solve_ex": case(_solve, **DECOMPOSED),
    "linalg.lu_solve": case(_linalg_lu_solve, **DECOMPOSED),
    "lu_solve": case(_lu_solve, **DECOMPOSED),
    "tensorinv": case(lambda d: Call({"A": d.array((2, 3, 6))}, {"ind": 2}), **DECOMPOSED),
    "tensorsolve": case(
        lambda d: Call({"A": d.array((2, 3, 6)), "B": d.array((2, 3))}), **DECOMPOSED
    ),
}
