"""Tensor: an array, its place in the graph, and its gradient.

(a) The array is any backend's; the tensor adds the graph. `fn` is the node that produced it or, for a tensor
    that requires grad and was not produced by an operator, its leaf node; `grad_fn` shows only the former.
(b) The version counter is made when first needed (a value is saved, a view is taken, something is
    written in place): most tensors never have one. Views and `detach()` share it. Inference tensors never get one,
    so that asking for it, as saving a value does, is where they are refused.
(c) Python's operators and unknown methods go through roles, so that this file names protocols, not operators.
"""
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from weakref import ref as weak_reference

from plugrad.graph.backend cimport ANY_FLOATING, COMPLEX, INEXACT, OTHER, Backend, Meta, backend_of, new_meta
from plugrad.graph.grad_mode cimport inference_blocks, inferring
from plugrad.graph.node cimport drain_dying, new_leaf, push_dying
from plugrad.graph cimport roles
from plugrad.graph.inplace cimport refresh
from plugrad.graph.roles cimport binary, target_of, unary, update

from plugrad.graph.hooks import Hooks, attach


# What a tensor has before __init__, which a subclass may forget to call: its uses are errors, not crashes.
cdef Backend NOWHERE = Backend.__new__(Backend)
NOWHERE.name = "nowhere: Tensor.__init__ was not called"
NOWHERE.index = 1 << 20
cdef Meta NO_META = new_meta((), None, NOWHERE, OTHER)


