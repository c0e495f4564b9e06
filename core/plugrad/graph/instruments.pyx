"""Instruments: what may look on while operators are called and graphs run.

Four kinds exist: observers of calls, packing of saved values, watching nodes (anomaly mode), and tangents (forward
mode). One word tells which are in use anywhere in the process. While it is zero the hot paths test that word and
nothing else; an instrument that is in use decides itself whether it concerns the current thread.
"""
from plugrad.graph.node cimport Node

instruments = 0

cdef list _observers = []
cdef object _pack = None
cdef object _watch = None
cdef object _dual = None


cdef class Packed:
    """A saved value that a hook replaced, and the hook that brings it back."""

    def __init__(self, content, unpack):
        self.content = content
        self.unpack = unpack


def install(str kind, instrument):
    """Put an instrument in its place, or take it away with None.

    Parameters
    ----------
    kind : {"pack", "watch", "dual"}
        pack: ``f(tensor)`` returns a Packed, or None to save the tensor as always.
        watch: an object with ``recorded(node)``, ``before(node)`` and ``after(node, result)``.
        dual: ``f(op, inputs, constants, outputs)``, called after every operator call.
    instrument : object or None
    """
    global instruments, _pack, _watch, _dual
    if kind == "pack":
        _pack = instrument
        bit = PACK
    elif kind == "watch":
        _watch = instrument
        bit = WATCH
    elif kind == "dual":
        _dual = instrument
        bit = DUAL
    else:
        raise ValueError(f"an instrument is 'pack', 'watch' or 'dual', got {kind!r}")
    instruments = instruments & ~bit if instrument is None else instruments | bit


class observe:
    """While active, ``callback(op)`` is called for every operator call in the process."""

    def __init__(self, callback):
        self._callback = callback

    def __enter__(self):
        global instruments
        _observers.append(self._callback)
        instruments |= OBSERVE
        return self

    def __exit__(self, *exc_info):
        global instruments
        _observers.remove(self._callback)
        if not _observers:
            instruments &= ~OBSERVE


cdef int notify_observers(object op) except -1:
    for callback in list(_observers):
        callback(op)
    return 0


cdef object packed(object tensor):
    return None if _pack is None else _pack(tensor)


cdef int notify_recorded(Node node) except -1:
    if _watch is not None:
        _watch.recorded(node)
    return 0


cdef int notify_before(Node node) except -1:
    if _watch is not None:
        _watch.before(node)
    return 0


cdef object notify_after(Node node, object result):
    if _watch is not None:
        _watch.after(node, result)
    return result


cdef int push_forward(object op, list inputs, tuple constants, list outs) except -1:
    if _dual is not None:
        _dual(op, inputs, constants, outs)
    return 0
