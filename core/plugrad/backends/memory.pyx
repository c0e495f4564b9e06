# cython: boundscheck=False, wraparound=False
"""New arrays for results: made with few instructions when they are small, out of kept memory when they are large.

(a) NumPy spends some thousand instructions on a new array, of which a tenth is needed where type, shape and order are
    known. A small array is put together here, field by field, and is then like any other: its memory is its own, and
    NumPy frees it. This needs NumPy's arrays to have the fields that we were built with; otherwise NumPy makes them.
(b) The data of large arrays comes from blocks that are kept (blocks.h). The array owns it and carries the handler that
    gives it back, so that NumPy's functions, and accumulation in place, see an array as any other.
(c) Only results of compiled kernels, copies and gradients are counted and kept; arrays that NumPy's functions made are
    NumPy's. Without the GIL nothing is kept.
"""
import os

cimport numpy as cnp

cnp.import_array()

cdef extern from "blocks.h":
    """
    #ifdef Py_GIL_DISABLED
    #define PG_KEEPS 0
    #else
    #define PG_KEEPS 1
    #endif

    static PyDataMem_Handler pg_kept = {"plugrad_blocks", 1, {NULL, pg_malloc, pg_calloc, pg_realloc, pg_free}};

    /* Python's own allocator: it packs small blocks and, with the GIL held, is twice as fast as malloc(). */
    static void *pg_small_malloc(void *context, size_t size) { (void)context; return PyObject_Malloc(size); }
    static void *pg_small_calloc(void *context, size_t n, size_t size)
    {
        (void)context;
        return PyObject_Calloc(n, size);
    }
    static void *pg_small_realloc(void *context, void *p, size_t size)
    {
        (void)context;
        return PyObject_Realloc(p, size);
    }
    static void pg_small_free(void *context, void *p, size_t size) { (void)context; (void)size; PyObject_Free(p); }
    static PyDataMem_Handler pg_packed = {
        "plugrad_small", 1, {NULL, pg_small_malloc, pg_small_calloc, pg_small_realloc, pg_small_free}};

    static PyObject *pg_capsule(PyDataMem_Handler *handler) { return PyCapsule_New(handler, "mem_handler", NULL); }

    static int pg_known_layout(void) { return PyArray_Type.tp_basicsize == (Py_ssize_t)sizeof(PyArrayObject_fields); }

    /* Makes `data` the array's own, to be freed by `handler`. */
    static void pg_own(PyArrayObject *array, PyObject *handler)
    {
        PyArrayObject_fields *a = (PyArrayObject_fields *)array;
        a->flags |= NPY_ARRAY_OWNDATA;
        Py_INCREF(handler);
        a->mem_handler = handler;
    }

    static PyObject *pg_around(int nd, const npy_intp *dims, const npy_intp *strides, int type_num, void *data)
    {
        return PyArray_New(&PyArray_Type, nd, dims, type_num, strides, data, 0, NPY_ARRAY_CARRAY, NULL);
    }

    static PyObject *pg_like(PyArrayObject *array, int type_num)
    {
        return PyArray_NewLikeArray(array, NPY_KEEPORDER, PyArray_DescrFromType(type_num), 0);
    }

    /* A small array of at least one dimension in C order, without a look at anything that is known here. */
    static PyArrayObject *pg_small(int nd, const npy_intp *dims, PyObject *descr, PyObject *handler)
    {
        npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)descr);
        int i;
        npy_intp *shape = (npy_intp *)PyArray_malloc(2 * nd * sizeof(npy_intp));
        PyArrayObject_fields *a = (PyArrayObject_fields *)PyObject_Malloc(sizeof(PyArrayObject_fields));
        char *data;
        for (i = nd - 1; i >= 0; i--) {
            if (shape) {
                shape[i] = dims[i];
                shape[nd + i] = size;
            }
            size *= dims[i];
        }
        data = (char *)PyObject_Malloc(size);
        if (!shape || !a || !data) {
            PyArray_free(shape);
            PyObject_Free(a);
            PyObject_Free(data);
            PyErr_NoMemory();
            return NULL;
        }
        a->data = data;
        a->nd = nd;
        a->dimensions = shape;
        a->strides = shape + nd;
        a->base = NULL;
        Py_INCREF(descr);
        a->descr = (PyArray_Descr *)descr;
        a->flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA
            | (nd == 1 ? NPY_ARRAY_F_CONTIGUOUS : 0);
        a->weakreflist = NULL;
        a->_buffer_info = NULL;
        Py_INCREF(handler);
        a->mem_handler = handler;
        PyObject_Init((PyObject *)a, &PyArray_Type);
        PyTraceMalloc_Track(PG_TRACE_DOMAIN, (uintptr_t)data, size);
        if (nd > 1)
            PyArray_UpdateFlags((PyArrayObject *)a, NPY_ARRAY_F_CONTIGUOUS);
        return (PyArrayObject *)a;
    }
    """
    bint PG_KEEPS
    ctypedef struct PyDataMem_Handler:
        pass
    PyDataMem_Handler pg_kept
    PyDataMem_Handler pg_packed
    object pg_capsule(PyDataMem_Handler *handler)
    bint pg_known_layout()
    object pg_around(int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides, int type_num, void *data)
    object pg_like(cnp.ndarray array, int type_num)
    void pg_own(cnp.ndarray array, object handler)
    cnp.ndarray pg_small(int nd, const cnp.npy_intp *dims, object descr, object handler)
    void *pg_take(size_t size)
    void pg_give(void *data)
    void pg_trim(size_t limit)
    ctypedef struct Store "pg_store_type":
        size_t limit, held, held_blocks, used, most, used_blocks, obtained
    Store pg_store
    const unsigned int PG_TRACE_DOMAIN

