from cpython.object cimport PyObject

cdef class Backend

cdef class Meta:
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly Backend backend
    cdef int kind
    cdef int nd
    cdef Py_ssize_t dims[8]

cdef Meta new_meta(tuple shape, object dtype, Backend backend, int kind)
cdef bint same_meta(Meta a, Meta b) except -1

cdef class Backend:
    cdef readonly str name
    cdef readonly int index
    cdef Meta meta(self, object array)
    cdef Meta describe(self, tuple shape, object dtype)
    cdef bint fits(self, object array, Meta meta) except -1
    cdef object adopt(self, object result)
    cdef bint sole(self, object array) except -1
    cdef bint recycle(self, PyObject *array) noexcept
    cdef object add(self, object a, object b)
    cdef int add_into(self, object a, object b) except -1
    cdef object sum_to(self, object array, tuple shape)
    cdef object cast(self, object array, object dtype)
    cdef object full(self, Meta meta, object value)
    cdef object copy(self, object array)
    cdef object copy_like(self, object array, object like)
    cdef object view(self, object array)
    cdef bint shares(self, object a, object b) except -1
    cdef object in_layout(self, object array, object like_layout)
    cdef object layout(self, object array)
    cdef bint overlaps(self, object array) except -1
    cdef int copy_into(self, object target, object values) except -1
    cdef object cleared(self, object array, list steps)
    cdef bint same_layout(self, object a, object b) except -1

cdef Backend backend_of(object array)
cdef dict array_types
cdef bint storage_in_use
cdef int note_storage() noexcept

cdef enum:
    BOOL = 1
    INTEGER = 2
    FLOATING = 4
    COMPLEX = 8
    OTHER = 16
    STORAGE = 32  # floating, of a dtype that kernels of this backend get and give as a wider one
    ANY_FLOATING = 36
    INEXACT = 44
