"""What to write for names that PyTorch has and plugrad spells otherwise or does not have, and what a misspelt name may mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["FUNCTIONAL", "METHODS", "MODULE", "NN", "instead"]

MODULE = {
    "Size": "a shape is a tuple",
    "autocast": "not offered: cast with `x.to(dtype)`; `plugrad.amp.GradScaler` scales losses",
    "can_cast": "`numpy.can_cast`",
    "channels_last": "memory formats are not offered",
    "compile": "not offered",
    "contiguous_format": "memory formats are not offered",
    "default_generator": "`plugrad.manual_seed`, `plugrad.get_rng_state`",
    "device": "a device is a string such as 'cpu' or 'cuda'",
    "distributed": "not offered",
    "dtype": "`numpy.dtype`",
    "e": "`math.e`",
    "empty_strided": "`plugrad.empty(n).as_strided(size, stride)`",
    "fft": "not offered",
    "finfo": "`numpy.finfo`",
    "get_default_dtype": "it is float32; give `dtype=`",
    "iinfo": "`numpy.iinfo`",
    "inf": "`math.inf`",
    "jit": "not offered",
    "layout": "all tensors are strided",
    "load": "`pickle.load(file)`, or `numpy.load` and `plugrad.from_numpy`",
    "memory_format": "memory formats are not offered",
    "nan": "`math.nan`",
    "newaxis": "`None`, as in `x[:, None]`",
    "pi": "`math.pi`",
    "preserve_format": "memory formats are not offered",
    "promote_types": "`numpy.promote_types`; see Numbers in docs/pytorch.md",
    "result_type": "`numpy.result_type`; see Numbers in docs/pytorch.md",
    "save": "`pickle.dump(x, file)`, or `numpy.save(file, x.detach().numpy())`",
    "set_default_device": "give `device=`",
    "set_default_dtype": "it is float32; give `dtype=`",
    "set_float32_matmul_precision": "`plugrad.cuda.matmul_allow_tf32 = True`",
    "sparse": "sparse tensors are not offered",
    "strided": "all tensors are strided",
    "svd": "`plugrad.linalg.svd`",
    "qr": "`plugrad.linalg.qr`",
    "use_deterministic_algorithms": "results are always the same bits",
    "version": "`plugrad.__version__`",
    "vmap": "not offered; most operators take leading dimensions",
}

METHODS = {
    "apply_": "not offered; write an operator",
    "byte": "`x.to(plugrad.uint8)`",
    "char": "`x.to(plugrad.int8)`",
    "fill_diagonal_": "`x.diagonal().fill_(value)`",
    "get_device": "`x.device`",
    "is_cpu": "`x.device == 'cpu'`",
    "is_sparse": "sparse tensors are not offered",
    "itemsize": "`x.dtype.itemsize`",
    "lstsq": "`plugrad.linalg.lstsq`",
    "map_": "not offered; write an operator",
    "nbytes": "`x.numel() * x.dtype.itemsize`",
    "new": "`x.new_empty(...)`",
    "pin_memory": "not offered",
    "qr": "`plugrad.linalg.qr`",
    "resize_": "not offered: make a new tensor",
    "set_": "not offered: make a new tensor",
    "short": "`x.to(plugrad.int16)`",
    "storage": "not offered; views share the memory of `x.numpy()`",
    "svd": "`plugrad.linalg.svd`",
    "to_dense": "sparse tensors are not offered",
    "to_sparse": "sparse tensors are not offered",
    "type": "`x.dtype`, `x.to(dtype)`",
    "untyped_storage": "not offered; views share the memory of `x.numpy()`",
}

NN = {
    "Module": "a model is tensors and functions of `plugrad.nn.functional`",
    "Parameter": "`plugrad.tensor(values, requires_grad=True)`",
    "init": "`plugrad.randn(...) * scale`, `plugrad.rand(...)`",
}

FUNCTIONAL = {
    "upsample_bilinear": "`interpolate(input, mode='bilinear', align_corners=True)`",
    "upsample_nearest": "`interpolate(input, mode='nearest')`",
}


def instead(
    name: str, table: dict[str, str], known: Iterable[str] = (), prefix: str = "plugrad."
) -> str:
    """The end of a message about a name that is not there: what to write, or which of the names `known` is like it."""
    if name in table:
        return f": {table[name].replace('`', '')}"
    close = difflib.get_close_matches(name, list(known), 1, 0.7)
    return f". Did you mean {prefix}{close[0]}?" if close else ""
