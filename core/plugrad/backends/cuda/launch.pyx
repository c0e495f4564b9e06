"""Launching a kernel: its arguments packed into one buffer, as the driver takes them.

(a) An argument is aligned to its own size, as C lays parameters out. Where the image tells where each
    parameter lies (see `cubin`), number and sizes are compared before the launch: the driver would read what is not
    there. The emulated device compares by itself. Where the text tells what a parameter is (see `signature`), the
    kinds are compared, too.
(b) A launch is asynchronous. What the driver refuses at once is reported with the kernel, the grid and the arguments;
    what fails later is reported where the device is next waited for, with the kernel that was launched last.
"""
from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_AsLongLong, PyLong_Check
from libc.string cimport memcpy

import numpy as np

cimport numpy as cnp

from plugrad.backends.cuda.context cimport current, ensure
from plugrad.backends.cuda.storage cimport note_use, pointer_of

from plugrad.backends.cuda import device, signature
from plugrad.backends.cuda.context import failed
from plugrad.backends.cuda.errors import CudaError, LaunchError, describe_argument, is_of_earlier, translated

cnp.import_array()

cdef enum:
    MOST = 64         # parameters of a kernel
    ROOM = 4096       # bytes of arguments, the limit before CUDA 12.1
    UNKNOWN = 0       # kinds of parameters, as `signature` numbers them
    POINTER = 1
    FLOATING = 2
    INTEGER = 3

cdef object _last = None


def last_launched():
    """The name of the kernel that was launched last, by any thread; empty before the first."""
    return _last.full_name if _last is not None else ""


cdef inline Py_ssize_t pack_real(double real, Py_ssize_t size, char *data) noexcept:
    """A number as a float or a double; its size."""
    cdef float single = <float>real
    if size == 4:
        memcpy(data, &single, 4)
    else:
        memcpy(data, &real, 8)
    return size


cdef inline bint narrow(long long value, int size) noexcept:
    """Whether a number fits an integer type of 2 or 4 bytes, signed or not."""
    if size == 2:
        return -32768 <= value <= 65535
    return size == 4 and -2147483648 <= value <= 4294967295


