"""What a cubin says of its kernels' parameters: where each lies in the argument buffer, and how large it is.

The driver reads as many bytes as the kernel declares, whatever was passed: an argument list of the wrong length
would be a silent wrong number. The compiler notes the parameters in a section per kernel
(``.nv.info.<kernel>``), as a list of attributes; the one for a parameter has its position, offset and size.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["Parameter", "parameters"]

KPARAM_INFO = 0x17  # the attribute that describes one parameter
SIZED_VALUE = 0x04  # the format of attributes that have a length and data
SECTION = b".nv.info."


class Parameter(NamedTuple):
    """One parameter of a kernel, in bytes."""

    offset: int
    size: int


def parameters(image: bytes) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of every kernel of a cubin, in order; empty for an image of another kind."""
    try:
        return {
            name: tuple(_attributes(image[start:end])) for name, start, end in _info_sections(image)
        }
    except (struct.error, IndexError, OverflowError, ValueError):
        return {}


def _info_sections(image: bytes) -> list[tuple[str, int, int]]:
    """(kernel, start, end) of each section that describes a kernel."""
    if image[:5] != b"\x7fELF\x02":  # 64-bit ELF
        return []
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    found = []
    for name_offset, _, _, _, offset, size in headers:
        start = names + name_offset
        name = image[start : image.index(b"\0", start)]
        if name.startswith(SECTION):
            found.append((name[len(SECTION) :].decode(), offset, offset + size))
    return found


def _attributes(section: bytes) -> list[Parameter]:
    found = {}
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != SIZED_VALUE:
            continue
        if attribute == KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack_from("<IHHI", section, at)
            found[ordinal] = Parameter(offset, flags >> 18)
        at += size
    return [found[ordinal] for ordinal in sorted(found)]
