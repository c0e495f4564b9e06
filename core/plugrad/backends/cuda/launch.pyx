"""Launching a kernel: its arguments packed into one buffer, as the driver takes them.

(a) An argument is aligned to its own size, as C lays parameters out. Where the image tells where each
    parameter lies (see `cubin`), number and sizes are compared before the launch: the driver would read what is not
    there. The emulated device compares by itself.
(b) A launch is asynchronous. What the driver refuses at once is reported with the kernel, the grid and the arguments;
    what fails later is reported where the device is next waited for, with the kernel that was launched last.
"""
from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLong, PyLong_Check
from libc.string cimport memcpy

import numpy as np

cimport numpy as cnp

from plugrad.backends.cuda.context cimport current, ensure
from plugrad.backends.cuda.storage cimport pointer_of

from plugrad.backends.cuda import device
from plugrad.backends.cuda.errors import CudaError, LaunchError, describe_argument, translated

cnp.import_array()

cdef enum:
    MOST = 64         # parameters of a kernel
    ROOM = 4096       # bytes of arguments, the limit before CUDA 12.1

cdef object _last = None


def last_launched():
    """The name of the kernel that was launched last, by any thread; empty before the first."""
    return _last.full_name if _last is not None else ""


cdef class Function:
    """A kernel of a module.

    Call it with the grid and the block (ints or tuples of up to three), then the kernel's arguments: a GPUArray
    passes its address, an int becomes ``long long``, a float ``double``, a bool ``bool``, a NumPy scalar its own
    type, and `bytes` is a structure as it is (aligned to 8, or to the largest power of two in its length).

    Parameters
    ----------
    module : Module
    name : str
    """

    def __init__(self, module, str name):
        self.module = module
        self.name = name
        self.known = -1

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
        if self.known >= 0 and self.known != len(args):
            raise self.mismatch(f"it has {self.known} parameters and got {len(args)} arguments", args)
        for arg in args:
            data = scratch
            if PyFloat_CheckExact(arg):
                real = PyFloat_AS_DOUBLE(arg)
                memcpy(scratch, &real, 8)
                size = align = 8
            elif PyBool_Check(arg):
                scratch[0] = 1 if arg is True else 0
                size = align = 1
            elif PyLong_Check(arg):
                whole = PyLong_AsLongLong(arg)
                memcpy(scratch, &whole, 8)
                size = align = 8
            elif PyBytes_Check(arg):
                data = PyBytes_AS_STRING(arg)
                size = PyBytes_GET_SIZE(arg)
                align = 8 if size % 8 == 0 else size & -size
            elif isinstance(arg, np.generic):
                size = arg.dtype.itemsize
                if size > 16:
                    raise self.mismatch(f"argument {i} is a NumPy scalar of {size} bytes ({arg.dtype})", args)
                cnp.PyArray_ScalarAsCtype(arg, scratch)
                align = size if size < 8 else 8
            else:
                try:
                    address = pointer_of(arg)
                except AttributeError:
                    raise self.mismatch(f"argument {i} is of type {type(arg).__name__}", args) from None
                memcpy(scratch, &address, 8)
                size = align = 8
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
            "passed as its address, int as long long, float as double, bool as bool, a NumPy scalar as its own type, "
            "bytes as a structure"
        )

    cdef object refused(self, error, grid, block, args, shared):
        given = ", ".join([describe_argument(arg) for arg in args])
        doing = f"kernel {self.full_name} failed, grid {grid}, block {block}, arguments ({given})"
        if shared:
            doing += f", {shared} bytes of shared memory"
        if isinstance(error, device.driver().Error):
            return translated(error, doing, LaunchError)
        return LaunchError(f"{doing}: {error}")
