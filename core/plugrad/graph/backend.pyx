"""Backends: what the graph needs from an array library, as roles.

(a) The core names what it needs done to raw arrays (`add`, `sum_to`, `cast`, …); a backend does it. Nothing
    here or in the engine imports an array library.
(b) A backend is chosen by the type of the array, once, when a tensor is built; later calls go through
    the tensor's own reference.
(c) `Meta` is shape, dtype and device of a tensor. It is immutable and shared: an elementwise operator on
    operands of one shape gives its result the operand's Meta, so that a comparison is mostly one of pointers.
(d) A dtype may be for storage only: tensors have it, kernels do not compute in it (see `storage.pyx`).
"""

cimport cython
from cpython.object cimport PyObject

cdef dict array_types = {}
storage_in_use = False
cdef list _backends = []
cdef object _find_named = None
cdef object _find_of_type = None


@cython.no_gc_clear  # never part of a cycle, and read while what refers to it is deallocated
cdef class Meta:
    """Shape, dtype and device of a tensor.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    device : str
    ndim : int
    """

    def __init__(self, tuple shape, object dtype, Backend backend, int kind):
        fill_meta(self, shape, dtype, backend, kind)

    @property
    def device(self):
        return self.backend.name

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def is_floating_point(self):
        return self.kind & ANY_FLOATING != 0

    def numel(self):
        """Number of elements."""
        cdef Py_ssize_t n = 1
        for length in self.shape:
            n *= length
        return n

    def __eq__(self, other):
        return isinstance(other, Meta) and same_meta(self, <Meta>other)

    def __hash__(self):
        return hash((self.shape, self.dtype, self.backend.name))

    def __repr__(self):
        return f"Meta(shape={self.shape}, dtype={self.dtype}, device={self.backend.name!r})"


cdef Meta new_meta(tuple shape, object dtype, Backend backend, int kind):
    """The factory; `dims` repeats the first eight lengths as C integers, for fast comparison."""
    cdef Meta meta = Meta.__new__(Meta)
    fill_meta(meta, shape, dtype, backend, kind)
    return meta


cdef void fill_meta(Meta meta, tuple shape, object dtype, Backend backend, int kind):
    cdef int i
    meta.shape = shape
    meta.dtype = dtype
    meta.backend = backend
    meta.kind = kind
    meta.nd = <int>len(shape)
    for i in range(min(meta.nd, 8)):
        meta.dims[i] = shape[i]


cdef bint same_meta(Meta a, Meta b) except -1:
    cdef int i
    if a is b:
        return True
    if a.backend is not b.backend or a.nd != b.nd:
        return False
    for i in range(min(a.nd, 8)):
        if a.dims[i] != b.dims[i]:
            return False
    return (a.dtype is b.dtype or a.dtype == b.dtype) and (a.nd <= 8 or a.shape == b.shape)


