"""einsum: sums of products over labelled dimensions.

(a) A call is read once per equation and ranks (`_read`): the labels of each operand, an ellipsis given labels of its own,
    and those of the result.
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


class Labelled:
    """A tensor and the label of each of its dimensions, no label twice."""

    def __init__(self, tensor, labels):
        self.tensor = tensor
        self.labels = labels

    def sizes(self):
        return dict(zip(self.labels, self.tensor.shape))

    def summed(self, gone):
        """The sum over some labels."""
        dims = tuple(i for i, label in enumerate(self.labels) if label in gone)
        if not dims:
            return self
        left = [label for label in self.labels if label not in gone]
        return Labelled(ops.sum(self.tensor, dim=dims), left)

    def squeezed(self, gone):
        """Without some labels, whose dimensions have length 1."""
        left = [label for label in self.labels if label not in gone]
        sizes = self.sizes()
        return Labelled(ops.reshape(self.tensor, tuple(sizes[a] for a in left)), left)

    def ordered(self, labels):
        """The tensor with its dimensions in this order; new ones have length 1."""
        have = [label for label in labels if label in self.labels]
        tensor = self.tensor
        if have != self.labels:
            tensor = ops.permute(tensor, dims=tuple(self.labels.index(a) for a in have))
        if len(have) < len(labels):
            sizes = self.sizes()
            tensor = ops.reshape(tensor, tuple(sizes.get(a, 1) for a in labels))
        return tensor

    def grouped(self, *groups):
        """The tensor with one dimension for each group of labels."""
        sizes = self.sizes()
        tensor = self.ordered([label for group in groups for label in group])
        return ops.reshape(tensor, tuple(math.prod(sizes[a] for a in group) for group in groups))


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


@lru_cache(maxsize=512)
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


def _prepared(i, tensor, labels):
    """An operand in which a label that is repeated has become the diagonal of its dimensions."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise RuntimeError(
                    f"einsum: the label {label!r} is repeated on operand {i}, of shape {tensor.shape}, with two lengths"
                )
            tensor = ops.diagonal(tensor, offset=0, dim1=first, dim2=second)
            del labels[second], labels[first]
            labels.append(label)
    return Labelled(tensor, labels)


def _check_sizes(operands):
    sizes = {}
    for i, operand in enumerate(operands):
        for label, n in operand.sizes().items():
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
    one, other = a.sizes(), b.sizes()
    shared = [label for label in a.labels if label in other]
    a = a.squeezed([s for s in shared if one[s] == 1 != other[s]])
    b = b.squeezed([s for s in shared if other[s] == 1 != one[s]])
    a = a.summed([s for s in a.labels if s not in b.labels and s not in needed])
    b = b.summed([s for s in b.labels if s not in a.labels and s not in needed])
    shared = [s for s in a.labels if s in b.labels]
    stack, inner = [s for s in shared if s in needed], [s for s in shared if s not in needed]
    left = [s for s in a.labels if s not in shared]
    right = [s for s in b.labels if s not in shared]
    labels = stack + left + right
    if not inner:
        return Labelled(a.ordered(labels) * b.ordered(labels), labels)
    product = ops.matmul(a.grouped(stack, left, inner), b.grouped(stack, inner, right))
    sizes = {**a.sizes(), **b.sizes()}
    return Labelled(ops.reshape(product, tuple(sizes[s] for s in labels)), labels)


@lru_cache(maxsize=512)
def _path(terms, output, shapes):
    """Which operands to combine, step by step; what comes out goes to the end of the list."""
    try:
        from opt_einsum import contract_path, get_symbol
    except ImportError:
        count = len(terms)
        return [(0, 1), *[(0, n) for n in range(count - 2, 0, -1)]]
    names = {}
    for label in (label for term in terms for label in term):
        names.setdefault(label, get_symbol(len(names)))
    left, right = (",".join("".join(map(names.get, t)) for t in part) for part in (terms, [output]))
    path, _ = contract_path(f"{left}->{right}", *shapes, shapes=True)
    return [tuple(step) for step in path]


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
    inputs, output = _read(equation, tuple(x.ndim for x in operands))
    terms = [_prepared(i, x, own) for i, (x, own) in enumerate(zip(operands, inputs))]
    _check_sizes(terms)
    steps = [(0, 1)] * (len(terms) == 2)
    if len(terms) > 2:
        described = tuple(tuple(t.labels) for t in terms)
        steps = _path(described, tuple(output), tuple(t.tensor.shape for t in terms))
    for step in steps:
        chosen = [terms.pop(i) for i in sorted(step, reverse=True)][::-1]
        needed = {label for rest in terms for label in rest.labels}.union(output)
        while len(chosen) > 1:  # some orders join three and more at a time
            later = {label for rest in chosen[2:] for label in rest.labels}
            chosen[:2] = [_pair(chosen[0], chosen[1], needed | later)]
        terms.append(chosen[0])
    (found,) = terms
    return found.summed([label for label in found.labels if label not in output]).ordered(output)


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