cdef extern from "Python.h":
    int PyTraceMalloc_Track(unsigned int domain, size_t place, size_t size)

cdef enum:
    SMALL = 512       # bytes; up to here an array is put together by hand
    KEPT_FROM = 8192  # bytes; from here on its memory is kept

cdef size_t TOO_LARGE = <size_t>1 << 62

cdef object _kept = pg_capsule(&pg_kept)
cdef object _packed = pg_capsule(&pg_packed)
cdef bint _known = pg_known_layout() and PG_KEEPS
cdef object _float32 = cnp.PyArray_DescrFromType(cnp.NPY_FLOAT32)
cdef object _float64 = cnp.PyArray_DescrFromType(cnp.NPY_FLOAT64)


cdef cnp.ndarray new_array(int nd, cnp.npy_intp *dims, int type_num):
    """An array in C order with arbitrary values."""
    cdef object descr
    cdef size_t size
    if type_num == cnp.NPY_FLOAT32:
        descr = _float32
    elif type_num == cnp.NPY_FLOAT64:
        descr = _float64
    else:
        descr = cnp.PyArray_DescrFromType(type_num)
    size = bytes_of(nd, dims, <size_t>(<cnp.dtype>descr).itemsize)
    if _known and 0 < size <= SMALL and nd:
        return pg_small(nd, dims, descr, _packed)
    if not _known or not KEPT_FROM <= size < TOO_LARGE:
        return <cnp.ndarray>cnp.PyArray_EMPTY(nd, dims, type_num, 0)
    return kept(nd, dims, NULL, type_num, size)


cdef cnp.ndarray new_like(cnp.ndarray array, int type_num):
    """An array of the same shape and order of dimensions in memory, with arbitrary values."""
    cdef int nd = cnp.PyArray_NDIM(array), i
    cdef cnp.npy_intp *dims = cnp.PyArray_DIMS(array)
    cdef cnp.npy_intp[64] strides
    cdef cnp.npy_intp before = cnp.PyArray_ITEMSIZE(array), after
    cdef cnp.dtype descr
    cdef size_t size
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return new_array(nd, dims, type_num)
    descr = cnp.PyArray_DescrFromType(type_num)
    after = descr.itemsize
    size = bytes_of(nd, dims, <size_t>after)
    if not _known or not KEPT_FROM <= size < TOO_LARGE or not is_dense(array):
        return <cnp.ndarray>pg_like(array, type_num)
    for i in range(nd):
        strides[i] = cnp.PyArray_STRIDE(array, i) // before * after
    return kept(nd, dims, strides, type_num, size)


