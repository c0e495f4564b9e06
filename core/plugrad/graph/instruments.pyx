"""Instruments: what may look on while operators are called and graphs run.

Four kinds exist: observers of calls, packing of saved values, watching nodes (anomaly mode), and tangents (forward
mode). One word tells which are in use anywhere in the process. While it is zero the hot paths test that word and
nothing else; an instrument that is in use decides itself whether it concerns the current thread. Code that must run
undisturbed (the battery of an operator) suspends all but observers and tangents on its thread.
"""
from plugrad.graph.node cimport Node

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define PLUGRAD_THREAD_LOCAL __declspec(thread)
    #else
    #define PLUGRAD_THREAD_LOCAL __thread
    #endif
    static PLUGRAD_THREAD_LOCAL int plugrad_suspended = 0;
    """
    int plugrad_suspended

instruments = 0

cdef list _observers = []
cdef object _pack = None
cdef object _watch = None
cdef object _dual = None
cdef object _results = None


cdef class Packed:
    """A saved value that a hook replaced, the hook that brings it back, and what it must then look like."""

    def __init__(self, content, unpack):
        self.content = content
        self.unpack = unpack


cdef class Tangents:
    """The tangents of one tensor, by level of forward mode; what was saved of the tensor shares them."""

    def __cinit__(self):
        self.levels = {}

    def __bool__(self):
        return bool(self.levels)


cdef class SavedDual:
    """A saved array that has tangents."""

    def __cinit__(self, array, tangents):
        self.array = array
        self.tangents = tangents


def dual():
    """The instrument of forward mode, or None while no thread uses it."""
    return _dual


def install(str kind, instrument):
    """Put an instrument in its place, or take it away with None.

    Parameters
    ----------
    kind : {"pack", "watch", "results", "dual"}
        pack: ``f(tensor)`` returns a Packed, or None to save the tensor as always.
        watch: an object with ``recorded(node)``, ``before(node)``, ``after(node, result)`` and, where the rule
        raised, ``failed(node, error)``.
        results: ``f(op, inputs, constants, outputs)``, called after every operator call.
        dual: an object with ``called(op, inputs, constants, outputs)`` after a call with an input that has
        tangents, ``written(target, tangents)`` after a tensor was overwritten by a value with these tangents (or
        None), ``refreshed(view)`` when the memory of a view was written since it was last used, and
        ``concerned(records)``: whether any of these tangents is seen now.
    instrument : object or None
    """
    global instruments, _pack, _watch, _dual, _results
    if kind == "pack":
        _pack = instrument
        bit = PACK
    elif kind == "watch":
        _watch = instrument
        bit = WATCH
    elif kind == "results":
        _results = instrument
        bit = RESULTS
    elif kind == "dual":
        _dual = instrument
        bit = DUAL
    else:
        raise ValueError(f"an instrument is 'pack', 'watch', 'results' or 'dual', got {kind!r}")
    instruments = instruments & ~bit if instrument is None else instruments | bit


def watching():
    """Whether nodes are watched on this thread."""
    return _watch is not None and not plugrad_suspended


class suspended:
    """While active, nothing packs, watches or looks at results on this thread."""

    def __enter__(self):
        global plugrad_suspended
        plugrad_suspended += 1
        return self

    def __exit__(self, *exc_info):
        global plugrad_suspended
        plugrad_suspended -= 1


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
    return None if _pack is None or plugrad_suspended else _pack(tensor)


cdef int notify_recorded(Node node) except -1:
    if _watch is not None and not plugrad_suspended:
        _watch.recorded(node)
    return 0


cdef int notify_before(Node node) except -1:
    if _watch is not None and not plugrad_suspended:
        _watch.before(node)
    return 0


cdef object notify_after(Node node, object result):
    if _watch is not None and not plugrad_suspended:
        _watch.after(node, result)
    return result


cdef int notify_failed(Node node, object error) except -1:
    if _watch is not None and not plugrad_suspended:
        _watch.failed(node, error)
    return 0


cdef int notify_results(object op, list inputs, tuple constants, list outs) except -1:
    if _results is not None and not plugrad_suspended:
        _results(op, inputs, constants, outs)
    return 0


cdef int push_forward(object op, list inputs, tuple constants, list outs) except -1:
    if _dual is not None:
        _dual.called(op, inputs, constants, outs)
    return 0


cdef int push_written(object target, object tangents) except -1:
    if _dual is not None:
        _dual.written(target, tangents)
    return 0


cdef bint concerns_tangents(list records) except -1:
    return bool(records) and _dual is not None and _dual.concerned(records)


cdef int push_refreshed(object view) except -1:
    if _dual is not None:
        _dual.refreshed(view)
    return 0
