"""Names that a shared object expects from elsewhere, read from its dynamic symbol table."""

import struct
from pathlib import Path

_SHT_DYNSYM = 11


def undefined_symbols(path: Path) -> list[str]:
    """The undefined dynamic symbols of a 64-bit little-endian ELF file, sorted.

    Raises
    ------
    ValueError
        If the file is not one.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        start, length, strings = section[4], section[5], sections[section[6]][4]
        for at in range(start, start + length, 24):
            name, _, _, home = struct.unpack_from("<IBBH", data, at)
            if home == 0 and name:
                names.add(data[strings + name : data.index(b"\0", strings + name)].decode())
    return sorted(names)