cdef cnp.ndarray kept(int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, int type_num, size_t size):
    cdef cnp.ndarray array
    cdef void *data = pg_take(size)
    if data == NULL:
        raise MemoryError(f"no memory for an array of {size} bytes")
    try:
        array = <cnp.ndarray>pg_around(nd, dims, strides, type_num, data)
    except BaseException:
        pg_give(data)
        raise
    pg_own(array, _kept)
    PyTraceMalloc_Track(PG_TRACE_DOMAIN, <size_t>data, size)
    return array


cdef inline size_t bytes_of(int nd, const cnp.npy_intp *dims, size_t size) noexcept:
    """TOO_LARGE if that many bytes cannot be."""
    cdef int i
    for i in range(nd):
        if dims[i] and size >= TOO_LARGE // <size_t>dims[i]:
            return TOO_LARGE
        size *= <size_t>dims[i]
    return size


cdef bint is_dense(cnp.ndarray array) noexcept:
    """Whether the elements fill their memory without gaps or overlap, in some order of dimensions."""
    cdef int nd = cnp.PyArray_NDIM(array), found = 0, i
    cdef cnp.npy_intp expected = cnp.PyArray_ITEMSIZE(array)
    cdef bint more = True
    cdef bint[64] seen
    for i in range(nd):
        seen[i] = cnp.PyArray_DIM(array, i) == 1
        found += seen[i]
    while found < nd and more:
        more = False
        for i in range(nd):
            if not seen[i] and cnp.PyArray_STRIDE(array, i) == expected:
                seen[i] = more = True
                found += 1
                expected *= cnp.PyArray_DIM(array, i)
                break
    return found == nd


# ---- what users see -----------------------------------------------------------------------------------------

def empty_cache():
    """Give the memory that is kept for the next arrays back to the system."""
    pg_trim(0)


def memory_stats():
    """Numbers on the host memory of large arrays, under PyTorch's names for a device's.

    Counted are arrays of 8 KiB and more that compiled kernels, copies and gradients made. What NumPy's functions
    allocate is not among them.

    Returns
    -------
    dict
        ``allocated_bytes.all.current`` and ``.peak`` (held by arrays), ``reserved_bytes.all.current`` (those, and what
        is kept for the next ones), ``active.all.current`` (blocks that arrays hold), ``inactive.all.current`` (blocks
        that are kept) and ``segment.all.allocated`` (how many blocks the system was asked for so far: what is repeated
        should add none).
    """
    return {
        "allocated_bytes.all.current": pg_store.used,
        "allocated_bytes.all.peak": pg_store.most,
        "reserved_bytes.all.current": pg_store.used + pg_store.held,
        "active.all.current": pg_store.used_blocks,
        "inactive.all.current": pg_store.held_blocks,
        "segment.all.allocated": pg_store.obtained,
    }


def reset_peak_memory_stats():
    """Let ``allocated_bytes.all.peak`` start again from what is held now."""
    pg_store.most = pg_store.used


def set_memory_limit(nbytes):
    """Keep at most `nbytes` for the next arrays; 0 keeps nothing.

    At the start that is an eighth of the machine's memory and at most 1 GiB, or what ``PLUGRAD_MEMORY_LIMIT`` says.

    Raises
    ------
    TypeError
        `nbytes` is not an integer.
    ValueError
        `nbytes` is negative.
    """
    if isinstance(nbytes, bool) or not hasattr(type(nbytes), "__index__"):
        raise TypeError(f"set_memory_limit: nbytes is an integer, got {nbytes!r}")
    nbytes = nbytes.__index__()
    if nbytes < 0:
        raise ValueError(f"set_memory_limit: nbytes is at least 0, got {nbytes}")
    pg_store.limit = min(nbytes, TOO_LARGE)
    pg_trim(pg_store.limit)


def _limit_at_start():
    text = os.environ.get("PLUGRAD_MEMORY_LIMIT", "").strip()
    if text.isdecimal():
        return int(text)
    if text:
        raise ValueError(f"PLUGRAD_MEMORY_LIMIT is a number of bytes, got {text!r}")
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        memory = 1 << 31
    return min(memory // 8, 1 << 30)


set_memory_limit(_limit_at_start())
