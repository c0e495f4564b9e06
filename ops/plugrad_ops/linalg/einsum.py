"""einsum: sums of products over labelled dimensions.

(a) A call is read and planned once per equation and shapes (`_planned`): the labels of each operand, an ellipsis given
    labels of its own, and those of the result; then which operators to call. Calling them is all that is left to do.
(b) Operands are combined two at a time, each pair by one batched product of matrices, or elementwise where nothing is
    summed. Labels that only one of the two has and nothing else needs are summed beforehand.
(c) Three operands and more go in the order that the package opt_einsum finds cheapest; without it, from left to right.
(d) A dimension of length 1 broadcasts against other lengths of its label.
"""

import math
from functools import lru_cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase

from plugrad import composite, ops

LETTERS = (
    ascii_uppercase + ascii_lowercase
)  # the numbers of the sublist form, in the order of results


class Plan:
    """Calls of operators, each on values by their places: first come the operands, then what the calls give."""

    def __init__(self, count):
        self.calls = []
        self.count = count
        self.result = 0

    def add(self, name, *places, **options):
        """The place of what a call will give."""
        self.calls.append((name, places, options))
        self.count += 1
        return self.count - 1

    def run(self, operands):
        values = list(operands)
        for name, places, options in self.calls:
            values.append(getattr(ops, name)(*[values[p] for p in places], **options))
        return values[self.result]


class Labelled:
    """A value of a plan and the length of each of its labels, in the order of its dimensions, no label twice."""

    def __init__(self, plan, place, sizes):
        self.plan = plan
        self.place = place
        self.sizes = sizes

    def _then(self, name, sizes, **options):
        return Labelled(self.plan, self.plan.add(name, self.place, **options), sizes)

    def reshaped(self, sizes):
        """With other labels, whose lengths have the same product."""
        shape = tuple(sizes.values())
        if shape == tuple(self.sizes.values()):
            return Labelled(self.plan, self.place, sizes)
        return self._then("reshape", sizes, shape=shape)

    def without(self, gone):
        return {label: n for label, n in self.sizes.items() if label not in gone}

    def summed(self, gone):
        """The sum over some labels."""
        dims = tuple(i for i, label in enumerate(self.sizes) if label in gone)
        return self._then("sum", self.without(gone), dim=dims) if dims else self

    def squeezed(self, gone):
        """Without some labels, whose dimensions have length 1."""
        return self.reshaped(self.without(gone))

    def ordered(self, labels):
        """With its dimensions in this order; new ones have length 1."""
        own = list(self.sizes)
        have = {label: self.sizes[label] for label in labels if label in self.sizes}
        found = self
        if list(have) != own:
            found = self._then("permute", have, dims=tuple(own.index(label) for label in have))
        return found.reshaped({label: have.get(label, 1) for label in labels})

    def grouped(self, *groups):
        """With one dimension for each group of labels."""
        found = self.ordered([label for group in groups for label in group])
        return found.reshaped(
            {tuple(group): math.prod(self.sizes[a] for a in group) for group in groups}
        )


# ---- reading -------------------------------------------------------------------------------------------------


