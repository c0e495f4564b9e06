"""Grad mode: whether operators record a graph, one switch per thread.

(a) The switch is a C thread-local word, zero where a graph is recorded: reading it costs a load, and a new thread
    starts with recording on, whatever its parent was doing.
(b) The Python classes only flip it. Each keeps a stack of what it replaced, so that one instance may be
    entered more than once.
(c) Inference mode is a second bit of that word, which enable_grad leaves alone. Tensors made while it is set are
    marked. `inference_blocks` tells whether any thread is in that mode; while it is zero, making a tensor tests it and
    nothing else.
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
    static PLUGRAD_THREAD_LOCAL int plugrad_mode = 0;
    """
    int plugrad_mode

cdef enum:
    NO_GRAD = 1
    INFERENCE = 2

inference_blocks = 0


cdef bint recording() noexcept nogil:
    return plugrad_mode == 0


cdef bint set_recording(bint on) noexcept nogil:
    """Set the mode of this thread and return the one it had; inference mode stays what it is."""
    global plugrad_mode
    cdef bint before = not plugrad_mode & NO_GRAD
    plugrad_mode = (plugrad_mode & INFERENCE) | (not on)
    return before


cdef bint inferring() noexcept nogil:
    """Whether tensors made on this thread are inference tensors."""
    return plugrad_mode & INFERENCE != 0


cdef int swap_mode(int mode) noexcept nogil:
    """Set the whole word of this thread and return the one it had; 0 records."""
    global plugrad_mode
    cdef int before = plugrad_mode
    plugrad_mode = mode
    return before


cdef int _set_inference(bint on) noexcept:
    global inference_blocks
    inference_blocks += on
    return swap_mode(INFERENCE if on else 0)


cdef void _unset_inference(bint on, int before) noexcept:
    global inference_blocks
    inference_blocks -= on
    swap_mode(before)


def is_grad_enabled():
    """Whether operators called on this thread record a graph."""
    return recording()


def is_inference_mode_enabled():
    """Whether this thread is in ``inference_mode``."""
    return inferring()


class _GradMode:
    """A grad mode that holds inside a ``with`` block, or while a decorated function runs."""

    def __init__(self, mode):
        self._mode = bool(mode)
        self._before = []

    def _switch(self):
        """Set the mode and return what brings back the one before."""
        return set_recording(self._mode)

    def _restore(self, before):
        set_recording(before)

    def __enter__(self):
        self._before.append(self._switch())
        return self

    def __exit__(self, *exc_info):
        self._restore(self._before.pop())

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            before = self._switch()
            try:
                return function(*args, **kwargs)
            finally:
                self._restore(before)

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
            before = mode._switch()
            try:
                value = step(argument)
            except StopIteration as stop:
                return stop.value
            finally:
                mode._restore(before)
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


class inference_mode(_GradMode):
    """Record nothing, and mark what is computed as never to be part of a graph.

    As a context manager or a decorator of a function or generator, for the current thread. A tensor made inside is
    an *inference tensor* (``is_inference()``): its changes are not counted, so it can neither require grad nor be
    saved for backward; both are errors, inside and later. A ``clone()`` made outside is an ordinary tensor.
    ``enable_grad`` inside changes nothing.

    Parameters
    ----------
    mode : bool, default True
        False leaves inference mode for the block, and records.
    """

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if not callable(mode):
            return self
        self.__init__()
        return self(mode)

    def __init__(self, mode=True):
        super().__init__(mode)

    def _switch(self):
        return _set_inference(self._mode)

    def _restore(self, before):
        _unset_inference(self._mode, before)
