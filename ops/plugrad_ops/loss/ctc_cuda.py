"""CUDA launchers of connectionist temporal classification."""

from __future__ import annotations

import struct
from pathlib import Path

from plugrad.backends.cuda.array import contiguous, empty, to_host
from plugrad.backends.cuda.dtypes import c_type
from plugrad_ops.cuda_source import Source, zeros
from plugrad_ops.indexing.cuda import as_indices
from plugrad_ops.loss.ctc import check_values, loss_shape, wide

SOURCE = Source(Path(__file__).with_name("ctc.cu"), "ctc_loss")
THREADS = 128


def ctc_losses(log_probs, targets, input_lengths, target_lengths, *, blank=0):
    """The kernel of ``standard::ctc_losses``; labels and lengths are looked at on the host."""
    loss_shape(log_probs, targets, input_lengths, target_lengths, blank=blank)
    check_values(log_probs.shape, *map(to_host, (targets, input_lengths, target_lengths)), blank)
    count = log_probs.shape[1]
    out = empty((count,), log_probs.dtype)
    if count:
        room = empty((count, 2, _widest(targets)), wide(log_probs.dtype))
        _launch("losses", log_probs, [targets, input_lengths, target_lengths], blank, [out], [room])
    return out


def ctc_gradient(grad, log_probs, targets, input_lengths, target_lengths, blank):
    """The gradient of the logarithms of probabilities."""
    out = zeros(log_probs.shape, log_probs.dtype)
    if out.size:
        times, count = log_probs.shape[:2]
        room = empty((count, times + 3, _widest(targets)), wide(log_probs.dtype))
        following = zeros((count, _widest(targets)), "int64")
        indices = [targets, input_lengths, target_lengths]
        _launch("gradients", log_probs, indices, blank, [out, contiguous(grad)], [room, following])
    return out, None, None, None


def _widest(targets):
    return 2 * targets.shape[1] + 1


def _launch(function, log_probs, indices, blank, first, room):
    sizes = struct.pack("6q", *log_probs.shape, _widest(indices[0]), indices[0].shape[1], blank)
    kernel = SOURCE.kernel(function, T=c_type(log_probs.dtype))
    kernel(
        log_probs.shape[1],
        THREADS,
        *first,
        contiguous(log_probs),
        *as_indices(indices),
        *room,
        sizes,
    )
