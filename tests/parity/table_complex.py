"""Operators between real and complex numbers."""

from calls import COMPLEX, Call, binary, case, positive, real, unary

REALS = ("float64", "float32")
BOTH = (COMPLEX, *REALS)


def _pairs(d):
    return Call({"input": d.array((*d.shape(), 2))})


TABLE = {
    "complex": binary(number=False, names=("real", "imag")).but(kinds=REALS),
    "polar": binary(positive, real, number=False, names=("abs", "angle")).but(
        kinds=REALS, exact=False
    ),
    "real": unary().but(kinds=BOTH),
    "imag": unary().but(kinds=(COMPLEX,)),
    "Tensor.real": unary().but(kinds=BOTH, run=lambda lib, input: input.real),
    "Tensor.imag": unary().but(kinds=(COMPLEX,), run=lambda lib, input: input.imag),
    "angle": unary().but(kinds=BOTH),
    "conj": unary().but(kinds=BOTH),
    "conj_physical": unary().but(kinds=BOTH),
    "resolve_conj": unary().but(kinds=BOTH),
    "resolve_neg": unary().but(kinds=BOTH),
    "view_as_real": unary().but(kinds=(COMPLEX,)),
    "view_as_complex": case(_pairs, kinds=REALS).without("strided", "empty"),
}
