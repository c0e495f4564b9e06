"""How images lie in memory for the tiles of a convolution, as tables for the compiled kernels.

(a) An image is copied once, with its padding, into planes in which every tap of the kernel is a fixed offset from the
    place of its window. The places of windows are then counted as one long row per slice of depth: where a row of windows
    ends, what the next few places give is not wanted and left out.
(b) With a stride of one the padding behind a row is also that in front of the next.
(c) With a larger stride s, element i of a dimension lies in plane i mod s at i // s, so that neighbouring windows read
    neighbours. Only the planes that a tap reads are made.
(d) The adjoint by the images reads its grad in the same way: elements of the result with the same remainder by s see the
    same taps, so there is a grid of places for each remainder, whose results are s apart.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

LINE = 16  # Elements: channels are an odd number of lines of a cache apart, so that they do not fall on one place in it.

__all__ = ["Grid", "Layout", "adjoint", "forward", "plain", "squares"]


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the elements of a channel are copied to.

    Attributes
    ----------
    table : ndarray of intp
        Triples with a number per dimension: `size` of the image, `stride`, `shift` (padding in front), `planes` per
        dimension, `rows` (the last of the three is the length of a row, the pitch), then `plane` and `channel`, the
        elements of a plane and of a channel.
    phases : ndarray of intp
        Which remainders have planes, dimension after dimension.
    """

    table: np.ndarray
    phases: np.ndarray
    rows: tuple[int, int, int]
    plane: int


@dataclass(frozen=True, eq=False)
class Grid:
    """Places of windows, and the taps that they see.

    Attributes
    ----------
    table : ndarray of intp
        Three triples: the number of places, the first element of the result, and the distance of elements; then the
        offset of a slice, and of the first place.
    offsets : ndarray of intp
        Of each tap, from its place.
    taps : ndarray of intp
        Which elements of the kernel these are.
    """

    table: np.ndarray
    offsets: np.ndarray
    taps: np.ndarray


def _three(values, fill):
    return (fill,) * (3 - len(values)) + tuple(values)


def _numbers(w):
    """size, kernel, stride, padding, dilation and windows in three dimensions."""
    rows = (w.size, w.kernel, w.stride, w.padding, w.dilation, w.out)
    return [_three(row, fill) for row, fill in zip(rows, (1, 1, 1, 0, 1, 1))]


def _layout(size, stride, shift, phases, rows, behind):
    """`behind` is how many elements are read after the last row."""
    planes = tuple(len(p) for p in phases)
    plane = rows[0] * rows[1] * rows[2] + behind
    lines = -(-planes[0] * planes[1] * planes[2] * plane // LINE)
    channel = (lines | 1) * LINE
    table = (*size, *stride, *shift, *planes, *rows, plane, channel)
    return Layout(
        np.array(table, np.intp), np.array(list(itertools.chain(*phases)), np.intp), rows, plane
    )


def _grid(counts, first, step, rows, offsets, taps):
    table = (*counts, *first, *step, rows[1] * rows[2])
    return Grid(np.array(table, np.intp), np.array(offsets, np.intp), np.array(taps, np.intp))


def _at(rows, place):
    return (place[0] * rows[1] + place[1]) * rows[2] + place[2]


def forward(w):
    """What windows see: the layout of images, and one grid."""
    size, kernel, stride, padding, dilation, out = _numbers(w)
    seen = [[divmod(t * d, s)[::-1] for t in range(k)] for k, d, s in zip(kernel, dilation, stride)]
    phases = [sorted({phase for phase, _ in taps}) for taps in seen]
    rows = [o + max(e for _, e in taps) for o, taps in zip(out, seen)]
    behind = 0
    if stride[2] == 1:
        needed = rows[2]  # with padding of its own at both ends
        after = needed - padding[2] - size[2]
        rows[2] = max(out[2], size[2] + max(padding[2], after))
        behind = max(needed - rows[2], 0)
    layout = _layout(size, stride, padding, phases, tuple(rows), behind)
    offsets = []
    for place in itertools.product(*seen):
        index = 0
        for (phase, _), known in zip(place, phases):
            index = index * len(known) + known.index(phase)
        offsets.append(index * layout.plane + _at(rows, [e for _, e in place]))
    return layout, [_grid(out, (0,) * 3, (1,) * 3, rows, offsets, range(w.taps))]


def adjoint(w):
    """What an element of an image is seen by: the layout of what is like the windows, and grids of elements."""
    size, kernel, stride, padding, dilation, out = _numbers(w)
    dims = []  # per dimension and remainder: (first, its place, count, [(tap, places back)])
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        found = []
        for phase in range(s):
            place = -((phase - p) // s)
            first, last = place * s + phase - p, (n - 1 + p - phase) // s
            taps = [(t, t * d // s) for t in range(k) if t * d % s == phase]
            if last >= place:
                found.append((first, place, last - place + 1, taps))
        dims.append(found)
    rows, shift, behind = [], [], 0
    for i, found in enumerate(dims):
        reads = [
            (place - e, place - e + n - 1) for _, place, n, taps in found for _, e in taps
        ] or [(0, 0)]
        before = max(0, -min(low for low, _ in reads))
        after = max(0, max(high for _, high in reads) - out[i] + 1)
        needed = before + out[i] + after
        shift.append(before)
        if i < 2:
            rows.append(needed)
        else:
            rows.append(max(out[i] + max(before, after), max(n for _, _, n, _ in found)))
            behind = max(needed - rows[2], 0)
    layout = _layout(out, (1,) * 3, shift, [[0]] * 3, tuple(rows), behind)
    grids = []
    for three in itertools.product(*dims):
        firsts, places, counts, taps = zip(*three)
        offsets, indices = [], []
        for tap in itertools.product(*taps):
            back = [s + p - e for s, p, (_, e) in zip(shift, places, tap)]
            offsets.append(_at(rows, back))
            indices.append((tap[0][0] * kernel[1] + tap[1][0]) * kernel[2] + tap[2][0])
        grids.append(_grid(counts, firsts, stride, rows, offsets, indices))
    return layout, grids


def plain(w, pitch):
    """The windows' own places, rows of them `pitch` apart: the layout of a grad that meets images laid out by `forward`.

    Slices of depth count as channels.
    """
    _, height, width = _numbers(w)[5]
    return _layout((1, height, width), (1,) * 3, (0,) * 3, [[0]] * 3, (1, height, pitch), 0)


def squares(size, out, before):
    """Images of spatial shape `size` as `winograd` reads them, for results of shape `out` from windows of 3 by 3.

    `before` is the padding in front, or how many elements are left out there, negative.
    """
    rows = (1, (out[0] + 1) // 2 + 1, (out[1] + 1) // 2 + 1)
    return _layout((1, *size), (1, 2, 2), (0, *before), [[0], [0, 1], [0, 1]], rows, 0)