def _arguments(args):
    """The equation and the operands of either form of a call."""
    if not args:
        raise ValueError(
            "einsum: expected an equation and operands, or operands and lists of labels"
        )
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], tuple | list):
            operands = operands[0]
        return args[0], list(operands)
    operands, terms = list(args[: len(args) // 2 * 2 : 2]), list(map(_term, args[1::2]))
    equation = ",".join(terms)
    return (equation + "->" + _term(args[-1]) if len(args) % 2 else equation), operands


def _term(labels):
    """A list of numbers from 0 to 51 as letters."""
    found = []
    for label in labels:
        if label is Ellipsis:
            found.append("...")
        elif isinstance(label, int) and 0 <= label < len(LETTERS):
            found.append(LETTERS[label])
        else:
            raise ValueError(
                f"einsum: labels are integers from 0 to {len(LETTERS) - 1} or an ellipsis, got {label!r}"
            )
    return "".join(found)


def _read(equation, ranks):
    """The labels of each operand, as lists, and those of the result; ellipses become the labels 0, 1, …."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise RuntimeError(
            f"einsum: the equation {equation!r} is for {len(terms)} operands, got {len(ranks)}"
        )
    dots = [_covered(equation, i, term, rank) for i, (term, rank) in enumerate(zip(terms, ranks))]
    most = max(dots)
    inputs = [_labels(term, count, most) for term, count in zip(terms, dots)]
    if arrow:
        if right.count("...") > 1:
            raise RuntimeError(f"einsum: the result of {equation!r} has more than one ellipsis")
        _check_letters(equation, right.replace("...", ""))
        output = _labels(right, most, most) if "..." in right else list(right)
    else:
        seen = [label for labels in inputs for label in labels if isinstance(label, str)]
        output = list(range(most)) + sorted(a for a in set(seen) if seen.count(a) == 1)
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(
                f"einsum: the label {label!r} appears more than once in the result of {equation!r}"
            )
        if not any(label in labels for labels in inputs):
            raise RuntimeError(
                f"einsum: the label {label!r} of the result of {equation!r} is on no operand"
            )
    return inputs, output


def _covered(equation, i, term, rank):
    """How many dimensions the ellipsis of a term stands for."""
    letters = term.replace("...", "", 1)
    _check_letters(equation, letters)
    named = len(letters)
    if named > rank or (named < rank and letters == term):
        raise RuntimeError(
            f"einsum: operand {i} has {rank} dimensions, but the term {term!r} of {equation!r} names {named}"
        )
    return rank - named


def _check_letters(equation, letters):
    for letter in letters:
        if letter not in ascii_letters:
            raise RuntimeError(
                f"einsum: labels are letters from a to z and A to Z, got {letter!r} in {equation!r}"
            )


def _labels(term, count, most):
    """The labels of a term; its ellipsis, of `count` dimensions, is aligned with others on the right."""
    before, dots, after = term.partition("...")
    return [*before, *(range(most - count, most) if dots else ()), *after]


# ---- contracting ---------------------------------------------------------------------------------------------


def _prepared(plan, i, shape, labels):
    """An operand in which a label that is repeated has become the diagonal of its dimensions."""
    place, lengths, labels = i, list(shape), list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if lengths[first] != lengths[second]:
                raise RuntimeError(
                    f"einsum: the label {label!r} is repeated on operand {i}, of shape {shape}, with two lengths"
                )
            place = plan.add("diagonal", place, offset=0, dim1=first, dim2=second)
            for moved in (labels, lengths):
                moved.append(moved[first])
                del moved[second], moved[first]
    return Labelled(plan, place, dict(zip(labels, lengths)))


def _check_sizes(operands):
    sizes = {}
    for i, operand in enumerate(operands):
        for label, n in operand.sizes.items():
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                what = (
                    f"label {label!r}" if isinstance(label, str) else "a dimension of the ellipsis"
                )
                raise RuntimeError(
                    f"einsum: {what} has length {n} on operand {i}, which does not broadcast with {sizes[label]} before"
                )


def _pair(a, b, needed):
    """The product of two operands, summed over the labels of theirs that are not needed any more."""
    one, other = a.sizes, b.sizes
    shared = [label for label in one if label in other]
    a = a.squeezed([s for s in shared if one[s] == 1 != other[s]])
    b = b.squeezed([s for s in shared if other[s] == 1 != one[s]])
    a = a.summed([s for s in a.sizes if s not in b.sizes and s not in needed])
    b = b.summed([s for s in b.sizes if s not in a.sizes and s not in needed])
    shared = [s for s in a.sizes if s in b.sizes]
    stack, inner = [s for s in shared if s in needed], [s for s in shared if s not in needed]
    left = [s for s in a.sizes if s not in shared]
    right = [s for s in b.sizes if s not in shared]
    both = {**a.sizes, **b.sizes}
    sizes = {label: both[label] for label in stack + left + right}
    if not inner:
        place = a.plan.add("mul", a.ordered(sizes).place, b.ordered(sizes).place)
        return Labelled(a.plan, place, sizes)
    stacks = [stack] if stack else []
    a, b = a.grouped(*stacks, left, inner), b.grouped(*stacks, inner, right)
    lengths = [*a.sizes.values()][:-1] + [*b.sizes.values()][-1:]
    product = Labelled(a.plan, a.plan.add("matmul", a.place, b.place), dict(enumerate(lengths)))
    return product.reshaped(sizes)


def _path(terms, output):
    """Which operands to combine, step by step; what comes out goes to the end of the list."""
    count = len(terms)
    if count < 3:
        return [(0, 1)] * (count - 1)
    try:
        from opt_einsum import contract_path, get_symbol
    except ImportError:
        return [(0, 1), *[(0, n) for n in range(count - 2, 0, -1)]]
    names = {}
    for label in (label for term in terms for label in term.sizes):
        names.setdefault(label, get_symbol(len(names)))
    parts = ([term.sizes for term in terms], [output])
    left, right = (",".join("".join(map(names.get, t)) for t in part) for part in parts)
    shapes = [tuple(term.sizes.values()) for term in terms]
    return contract_path(f"{left}->{right}", *shapes, shapes=True)[0]


@lru_cache(maxsize=512)
def _planned(equation, shapes):
    """The plan for operands of these shapes."""
    inputs, output = _read(equation, tuple(map(len, shapes)))
    plan = Plan(len(shapes))
    terms = [_prepared(plan, i, x, own) for i, (x, own) in enumerate(zip(shapes, inputs))]
    _check_sizes(terms)
    for step in _path(terms, output):
        chosen = [terms.pop(i) for i in sorted(step, reverse=True)][::-1]
        needed = {label for rest in terms for label in rest.sizes}.union(output)
        while len(chosen) > 1:  # some orders join three and more at a time
            later = {label for rest in chosen[2:] for label in rest.sizes}
            chosen[:2] = [_pair(chosen[0], chosen[1], needed | later)]
        terms.append(chosen[0])
    (found,) = terms
    found = found.summed([label for label in found.sizes if label not in output]).ordered(output)
    plan.result = found.place
    return plan


@composite("standard::einsum")
def einsum(*args):
    """Sums of products over labelled dimensions, in Einstein's notation.

    Parameters
    ----------
    equation : str
        A term of letters for each operand, with an ellipsis for dimensions without a name, and after ``->`` that of the
        result; without it, the labels that appear once, in order. A label repeated on one operand is its diagonal.
    *operands : tensor
        Or one list of them; or operands and lists of numbers from 0 to 51 by turns, the result's list last.

    Raises
    ------
    RuntimeError
        The equation does not fit the operands.

    Examples
    --------
    >>> plugrad.einsum("bij,bjk->bik", a, b)
    """
    equation, operands = _arguments(args)
    return _planned(equation, tuple(x.shape for x in operands)).run(operands)


@einsum.samples
def _(make):
    yield make.call("ij,jk->ik", make.normal(2, 3), make.normal(3, 2))
    yield make.call("bij,bj", make.normal(2, 2, 3), make.normal(2, 3))
    yield make.call("ii->i", make.normal(3, 3))
    yield make.call("...ij,kj->k...", make.normal(2, 2, 3), make.normal(2, 3))
    yield make.call("ij,jk,kl->il", make.normal(2, 3), make.normal(3, 2), make.normal(2, 2))
    yield make.call("i,i,j->", make.normal(3), make.normal(1), make.normal(2))
    yield make.call(make.normal(2, 3), [0, 1], make.normal(3), [1], [0])
    yield make.call("ij,j->i", make.normal(2, 0), make.normal(0))
    yield make.error(RuntimeError, "names 2", "ij->i", make.normal(3))
    yield make.error(RuntimeError, "does not broadcast", "i,i", make.normal(2), make.normal(3))
    yield make.error(RuntimeError, "more than once", "ij->ii", make.normal(2, 2))
