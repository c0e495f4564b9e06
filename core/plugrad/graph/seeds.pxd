cdef list as_tensors(object value, str what)
cdef list seeds_of(list roots, object given, str where)