cdef class Function:
    """A kernel of a module.

    Call it with the grid and the block (ints or tuples of up to three), then the kernel's arguments: a GPUArray
    passes its address, an int becomes ``long long``, a float ``double``, a bool ``bool``, a NumPy scalar its own type,
    and `bytes` is a structure as it is (aligned to 8, or to the largest power of two in its length). Where the text of
    the kernel names the type of a parameter, a Python number becomes that type if it has the value.

    Parameters
    ----------
    module : Module
    name : str
    """

    def __init__(self, module, str name):
        self.module = module
        self.name = name
        self.known = self.n_declared = -1

    @property
    def full_name(self):
        """Module and kernel, for messages."""
        return f"{self.module.name}:{self.name}"

    def __repr__(self):
        return f"<CUDA kernel {self.full_name}>"

    def load(self):
        """Compile and load the kernel, and learn its parameters; the first call does it."""
        found, parameters = self.module.load(self.name)
        if parameters is not None:
            if len(parameters) > MOST:
                raise CudaError(f"kernel {self.full_name} has {len(parameters)} parameters, more than {MOST}")
            for i, parameter in enumerate(parameters):
                self.offsets[i] = parameter.offset
                self.sizes[i] = parameter.size
            self.known = <int>len(parameters)
        declared = signature.declared(getattr(self.module, "source", ""), self.name)
        if declared is not None and len(declared) <= MOST and self.known in (-1, len(declared)):
            for i, each in enumerate(declared):
                self.kinds[i], self.widths[i] = each.kind, each.size
            self.types = [each.type for each in declared]
            self.n_declared = <int>len(declared)
        self.handle = found
        return found

    def __call__(self, grid, block, *args, int shared=0):
        """Launch on the current stream.

        A grid without blocks launches nothing.

        Raises
        ------
        TypeError
            The arguments are not those of the kernel.
        LaunchError
            The driver refuses the launch.
        """
        global _last
        cdef char buffer[ROOM]
        cdef Py_ssize_t used
        ensure()
        if type(grid) is not tuple:
            grid = (grid,)
        if type(block) is not tuple:
            block = (block,)
        for n in <tuple>grid:
            if n == 0:
                return
        if self.handle is None:
            self.load()
        used = self.pack(<tuple>args, buffer)
        try:
            self.handle._launch_kernel(
                grid, block, PyBytes_FromStringAndSize(buffer, used), shared, current().handle
            )
        except Exception as error:
            raise self.refused(error, grid, block, args, shared) from error
        _last = self

    def get_attribute(self, name):
        """A property of the compiled kernel: ``"num_regs"``, ``"shared_size_bytes"``, ``"max_threads_per_block"``, …"""
        ensure()
        if self.handle is None:
            self.load()
        return self.handle.get_attribute(getattr(device.driver().function_attribute, name.upper()))

    cdef Py_ssize_t pack(self, tuple args, char *buffer) except -1:
        """Lay the arguments out as the kernel's parameters; the number of bytes used."""
        cdef Py_ssize_t at = 0, size, align, i = 0
        cdef char scratch[16]
        cdef char *data
        cdef unsigned long long address
        cdef long long whole
        cdef double real
        cdef int kind, given
        if self.known >= 0 and self.known != len(args):
            raise self.mismatch(f"it has {self.known} parameters and got {len(args)} arguments", args)
        for arg in args:
            data = scratch
            kind = self.kinds[i] if i < self.n_declared else UNKNOWN
            if PyFloat_CheckExact(arg):
                real = PyFloat_AS_DOUBLE(arg)
                size = pack_real(real, 4 if kind == FLOATING and self.widths[i] == 4 else 8, scratch)
                align = size
                given = FLOATING
            elif PyBool_Check(arg) and (kind == UNKNOWN or self.widths[i] == 1):
                scratch[0] = 1 if arg is True else 0
                size = align = 1
                given = INTEGER
            elif PyLong_Check(arg):
                size = 8
                if kind == FLOATING:
                    size = pack_real(PyLong_AsDouble(arg), 4 if self.widths[i] == 4 else 8, scratch)
                else:
                    whole = PyLong_AsLongLong(arg)
                    memcpy(scratch, &whole, 8)
                    if kind == INTEGER and narrow(whole, self.widths[i]):
                        size = self.widths[i]  # the low bytes come first
                align = size
                given = kind if kind != UNKNOWN else INTEGER  # an address is an integer, too
            elif PyBytes_Check(arg):
                data = PyBytes_AS_STRING(arg)
                size = PyBytes_GET_SIZE(arg)
                align = 8 if size % 8 == 0 else size & -size
                given = UNKNOWN
            elif isinstance(arg, np.generic):
                size = arg.dtype.itemsize
                if size > 16:
                    raise self.mismatch(f"argument {i} is a NumPy scalar of {size} bytes ({arg.dtype})", args)
                cnp.PyArray_ScalarAsCtype(arg, scratch)
                align = size if size < 8 else 8
                given = INTEGER if arg.dtype.kind in "iub" else FLOATING if arg.dtype.kind == "f" else UNKNOWN
                if kind == POINTER and given == INTEGER:
                    given = POINTER
            else:
                try:
                    address = pointer_of(arg)
                except AttributeError:
                    raise self.mismatch(f"argument {i} is of type {type(arg).__name__}", args) from None
                note_use(arg)
                memcpy(scratch, &address, 8)
                size = align = 8
                given = POINTER
            if kind != UNKNOWN:
                if given != kind and given != UNKNOWN:
                    what = f"argument {i} is {describe_argument(arg)} and its parameter {self.types[i]!r}"
                    raise self.mismatch(what, args)
                if size != self.widths[i]:
                    raise self.mismatch(
                        f"argument {i} has {size} bytes and its parameter {self.widths[i]} ({self.types[i]!r})", args
                    )
            if self.known >= 0:
                if self.sizes[i] != size:
                    raise self.mismatch(f"argument {i} has {size} bytes and its parameter {self.sizes[i]}", args)
                while at < self.offsets[i]:
                    buffer[at] = 0
                    at += 1
            else:
                while at % align:
                    if at < ROOM:
                        buffer[at] = 0
                    at += 1
            if at + size > ROOM:
                raise self.mismatch(f"its arguments have more than {ROOM} bytes", args)
            memcpy(buffer + at, data, size)
            at += size
            i += 1
        return at

    cdef object mismatch(self, str what, tuple args):
        given = ", ".join([describe_argument(arg) for arg in args])
        return TypeError(
            f"kernel {self.full_name} was called with the wrong arguments: {what}; given ({given}). An array is "
            "passed as its address, int as long long, float as double, bool as bool (or as what the kernel declares), "
            "a NumPy scalar as its own type, bytes as a structure"
        )

    cdef object refused(self, error, grid, block, args, shared):
        given = ", ".join([describe_argument(arg) for arg in args])
        doing = f"kernel {self.full_name} failed, grid {grid}, block {block}, arguments ({given})"
        if shared:
            doing += f", {shared} bytes of shared memory"
        if isinstance(error, device.driver().Error):
            if is_of_earlier(error):
                return failed(error)
            return translated(error, doing, LaunchError)
        return LaunchError(f"{doing}: {error}")
