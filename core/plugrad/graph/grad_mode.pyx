"""Grad mode: whether operators record a graph, one switch per thread.

(a) The switch is a C thread-local integer: reading it costs a load, and a new thread starts with
    recording on, whatever its parent was doing.
(b) The Python classes only flip it. Each keeps a stack of what it replaced, so that one instance may be
    entered more than once.
"""
import functools
import inspect

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define PLUGRAD_THREAD_LOCAL __declspec(thread)
    #else
    #define PLUGRAD_THREAD_LOCAL __thread
    #endif
    static PLUGRAD_THREAD_LOCAL int plugrad_recording_off = 0;
    """
    int plugrad_recording_off


cdef bint recording() noexcept nogil:
    return not plugrad_recording_off


cdef bint set_recording(bint on) noexcept nogil:
    """Set the mode of this thread and return the one it had."""
    global plugrad_recording_off
    cdef bint before = not plugrad_recording_off
    plugrad_recording_off = not on
    return before


def is_grad_enabled():
    """Whether operators called on this thread record a graph."""
    return recording()


class _GradMode:
    """A grad mode that holds inside a ``with`` block, or while a decorated function runs."""

    def __init__(self, mode):
        self._mode = bool(mode)
        self._before = []

    def __enter__(self):
        self._before.append(set_recording(self._mode))
        return self

    def __exit__(self, *exc_info):
        set_recording(self._before.pop())

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self._mode, function)
        mode = self._mode

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            before = set_recording(mode)
            try:
                return function(*args, **kwargs)
            finally:
                set_recording(before)

        return wrapper

    def __repr__(self):
        return f"{type(self).__name__}()"


def _wrap_generator(mode, function):
    """The mode holds while the generator's own code runs, not in the code that consumes it."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        generator = function(*args, **kwargs)
        step, argument = generator.send, None
        while True:
            before = set_recording(mode)
            try:
                value = step(argument)
            except StopIteration as stop:
                return stop.value
            finally:
                set_recording(before)
            try:
                step, argument = generator.send, (yield value)
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:
                step, argument = generator.throw, error

    return wrapper


class no_grad(_GradMode):
    """Record nothing: as a context manager, or as a decorator of a function or generator.

    Holds for the current thread only. ``@no_grad`` and ``@no_grad()`` both work.
    """

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()
        return self(function)

    def __init__(self, function=None):
        super().__init__(False)


class enable_grad(_GradMode):
    """Record again inside a ``no_grad`` region: as a context manager or a decorator."""

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()
        return self(function)

    def __init__(self, function=None):
        super().__init__(True)


class set_grad_enabled(_GradMode):
    """Set the grad mode at once; as a context manager the old one returns at the end of the block.

    Parameters
    ----------
    mode : bool
        True records, False does not.
    """

    def __init__(self, mode):
        super().__init__(mode)
        self._before.append(set_recording(self._mode))

    def __enter__(self):
        if not self._before:
            self._before.append(set_recording(self._mode))
        return self

    def __call__(self, function):
        if self._before:
            set_recording(self._before.pop())
        return super().__call__(function)
