"""Functions given piece by piece, each computed only where it counts."""

from plugrad import composite, ops


@composite("standard::piecewise")
def piecewise(input, condlist, funclist):
    """``funclist[i]`` of the elements of `input` where ``condlist[i]`` holds; NumPy's function of that name.

    No function sees elements of another piece, so that, unlike with `where`, a branch that was not taken cannot turn
    the gradient into NaN: ``piecewise(x, [x > 0], [sqrt, 0])``.

    Parameters
    ----------
    condlist : sequence of bool Tensor
        Of the shape of `input`. Where several hold, the last one counts.
    funclist : sequence of callable or number
        One per condition, and perhaps one more for where none holds (0 otherwise). A callable gets the elements as a
        1-d Tensor and returns as many, or one.

    Raises
    ------
    ValueError
        There is no condition, or not as many functions as conditions or one more.
    """
    conditions, functions = list(condlist), list(funclist)
    extra = len(functions) - len(conditions)
    if not conditions or extra not in (0, 1):
        raise ValueError(
            "piecewise: at least one condition, and as many functions or one more, are needed; got "
            f"{len(conditions)} conditions and {len(functions)} functions"
        )
    if extra:
        conditions.insert(0, ops.logical_not(_any(conditions)))
        functions.insert(0, functions.pop())
    out = ops.zeros_like(input)
    for condition, function in zip(conditions, functions):
        chosen = input[condition]
        value = function(chosen) if callable(function) else ops.zeros_like(chosen) + function
        out = ops.index_put(out, (condition,), value)
    return out


def _any(conditions):
    found = conditions[0]
    for condition in conditions[1:]:
        found = ops.logical_or(found, condition)
    return found


def _root(x):
    return ops.sqrt(x)


def _double(x):
    return x * 2


@piecewise.samples
def _(make):
    x = make.values([[0.0, -1.0, 4.0], [2.0, 0.25, -3.0]])
    yield make.call(x, [x > 0], [_root, 0])
    yield make.call(x, [x > 0, x > 3], [_root, _double])
    yield make.call(make.normal(0, 2), [make.booleans(0, 2)], [_root, _double])
    yield make.error(ValueError, "as many functions", make.normal(2), [make.booleans(2)], [])
