"""The tables together, and which of their entries each public name is compared by."""

import importlib
from collections.abc import Callable
from typing import Any

import table_complex
import table_elementwise
import table_indexing
import table_joining
import table_linalg
import table_loss
import table_nn
import table_reduction
import table_shape
from calls import COMPLEX, Case
from table_random import RANDOM

import plugrad
from plugrad import registry

TABLES = (
    table_elementwise,
    table_complex,
    table_reduction,
    table_shape,
    table_joining,
    table_indexing,
    table_linalg,
    table_nn,
    table_loss,
)
TABLE: dict[str, Case] = {name: case for table in TABLES for name, case in table.TABLE.items()}

FUNCTIONAL = {
    *table_nn.TABLE,
    *table_loss.TABLE,
    *(p.removeprefix("nn.functional.") for p in RANDOM if p.startswith("nn.")),
}
SAME_AT_TOP = {"relu", "celu", "selu", "prelu", "threshold", "sigmoid", "softmax", "log_softmax", "layer_norm", "group_norm", "rms_norm", "pixel_shuffle", "cosine_similarity", "cdist", "pairwise_distance", "pdist"}  # fmt: skip

INNER = {
    "add_along_dim": "the adjoint of take_along_dim",
    "add_scaled": "under add with alpha",
    "as_strided_adjoint": "the adjoint of as_strided",
    "as_strided_gather": "as_strided of a tensor with other strides",
    "bessel_i": "under i0, i0e, i1 and i1e",
    "binary_entropy": "under binary_cross_entropy",
    "cast": "under Tensor.to",
    "class_margins": "under multi_margin_loss",
    "col2im": "under fold and the rule of unfold",
    "contiguous_copy": "under contiguous",
    "convolution": "under conv1d, conv2d, conv3d and the transposed ones",
    "convolution_input": "the adjoint of a convolution to its input",
    "convolution_weight": "the adjoint of a convolution to its weight",
    "copy": "under clone",
    "ctc_losses": "under ctc_loss",
    "diagonal_adjoint": "the adjoint of diagonal",
    "div_rounded": "under div with rounding_mode",
    "divergence": "under kl_div",
    "divergence_of_logs": "under kl_div",
    "edge_pad": "under pad",
    "edge_pad_adjoint": "the adjoint of edge_pad",
    "exchange_rows": "under linalg.lu and linalg.lu_solve",
    "feature_dropout": "under nn.functional.dropout1d, dropout2d and dropout3d",
    "fill_permutation": "under randperm",
    "fold_along_dim": "the adjoint of Tensor.unfold",
    "fold_images": "under fold",
    "im2col": "under nn.functional.unfold",
    "index": "under getitem",
    "index_accumulate": "the adjoint of index",
    "index_clear": "under setitem",
    "index_write": "under index_put",
    "index_write_": "under setitem",
    "is_among": "under isin",
    "last_writes": "which of several writes to one place stays",
    "gaussian_nll": "under gaussian_nll_loss",
    "lexsort_rows": "under unique of rows",
    "linalg_cofactor": "the derivative of linalg.det",
    "linalg_eigh_both": "under linalg.eigh",
    "linalg_pinv_from": "under linalg.pinv",
    "linalg_qr_both": "under linalg.qr",
    "linalg_solve_with_info": "under linalg.solve_ex",
    "linalg_svd_all": "under linalg.svd",
    "linear_scan": "the recurrence under the rule of cumprod",
    "log_softmax_in": "under log_softmax with dtype",
    "logistic_loss": "under binary_cross_entropy_with_logits",
    "lu_permutation": "under linalg.lu",
    "max_over_windows": "under max_pool1d, max_pool2d and max_pool3d",
    "median_of_all": "under median",
    "middle_rank": "under median with a dim",
    "norm_in": "under norm with dtype",
    "nonzero_positions": "under nonzero",
    "normalize_batch": "under batch_norm",
    "normalize_rows": "under layer_norm",
    "normalize_with": "under batch_norm",
    "picked_nll": "under nll_loss",
    "poisson_nll": "under poisson_nll_loss",
    "order_statistic": "under quantile and kthvalue",
    "polygamma_of_order": "under polygamma",
    "divisor_gradient": "under div",
    "glu_kernel": "under glu",
    "prelu_kernel": "under prelu",
    "put_along_dim": "under scatter",
    "resample": "under interpolate and grid_sample",
    "resample_adjoint": "the adjoint of resample",
    "roll_dims": "under roll",
    "rrelu_slopes": "under rrelu",
    "running_max": "under cummax",
    "running_min": "under cummin",
    "search_rows": "under searchsorted and bucketize",
    "sinc_derivative": "under the rule of sinc",
    "slice": "under getitem",
    "slice_adjoint": "the adjoint of slice",
    "softmax_in": "under softmax with dtype",
    "softmax_cross_entropy": "under cross_entropy",
    "sort_dim": "under sort",
    "sub_scaled": "under sub with alpha",
    "sum_to": "the adjoint of broadcasting",
    "top_dim": "under topk",
    "trunc_divide": "under div with rounding_mode",
    "unfold_adjoint": "the adjoint of Tensor.unfold",
    "unfold_images": "under nn.functional.unfold",
    "write_along_dim": "under scatter",
}
"""Operators that stand under another name of PyTorch's, or that only rules call, with what they serve."""

