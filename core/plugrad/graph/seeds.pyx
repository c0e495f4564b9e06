"""Where a backward pass starts: the tensors and a gradient for each."""
from plugrad.graph.backend cimport COMPLEX
from plugrad.graph.inplace cimport refresh
from plugrad.graph.roles cimport CAST, target_of
from plugrad.graph.tensor cimport Tensor, make, wrap


cdef list as_tensors(object value, str what):
    cdef list items = [value] if isinstance(value, Tensor) else list(value)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"{what} must be Tensors, got {type(item).__name__}")
        if (<Tensor>item).base is not None:
            refresh(<Tensor>item)
    return items


cdef list seeds_of(list roots, object given, str where):
    """The gradient to start from, per root."""
    cdef Tensor root
    cdef list seeds = []
    if given is None or isinstance(given, Tensor) or not isinstance(given, (list, tuple)):
        given = [given] if len(roots) == 1 or given is not None else [None] * len(roots)
    if len(given) != len(roots):
        raise RuntimeError(f"{where}: {len(roots)} tensors but {len(given)} gradients were given")
    for i in range(len(roots)):
        root = <Tensor>roots[i]
        if root.fn is None:
            raise RuntimeError(
                f"{where}: the tensor (shape {root.meta.shape}) does not require grad and was not "
                "computed from one that does: there is no graph to go back through"
            )
        seeds.append(one_seed(root, given[i], where))
    return seeds


cdef Tensor one_seed(Tensor root, object given, str where):
    cdef Tensor seed
    if given is None:
        if root.meta.numel() != 1:
            raise RuntimeError(
                f"{where}: a gradient is implied only for a tensor with one element; this one has "
                f"shape {root.meta.shape}: pass a gradient of that shape"
            )
        if root.meta.kind == COMPLEX:
            raise RuntimeError(
                f"{where}: a gradient is implied only for a real number; this one is {root.meta.dtype}: pass a "
                "gradient, or go back from a real function of it"
            )
        return make(root.meta.backend.full(root.meta, 1), root.meta)
    seed = <Tensor>given if isinstance(given, Tensor) else wrap(given)
    if seed is None:
        raise TypeError(f"{where}: a gradient must be a Tensor, got {type(given).__name__}")
    if seed.meta.shape != root.meta.shape:
        raise RuntimeError(
            f"{where}: the gradient has shape {seed.meta.shape}, the tensor has {root.meta.shape}"
        )
    if seed.meta.backend is not root.meta.backend:
        raise RuntimeError(f"{where}: the gradient is on {seed.device!r}, the tensor on {root.device!r}")
    if seed.meta.dtype != root.meta.dtype:
        seed = target_of(CAST)(seed, dtype=root.meta.dtype)
    seed.meta = root.meta  # equal; later comparisons are of pointers
    return seed