@cython.freelist(512)
cdef class Tensor:
    """An array that knows how it was computed.

    Parameters
    ----------
    array : array of a known backend
        Kept, not copied.
    requires_grad : bool, default False
        Whether ``backward`` leaves a gradient in ``grad``; only for floating and complex dtypes.

    Attributes
    ----------
    array : numpy.ndarray (on the CPU)
        The buffer itself.
    grad : Tensor or None
        The gradient accumulated by ``backward``; same shape and dtype as the tensor.
    grad_fn : Node or None
        The recorded call that produced this tensor.
    requires_grad, is_leaf : bool
    shape : tuple of int
    dtype : numpy.dtype
    device : str

    Raises
    ------
    TypeError
        The type of `array` belongs to no backend.
    RuntimeError
        `requires_grad` for an integer or bool array.
    """

    __array_priority__ = 1000

    def __init__(self, array, bint requires_grad=False):
        cdef Backend backend = backend_of(array)
        if backend is None:
            raise TypeError(
                f"Tensor() wraps an array of a known backend, got {type(array).__name__}; "
                "plugrad.tensor() builds one from numbers and lists"
            )
        array = backend.adopt(array)  # a NumPy scalar becomes a 0-d array
        self._array = array
        self.meta = backend.meta(array)
        if inference_blocks:
            self.inference = inferring()
        if requires_grad:
            require(self)

    def __cinit__(self):
        self.meta = NO_META

    # ---- what it is ----

    @property
    def array(self):
        return self._array

    @property
    def shape(self):
        return self.meta.shape

    @property
    def ndim(self):
        return len(self.meta.shape)

    @property
    def dtype(self):
        return self.meta.dtype

    @property
    def device(self):
        return self.meta.backend.name

    @property
    def is_cuda(self):
        return self.meta.backend.name == "cuda"

    @property
    def is_leaf(self):
        fresh(self)
        return self.fn is None or self.fn.is_leaf

    @property
    def grad_fn(self):
        fresh(self)
        return None if self.fn is None or self.fn.is_leaf else self.fn

    @property
    def output_nr(self):
        return self.output_nr

    @property
    def _version(self):
        if self.counter is None and produced_alone(self):
            self.counter = self.fn.counter
        return 0 if self.counter is None else self.counter.version

    @property
    def _tangent(self):
        fresh(self)
        return self.tangent

    @_tangent.setter
    def _tangent(self, value):
        self.tangent = value

    @property
    def _base(self):
        return self.base

    @property
    def _chain(self):
        return self.chain

    @property
    def requires_grad(self):
        fresh(self)
        return self.needs_grad

    @requires_grad.setter
    def requires_grad(self, bint value):
        fresh(self)
        if self.fn is not None and not self.fn.is_leaf:
            if value:
                return
            raise RuntimeError(
                f"requires_grad of a tensor that {self.fn.name()} produced cannot be switched off; "
                "detach() gives a tensor without the graph"
            )
        if value:
            require(self)
        else:
            self.needs_grad = False
            self.fn = None

    def requires_grad_(self, bint requires_grad=True):
        """Set ``requires_grad`` in place and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self):
        return self._grad

    @grad.setter
    def grad(self, value):
        cdef Tensor given
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
            given = <Tensor>value
            if given.meta.shape != self.meta.shape or given.meta.dtype != self.meta.dtype:
                raise RuntimeError(
                    f"grad must have the tensor's shape {self.meta.shape} and dtype {self.meta.dtype}, "
                    f"got {given.meta.shape} and {given.meta.dtype}"
                )
            if given.meta.backend is not self.meta.backend:
                raise RuntimeError(
                    f"grad must be on the tensor's device {self.device!r}, got {given.device!r}"
                )
            if given is self:
                raise RuntimeError("a tensor cannot be its own gradient")
        self._grad = value

    @property
    def data(self):
        """A tensor on the same memory, outside the graph, with a version counter of its own."""
        cdef Tensor out = make(self._array, self.meta)
        out.inference = self.inference
        return out

    def detach(self):
        """A tensor on the same memory, outside the graph; in-place changes to either are noticed."""
        cdef Tensor out = make(self._array, self.meta)
        out.inference = self.inference
        if not self.inference:
            out.counter = counter_of(self)
        return out

    def is_inference(self):
        """Whether the tensor was made in ``inference_mode``, so that it can never be part of a graph."""
        return self.inference

    def dim(self):
        """Number of dimensions."""
        return len(self.meta.shape)

    def size(self, dim=None):
        """The shape, or the length of dimension `dim`."""
        return self.meta.shape if dim is None else self.meta.shape[dim]

    def numel(self):
        """Number of elements."""
        return self.meta.numel()

    def is_floating_point(self):
        """Whether the dtype is a floating one."""
        return self.meta.kind & ANY_FLOATING != 0

    def element_size(self):
        """Bytes per element."""
        return self.meta.dtype.itemsize

    # ---- values ----

    def numpy(self):
        """The values as a NumPy array that shares memory with the tensor (on the CPU).

        Raises
        ------
        RuntimeError
            The tensor requires grad: changes and uses of the array would escape the graph.
        TypeError
            The tensor is not in host memory; ``cpu()`` copies it there.
        """
        fresh(self)
        if self.needs_grad:
            raise RuntimeError(
                "numpy() on a tensor that requires grad would leave the graph; use detach().numpy()"
            )
        return self.meta.backend.as_numpy(self._array)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a {self.meta.dtype} tensor as {dtype} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return roles.array_ufunc(ufunc, method, inputs, kwargs)

    @property
    def __cuda_array_interface__(self):
        found = self.meta.backend.cuda_array_interface(self._array)
        outside(self, "__cuda_array_interface__")
        return found

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        outside(self, "__dlpack__()")
        wishes = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.meta.backend.to_dlpack(
            self._array, {name: wish for name, wish in wishes.items() if wish is not None}
        )

    def __dlpack_device__(self):
        return self.meta.backend.dlpack_device()

    def item(self):
        """The value of a tensor with one element as a Python number.

        Raises
        ------
        RuntimeError
            The tensor has another number of elements.
        """
        if self.meta.numel() != 1:
            raise RuntimeError(
                f"item() needs a tensor with one element, got shape {self.meta.shape}"
            )
        return self.meta.backend.to_numpy(self._array).item()

    def tolist(self):
        """The values as nested lists (a number for a 0-d tensor)."""
        return self.meta.backend.to_numpy(self._array).tolist()

    def __bool__(self):
        if self.meta.numel() != 1:
            raise RuntimeError(
                f"a tensor of shape {self.meta.shape} is neither true nor false; use any() or all()"
            )
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __complex__(self):
        return complex(self.item())

    def __index__(self):
        if self.meta.kind & INEXACT or self.meta.shape != ():
            raise TypeError(
                "only a 0-d integer tensor can be used as an index, got "
                f"{self.meta.dtype} of shape {self.meta.shape}"
            )
        return int(self.item())

    def __len__(self):
        if not self.meta.shape:
            raise TypeError("a 0-d tensor has no length")
        return self.meta.shape[0]

    def __iter__(self):
        if not self.meta.shape:
            raise TypeError("a 0-d tensor cannot be iterated over")
        return (together(self[i]) for i in range(self.meta.shape[0]))

    def __contains__(self, item):
        return bool((self == item).any())

    def __hash__(self):
        return id(self) >> 4

    def __copy__(self):
        from plugrad.graph.copying import shallow

        return shallow(self)

    def __deepcopy__(self, memo):
        from plugrad.graph.copying import deep

        return deep(self, memo)

    def __reduce_ex__(self, protocol):
        from plugrad.graph.copying import reduced

        return reduced(self)

    def __repr__(self):
        from plugrad.graph.printing import describe

        return describe(self)

    def __format__(self, str spec):
        return format(self.item(), spec) if spec and self.meta.numel() == 1 else repr(self)

    # ---- conversion ----

    def to(self, *args, **kwargs):
        """The tensor with another dtype or on another device.

        Takes ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)`` and ``copy=True``. The
        tensor itself is returned when nothing changes; gradients return in the dtype they came from.

        Raises
        ------
        ValueError
            No backend of that device is loaded.
        """
        from plugrad.graph.conversion import to

        return to(self, *args, **kwargs)

    def float(self):
        """The tensor as float32."""
        return self.to("float32")

    def double(self):
        """The tensor as float64."""
        return self.to("float64")

    def half(self):
        """The tensor as float16."""
        return self.to("float16")

    def bfloat16(self):
        """The tensor as bfloat16.

        Raises
        ------
        ModuleNotFoundError
            The package ml_dtypes is not installed.
        """
        return self.to("bfloat16")

    def int(self):
        """The tensor as int32."""
        return self.to("int32")

    def long(self):
        """The tensor as int64."""
        return self.to("int64")

    def bool(self):
        """The tensor as bool; what is not zero is true."""
        return self.to("bool")

    def cpu(self):
        """The tensor in host memory; itself if it is there. Gradients return to the device they came from."""
        return self.to("cpu")

    def cuda(self, device=None, non_blocking=False):
        """The tensor in the memory of a CUDA device; itself if it is there.

        `device` is a name or a number; `non_blocking` is accepted as PyTorch has it.

        Raises
        ------
        RuntimeError
            No CUDA device can be used; the message says what is missing.
        """
        name = "cuda" if device is None else device if isinstance(device, str) else f"cuda:{device}"
        return self.to(name)

    # ---- in place ----

    def copy_(self, source):
        """Write the values of another tensor, broadcast and cast as needed; recorded."""
        from plugrad.graph.inplace import copy_

        return copy_(self, source)

    def fill_(self, value):
        """Write one number, or a 0-d tensor, into every element; recorded."""
        from plugrad.graph.inplace import fill_

        return fill_(self, value)

    def zero_(self):
        """Write zeros; recorded."""
        return self.fill_(0)

    def detach_(self):
        """Take the tensor out of its graph, in place."""
        from plugrad.graph.inplace import detach_

        return detach_(self)

    # ---- gradients ----

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Add the gradient of this tensor to the ``grad`` of every leaf it depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            The gradient of something with respect to this tensor, of its shape. A tensor with one
            element needs none: it is 1.
        retain_graph : bool, optional
            Keep the saved values for another backward; by default what `create_graph` says.
        create_graph : bool, default False
            Record the backward pass too, so that gradients can be differentiated.
        inputs : Tensor or sequence of Tensor, optional
            Accumulate only into these.

        Raises
        ------
        RuntimeError
            The tensor does not require grad, needs a gradient and got none, or the graph's values
            were freed by an earlier backward.
        """
        from plugrad.graph.engine import backward

        backward(self, gradient, retain_graph, create_graph, inputs)

    def retain_grad(self):
        """Keep the gradient of a tensor that is not a leaf in ``grad``, too."""
        fresh(self)
        if not self.needs_grad:
            raise RuntimeError("retain_grad() on a tensor that does not require grad")
        if not self.fn.is_leaf:
            attach(self.fn).retain(self.output_nr, weak_reference(self))

    @property
    def retains_grad(self):
        return (
            self.fn is not None
            and isinstance(self.fn.hooks, Hooks)
            and self.fn.hooks.retains(self.output_nr, self)
        )

    def register_hook(self, hook):
        """Call ``hook(grad)`` when the gradient of this tensor is known.

        What it returns, unless None, takes the gradient's place. Returns a handle with ``remove()``.

        Raises
        ------
        RuntimeError
            The tensor does not require grad.
        """
        fresh(self)
        if not self.needs_grad:
            raise RuntimeError("register_hook() on a tensor that does not require grad")
        if not callable(hook):
            raise TypeError(f"a hook is called with the gradient; {type(hook).__name__} is not callable")
        return attach(self.fn).add_tensor_hook(self.output_nr, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """Call ``hook(tensor)`` each time this leaf's ``grad`` has been accumulated."""
        if self.fn is None or not self.fn.is_leaf:
            raise RuntimeError("post-accumulate hooks belong to leaf tensors that require grad")
        return attach(self.fn).add_post_accumulate(hook)

    # ---- Python's operators, by role ----

    def __add__(self, other):
        return binary(roles.ADD, self, other)

    def __radd__(self, other):
        return binary(roles.ADD, other, self)

    def __sub__(self, other):
        return binary(roles.SUB, self, other)

    def __rsub__(self, other):
        return binary(roles.SUB, other, self)

    def __mul__(self, other):
        return binary(roles.MUL, self, other)

    def __rmul__(self, other):
        return binary(roles.MUL, other, self)

    def __truediv__(self, other):
        return binary(roles.DIV, self, other)

    def __rtruediv__(self, other):
        return binary(roles.DIV, other, self)

    def __floordiv__(self, other):
        return binary(roles.FLOOR_DIVIDE, self, other)

    def __rfloordiv__(self, other):
        return binary(roles.FLOOR_DIVIDE, other, self)

    def __mod__(self, other):
        return binary(roles.REMAINDER, self, other)

    def __rmod__(self, other):
        return binary(roles.REMAINDER, other, self)

    def __matmul__(self, other):
        return binary(roles.MATMUL, self, other)

    def __rmatmul__(self, other):
        return binary(roles.MATMUL, other, self)

    def __pow__(self, other, modulo):
        return NotImplemented if modulo is not None else binary(roles.POW, self, other)

    def __rpow__(self, other, modulo):
        return NotImplemented if modulo is not None else binary(roles.POW, other, self)

    def __and__(self, other):
        return binary(roles.AND, self, other)

    def __rand__(self, other):
        return binary(roles.AND, other, self)

    def __or__(self, other):
        return binary(roles.OR, self, other)

    def __ror__(self, other):
        return binary(roles.OR, other, self)

    def __xor__(self, other):
        return binary(roles.XOR, self, other)

    def __rxor__(self, other):
        return binary(roles.XOR, other, self)

    def __lshift__(self, other):
        return binary(roles.LEFT_SHIFT, self, other)

    def __rlshift__(self, other):
        return binary(roles.LEFT_SHIFT, other, self)

    def __rshift__(self, other):
        return binary(roles.RIGHT_SHIFT, self, other)

    def __rrshift__(self, other):
        return binary(roles.RIGHT_SHIFT, other, self)

    def __iadd__(self, other):
        return update(roles.ADD, self, other)

    def __isub__(self, other):
        return update(roles.SUB, self, other)

    def __imul__(self, other):
        return update(roles.MUL, self, other)

    def __itruediv__(self, other):
        return update(roles.DIV, self, other)

    def __ifloordiv__(self, other):
        return update(roles.FLOOR_DIVIDE, self, other)

    def __imod__(self, other):
        return update(roles.REMAINDER, self, other)

    def __iand__(self, other):
        return update(roles.AND, self, other)

    def __ior__(self, other):
        return update(roles.OR, self, other)

    def __ixor__(self, other):
        return update(roles.XOR, self, other)

    def __ilshift__(self, other):
        return update(roles.LEFT_SHIFT, self, other)

    def __irshift__(self, other):
        return update(roles.RIGHT_SHIFT, self, other)

    def __ipow__(self, other, modulo):
        return NotImplemented if modulo is not None else update(roles.POW, self, other)

    def __neg__(self):
        return unary(roles.NEG, self)

    def __pos__(self):
        return unary(roles.POSITIVE, self)

    def __abs__(self):
        return unary(roles.ABS, self)

    def __invert__(self):
        return unary(roles.INVERT, self)

    def __eq__(self, other):
        return binary(roles.EQ, self, other)

    def __ne__(self, other):
        return binary(roles.NE, self, other)

    def __lt__(self, other):
        return binary(roles.LT, self, other)

    def __le__(self, other):
        return binary(roles.LE, self, other)

    def __gt__(self, other):
        return binary(roles.GT, self, other)

    def __ge__(self, other):
        return binary(roles.GE, self, other)

    def __getitem__(self, index):
        return target_of(roles.GETITEM)(self, index)

    def __setitem__(self, index, value):
        target_of(roles.SETITEM)(self, index, value)

    @property
    def T(self):
        """The tensor with its dimensions in reverse order."""
        return target_of(roles.PERMUTE)(self, tuple(range(len(self.meta.shape) - 1, -1, -1)))

    @property
    def mT(self):
        """The tensor with its last two dimensions swapped."""
        return target_of(roles.TRANSPOSE)(self, -2, -1)

    # ---- complex numbers ----

    def conj(self):
        """The complex conjugate: this tensor itself where it is real."""
        return self if self.meta.kind != COMPLEX else target_of(roles.CONJ)(self)

    @property
    def real(self):
        """The real part: a view of a complex tensor, this tensor itself where it is real."""
        return self if self.meta.kind != COMPLEX else target_of(roles.REAL)(self)

    @property
    def imag(self):
        """The imaginary part, a view.

        Raises
        ------
        RuntimeError
            The dtype is not complex.
        """
        return target_of(roles.IMAG)(self)

    @property
    def H(self):
        """The conjugate transpose of a matrix."""
        if len(self.meta.shape) not in (0, 2):
            raise RuntimeError(f"H is the conjugate transpose of a matrix, got shape {self.meta.shape}; see mH")
        return self.conj() if not self.meta.shape else target_of(roles.TRANSPOSE)(self, 0, 1).conj()

    @property
    def mH(self):
        """The tensor with its last two dimensions swapped, conjugated."""
        return target_of(roles.TRANSPOSE)(self, -2, -1).conj()

    def __getattr__(self, str name):
        return roles.missing_attribute(self, name)


# ---- the end of a tensor ------------------------------------------------------------------------------------

cdef extern from "dealloc.h":
    void plugrad_before_each_dealloc(PyTypeObject *type, void (*function)(PyObject *) noexcept)


cdef void part(PyObject *self) noexcept:
    """Give back the array; let a chain of gradients or tangents go without recursion.

    The tensor's reference count is 0 and must stay so: no variable may hold it.
    """
    if (<Tensor>self)._array is not None and (<Tensor>self).meta is not None:  # both None after tp_clear
        (<Tensor>self).meta.backend.recycle(<PyObject *>(<Tensor>self)._array)
    if (<Tensor>self)._grad is not None:
        push_dying((<Tensor>self)._grad)
        (<Tensor>self)._grad = None
        drain_dying()
    if (<Tensor>self).tangent is not None:
        push_dying((<Tensor>self).tangent)
        (<Tensor>self).tangent = None
        drain_dying()


plugrad_before_each_dealloc(<PyTypeObject *>Tensor, part)


cdef object together(object item):
    """One of the views that iterating over a tensor gives."""
    from plugrad.graph.inplace import mark_together

    return mark_together((item,))[0]


cdef int outside(Tensor tensor, str what) except -1:
    """Refuse to hand the memory of a tensor that requires grad to another library."""
    fresh(tensor)
    if tensor.needs_grad:
        raise RuntimeError(
            f"{what} of a tensor that requires grad would leave the graph; use detach() first"
        )
    return 0


cdef inline int fresh(Tensor tensor) except -1:
    """A view's place in the graph may have changed with its base."""
    if tensor.base is not None:
        refresh(tensor)
    return 0


cdef Tensor make(object array, Meta meta):
    """The factory of the hot path: no argument parsing, no checks."""
    cdef Tensor tensor = Tensor.__new__(Tensor)
    tensor._array = array
    tensor.meta = meta
    if inference_blocks:
        tensor.inference = inferring()
    return tensor


cdef Tensor wrap(object array):
    """A Tensor around an array of a known backend; None when no backend claims its type."""
    cdef Backend backend = backend_of(array)
    if backend is None:
        return None
    array = backend.adopt(array)
    return make(array, backend.meta(array))


cdef bint produced_alone(Tensor tensor) noexcept:
    """Whether the tensor is the only output of the node that produced it."""
    return tensor.fn is not None and not tensor.fn.is_leaf and tensor.fn.metas is None


cdef Counter counter_of(Tensor tensor):
    """The version of the tensor's memory; its producer learns of it, since values saved before look there."""
    if tensor.counter is None:
        if tensor.inference:
            raise RuntimeError(
                f"an inference tensor (shape {tensor.meta.shape}, {tensor.meta.dtype}) cannot be saved for backward: "
                "it was made in inference_mode; use a clone() made outside"
            )
        if not produced_alone(tensor):
            tensor.counter = Counter.__new__(Counter)
        else:
            if tensor.fn.counter is None:
                tensor.fn.counter = Counter.__new__(Counter)
            tensor.counter = tensor.fn.counter
    return tensor.counter


cdef int bump(Tensor tensor) except -1:
    """The tensor's memory was written."""
    if tensor.inference:
        return 0
    cdef Counter counter = counter_of(tensor)
    counter.version += 1
    return 0


cdef int require(Tensor tensor) except -1:
    """Make the tensor a leaf that requires grad."""
    if tensor.needs_grad:
        return 0
    if not tensor.meta.kind & INEXACT:
        raise RuntimeError(
            "only tensors of a floating or complex dtype can require grad, got "
            f"{tensor.meta.dtype} of shape {tensor.meta.shape}"
        )
    if tensor.inference:
        raise RuntimeError(
            f"an inference tensor (shape {tensor.meta.shape}) cannot require grad: it was made in inference_mode; "
            "use a clone() made outside, or make the tensor there"
        )
    tensor.fn = new_leaf(weak_reference(tensor), tensor.meta)
    tensor.needs_grad = True
    return 0
