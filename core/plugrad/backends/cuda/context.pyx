"""The context and the current stream of each thread.

(a) A context is current on one thread. `ensure` compares one thread-local integer, and only on a thread's
    first use does it make the device's primary context current there.
(b) The current stream belongs to the thread, too; without one it is the default stream, on which PyTorch
    and CuPy work as well. Streams made here wait for the default stream and it for them (they are "blocking"
    streams), so that leaving `with stream(s)` needs no synchronisation to be right.
(c) Each stream has a pool of memory of its own: a block that was freed is used again on the same stream, behind
    everything that still reads it. (How blocks that other streams read are held back: `storage`.)
(d) PyCUDA's streams and events are used again, never destroyed: destroying one needs the context, which the thread
    that drops it, or the end of the process, may not have.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF, Py_XINCREF

from plugrad.backends.cuda import device, memory
from plugrad.backends.cuda.errors import NotAvailableError, translated

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define PLUGRAD_THREAD_LOCAL __declspec(thread)
    #else
    #define PLUGRAD_THREAD_LOCAL _Thread_local
    #endif
    static PLUGRAD_THREAD_LOCAL int plugrad_ready;
    static PLUGRAD_THREAD_LOCAL int plugrad_ended;
    static PLUGRAD_THREAD_LOCAL PyObject *plugrad_stream;
    """
    int plugrad_ready
    int plugrad_ended
    PyObject *plugrad_stream

cdef Stream _default = None
cdef bint _several = False
cdef list _spare_streams = []
cdef dict _spare_events = {}


cdef int ensure() except -1:
    """Make the device usable on this thread."""
    global plugrad_ready
    if plugrad_ready:
        return 0
    if plugrad_ended:
        device.require()
        raise NotAvailableError("this thread is ending: nothing new can be done with the device on it")
    device.enter()
    plugrad_ready = 1
    return 0


def left(bint ended):
    """This thread's context was popped since the thread ends, or belongs to the process that forked this one."""
    global plugrad_ready, plugrad_ended
    plugrad_ready = 0
    plugrad_ended = ended


def enter():
    """Make the device usable on this thread."""
    ensure()


cdef class Stream:
    """A queue of work on the device; what is queued on one stream runs in order.

    Attributes
    ----------
    handle : pycuda.driver.Stream or None
        None for the default stream.
    pool : pycuda.tools.DeviceMemoryPool
        Where arrays made on this stream get their memory.
    """

    def __init__(self):
        global _several
        ensure()
        _several = True
        try:
            self.handle, self.pool = _spare_streams.pop()
        except IndexError:
            self.handle, self.pool = device.driver().Stream(), memory.new_pool()

    def __dealloc__(self):
        if self.handle is not None:
            _spare_streams.append((self.handle, self.pool))

    @property
    def ptr(self):
        """The stream as the address that other libraries know it by; 0 for the default stream."""
        return 0 if self.handle is None else self.handle.handle

    def query(self):
        """Whether everything queued so far has run."""
        ensure()
        return device.default_stream_is_done() if self.handle is None else self.handle.is_done()

    def synchronize(self):
        """Wait until everything queued so far has run.

        Raises
        ------
        CudaError
            A kernel that was queued earlier failed.
        """
        wait(self)

    def wait_event(self, event):
        """Let later work on this stream start after what `event` recorded."""
        event.wait(self)

    def wait_stream(self, Stream other not None):
        """Let later work on this stream start after what is queued on `other` now."""
        self.wait_event(other.record_event())

    def record_event(self, event=None):
        """Record an event (a new one by default) behind what is queued, and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream) and self.ptr == (<Stream>other).ptr

    def __hash__(self):
        return hash(self.ptr)

    def __repr__(self):
        return f"<plugrad.cuda.Stream {self.ptr:#x}>"


class Event:
    """A mark in a stream, to wait for or to measure time with.

    Parameters
    ----------
    enable_timing : bool, default False
        Whether `elapsed_time` can be asked.
    blocking, interprocess : bool
        Accepted as PyTorch has them; `blocking` makes `synchronize` sleep in place of spinning.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        ensure()
        if interprocess:
            raise ValueError("Event(): events between processes are not supported")
        flags = device.driver().event_flags
        self.enable_timing = bool(enable_timing)
        self.recorded = False
        self.flags = (0 if enable_timing else flags.DISABLE_TIMING) | (flags.BLOCKING_SYNC if blocking else 0)
        try:
            self.handle = _spare_events[self.flags].pop()
        except LookupError:
            self.handle = device.driver().Event(self.flags)

    def __del__(self):
        if hasattr(self, "handle"):
            _spare_events.setdefault(self.flags, []).append(self.handle)

    def record(self, stream=None):
        """Mark the end of what is queued on a stream, by default the current one."""
        ensure()
        self.handle.record((current() if stream is None else <Stream?>stream).handle)
        self.recorded = True

    def wait(self, stream=None):
        """Let later work on a stream, by default the current one, start after this event."""
        ensure()
        cdef Stream waiting = current() if stream is None else <Stream?>stream
        if not self.recorded:
            return
        if waiting.handle is None:
            # PyCUDA waits on behalf of its own streams only; the default stream waits with the host.
            self.synchronize()
        else:
            waiting.handle.wait_for_event(self.handle)

    def query(self):
        """Whether everything before the event has run."""
        ensure()
        return not self.recorded or self.handle.query()

    def synchronize(self):
        """Wait until everything before the event has run."""
        ensure()
        if not self.recorded:
            return
        try:
            self.handle.synchronize()
        except device.driver().Error as error:
            raise failed(error) from error

    def elapsed_time(self, end):
        """Milliseconds from this event to `end`; both must have been recorded and passed."""
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("elapsed_time() needs two events made with enable_timing=True")
        if not (self.recorded and end.recorded):
            raise RuntimeError("elapsed_time() needs two events that were recorded")
        return self.handle.time_till(end.handle)


cdef Stream current():
    """The stream that this thread's work goes to."""
    if plugrad_stream != NULL:
        return <Stream>plugrad_stream
    if _default is None:
        default_stream()
    return _default


cdef bint several_streams() noexcept:
    """Whether there ever was another stream than the default one."""
    return _several


def default_stream():
    """The stream that work goes to unless another is chosen."""
    global _default
    if _default is None:
        ensure()
        stream = Stream.__new__(Stream)
        (<Stream>stream).pool = memory.new_pool()
        _default = stream
    return _default


def current_stream():
    """The stream that this thread's work goes to."""
    ensure()
    return current()


def set_stream(Stream stream not None):
    """Let this thread's work go to `stream` from now on; returns the stream that it went to before."""
    global plugrad_stream
    ensure()
    before = current()
    cdef PyObject *old = plugrad_stream
    Py_XINCREF(<PyObject *>stream)
    plugrad_stream = <PyObject *>stream
    Py_XDECREF(old)
    return before


def wait(Stream stream):
    """Wait for a stream, or for the whole device (None)."""
    ensure()
    try:
        if stream is None or stream.handle is None:
            device.driver().Context.synchronize()
        else:
            stream.handle.synchronize()
    except device.driver().Error as error:
        raise failed(error) from error


def failed(error):
    """What to raise when the device reports that something queued earlier failed."""
    from plugrad.backends.cuda.launch import last_launched

    last = last_launched()
    after = f"; the kernel launched last was {last}" if last else ""
    return translated(
        error,
        f"a kernel that was queued earlier failed{after} (with CUDA_LAUNCH_BLOCKING=1 in the environment the error "
        "comes from the launch itself)",
    )