OWN = {
    "piecewise": "numpy.piecewise, which PyTorch has not",
}
"""Operators that PyTorch has under no name."""

Lookup = Callable[[str], Any]
PREFIXES = ("", "Tensor.", "nn.functional.", "linalg.", "special.", "fft.")


def modules() -> dict[str, Any]:
    """Prefix to the module of plugrad that holds functions under it."""
    found = {}
    for prefix in PREFIXES[2:]:
        try:
            found[prefix] = importlib.import_module(f"plugrad.{prefix[:-1]}")
        except ModuleNotFoundError:
            continue
    return found


def operators() -> list[str]:
    """The standard operators, without their namespace."""
    return [op.name.partition("::")[2] for op in registry.operators("standard::*")]


def paths() -> dict[str, list[str]]:
    """Each public name of plugrad and the paths under which it stands, but for `INNER` and `OWN` ones.

    A function of `linalg` counts by itself: some differ from those of the same name elsewhere.
    """
    found: dict[str, list[str]] = {}
    tensor = plugrad.tensor([0.0])
    for name in operators():
        if name in INNER or name in OWN:
            continue
        if name.startswith("linalg_"):
            found[f"linalg.{name[7:]}"] = [f"linalg.{name[7:]}"]
        else:
            found[name] = [name] + [f"Tensor.{name}"] * _has(tensor, name)
    for prefix, module in modules().items():
        for name in getattr(module, "__all__", ()):
            if name[0].islower() and callable(getattr(module, name)):
                path = prefix + name
                places = found.setdefault(path if prefix == "linalg." else name, [])
                places += [path] * (path not in places)
    return found


def compared(ours: Lookup, theirs: Lookup) -> dict[str, list[str]]:
    """Of those, the paths that PyTorch has, too, with the same meaning.

    Functions of ``torch.nn.functional`` stand at ``torch`` by chance, and some with other arguments.
    """
    chosen = {}
    for name, places in paths().items():
        places = [p for p in places if _run(p) or (theirs(p) is not None and ours(p) is not None)]
        if name in FUNCTIONAL:
            places = [p for p in places if p != name or p in SAME_AT_TOP]
        chosen[name] = sorted(places, key=lambda p: p not in TABLE)
    return chosen


def entry(path: str) -> Case | None:
    """The case of a path: its own, or that of its name."""
    return TABLE.get(path) or TABLE.get(path.rpartition(".")[2])


def _run(path: str) -> bool:
    """Whether what is called is not the path itself."""
    case = entry(path)
    return case is not None and case.run is not None


def _has(tensor: Any, name: str) -> bool:
    try:
        return hasattr(tensor, name)
    except RuntimeError:  # an attribute of complex tensors alone
        return True


def kinds(path: str) -> tuple[str, ...]:
    """The kinds that an operator is compared in: those of its case, and complex where its schema has it."""
    name = path.rpartition(".")[2]
    case = entry(path)
    schema = getattr(registry.standard(name), "schema", None) if "." not in path else None
    assert case is not None
    complex_too = schema is not None and schema.dtypes[0] in ("number", "complex", "any")
    return case.kinds + (COMPLEX,) * (
        complex_too and case.kinds != ("integer",) and COMPLEX not in case.kinds
    )