cdef class Backend:
    """What the graph asks of an array library. A backend overrides every method.

    Attributes
    ----------
    name : str
        The device, for example ``"cpu"``.
    index : int
        The position in every operator's table of kernels.
    """

    def __init__(self, str name):
        self.name = name
        self.index = len(_backends)
        _backends.append(self)

    def __repr__(self):
        return f"<backend {self.name!r}>"

    cdef Meta meta(self, object array):
        raise NotImplementedError(f"backend {self.name!r} does not say an array's shape and dtype")

    cdef Meta describe(self, tuple shape, object dtype):
        """The Meta of an array that is not there yet."""
        raise NotImplementedError(f"backend {self.name!r} does not describe arrays")

    cdef bint fits(self, object array, Meta meta) except -1:
        """Whether `array` is an array of this backend with that shape and dtype."""
        return same_meta(self.meta(array), meta)

    cdef object adopt(self, object result):
        """A kernel's result as an array of this backend (a scalar becomes a 0-d array)."""
        return result

    cdef bint sole(self, object array) except -1:
        """Whether `array` may be written and nobody else's view can see its memory."""
        return False

    cdef bint recycle(self, PyObject *array) noexcept:
        """Keep an array that is about to be freed for a later result, unless someone else holds it."""
        return False

    cdef object add(self, object a, object b):
        raise NotImplementedError(f"backend {self.name!r} has no add")

    cdef int add_into(self, object a, object b) except -1:
        raise NotImplementedError(f"backend {self.name!r} has no add_into")

    cdef object sum_to(self, object array, tuple shape):
        raise NotImplementedError(f"backend {self.name!r} has no sum_to")

    cdef object cast(self, object array, object dtype):
        raise NotImplementedError(f"backend {self.name!r} has no cast")

    cdef object full(self, Meta meta, object value):
        raise NotImplementedError(f"backend {self.name!r} has no full")

    cdef object copy(self, object array):
        raise NotImplementedError(f"backend {self.name!r} has no copy")

    cdef object copy_like(self, object array, object like):
        """A copy of `array` laid out like `like` when that is dense, else in C order."""
        return self.copy(array)

    cdef object view(self, object array):
        """Another array object on the same memory."""
        raise NotImplementedError(f"backend {self.name!r} has no view")

    cdef bint shares(self, object a, object b) except -1:
        """Whether two arrays may see the same memory."""
        return True

    cdef object layout(self, object array):
        """What `in_layout` needs to know of an array's order in memory; hashable."""
        return None

    cdef object in_layout(self, object array, object like_layout):
        """`array` itself if its memory has that layout, else a copy that has."""
        return array

    cdef bint overlaps(self, object array) except -1:
        """Whether two elements of the array share memory."""
        return False

    cdef int copy_into(self, object target, object values) except -1:
        raise NotImplementedError(f"backend {self.name!r} has no copy_into")

    cdef object cleared(self, object array, list steps):
        """A copy of `array`, zero wherever a chain of view kernels looks.

        Each step is (kernel, constants, names of the constants).
        """
        raise NotImplementedError(f"backend {self.name!r} has no cleared")

    cdef bint same_layout(self, object a, object b) except -1:
        """Whether `copy_like(a, b)` would have the layout that `a` has already."""
        return True

    # What dispatch asks when operands differ; Python methods, because that path is not hot.

    def result_dtype(self, list dtypes, list numbers, bint floating):
        """The dtype that operands of `dtypes` and the Python `numbers` promote to."""
        raise NotImplementedError(f"backend {self.name!r} has no promotion rules")

    def kernel(self, function):
        """A callable on arrays as a Kernel of this backend."""
        raise NotImplementedError(f"backend {self.name!r} takes no kernels")

    def dtype_named(self, value):
        """A dtype from its name, a type or a dtype; None when `value` names none."""
        raise NotImplementedError(f"backend {self.name!r} names no dtypes")

    def render(self, array, str prefix):
        """The values as text, later lines indented by the length of `prefix`; and whether the dtype
        is what a literal of these values would get, so that it need not be shown."""
        raise NotImplementedError(f"backend {self.name!r} does not print arrays")

    # Dtypes for storage only, if the backend has any.

    def widened_dtype(self, dtype):
        """What kernels get and give in place of such a dtype."""
        return dtype

    def widened(self, array):
        """An array of such a dtype as one that kernels take; anything else as it is."""
        return array

    def rounded(self, array, dtype, bint limits=False):
        """What a kernel gave for widened arrays, in `dtype`; as it is where `dtype` is not for storage only.

        With `limits` the greatest and the least number of the wider dtype become those of `dtype`, not infinite.
        """
        raise NotImplementedError(f"backend {self.name!r} has no dtypes for storage only")

    # What crosses to other libraries and devices; Python methods, too.

    def is_scalar(self, value):
        """Whether a value is a number with a dtype and no place of its own, which goes with tensors of any device."""
        return False

    def check_number(self, str name, value, dtype):
        """Raise where tensors of `dtype` cannot hold a number that `name` is about to write."""

    def to_numpy(self, array):
        """The values as a NumPy array; a copy unless the array is in host memory already."""
        raise NotImplementedError(f"backend {self.name!r} cannot bring an array to NumPy")

    def from_numpy(self, array):
        """An array of this backend with the values of a NumPy array, which may be kept."""
        raise NotImplementedError(f"backend {self.name!r} takes no NumPy arrays")

    def as_numpy(self, array):
        """A NumPy array on the same memory."""
        raise TypeError(
            f"a tensor on device {self.name!r} has no memory that NumPy can see; tensor.cpu() copies it to the host"
        )

    def filled(self, tuple shape, dtype, value):
        """A new array with one value everywhere."""
        return self.full(self.describe(shape, dtype), value)

    def uninitialised(self, tuple shape, dtype):
        """A new array with any values."""
        return self.filled(shape, dtype, 0)

    def cuda_array_interface(self, array):
        """What the array is to libraries that work on CUDA memory."""
        raise AttributeError(f"a tensor on device {self.name!r} has no __cuda_array_interface__")

    def to_dlpack(self, array, dict wishes):
        """A DLPack capsule on the array; `wishes` are the arguments of ``__dlpack__``."""
        raise BufferError(f"backend {self.name!r} exports no arrays")

    def from_dlpack(self, source):
        """An array on the memory of something with ``__dlpack__``."""
        raise BufferError(f"backend {self.name!r} imports no arrays")

    def dlpack_device(self):
        """(device type, device number), as DLPack counts them."""
        raise BufferError(f"backend {self.name!r} exports no arrays")


cdef int note_storage() noexcept:
    """Say that there are arrays of a dtype for storage only: until then nobody looks for them."""
    global storage_in_use
    storage_in_use = True
    return 0


cdef Backend backend_of(object array):
    """The backend of an array; None when no backend claims its type."""
    cdef object found = array_types.get(type(array))
    if found is None:
        for base in type(array).__mro__:
            found = array_types.get(base)
            if found is not None:
                break
        if found is None and _find_of_type is not None:
            found = _find_of_type(type(array))
    return <Backend>found


def register_array_type(type array_type, Backend backend):
    """Say that arrays of this type (and of its subclasses) live on `backend`."""
    array_types[array_type] = backend


def set_finder(named, of_type):
    """Install what is asked for backends that are made when they are first used.

    Parameters
    ----------
    named : callable
        ``named(device)`` gives the backend of a device that no backend is named for, or None.
    of_type : callable
        ``of_type(array_type)`` gives that of a type of arrays that none claims, or None.
    """
    global _find_named, _find_of_type
    _find_named, _find_of_type = named, of_type


def backend_named(str name):
    """The backend of a device name; it is made if this is its first use.

    Raises
    ------
    ValueError
        No backend has that name; the message lists those that exist.
    """
    for backend in _backends:
        if backend.name == name:
            return backend
    found = None if _find_named is None else _find_named(name)
    if found is not None:
        return found
    known = ", ".join(repr(backend.name) for backend in _backends) or "none"
    raise ValueError(f"no backend is named {name!r}; known: {known}")


def backends():
    """All backends, in the order in which they were made."""
    return tuple(_backends)
