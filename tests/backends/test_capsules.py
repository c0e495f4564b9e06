"""DLPack for bfloat16 on the host."""

import numpy as np
import pytest

import plugrad

pytest.importorskip("ml_dtypes")


def test_a_tensor_comes_back_on_its_own_memory():
    x = plugrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=plugrad.bfloat16)
    for given in (x, x.T, x[:, ::2], x[0, 0]):
        again = plugrad.from_dlpack(given)
        assert again.dtype == plugrad.bfloat16
        assert again.tolist() == given.tolist()
        assert np.shares_memory(again.array, x.array)


def test_other_dtypes_are_taken_as_they_are():
    for dtype in ("uint16", "float16", "float32", "int64"):
        assert plugrad.from_dlpack(np.arange(3, dtype=dtype)).dtype == np.dtype(dtype)


def test_a_copy_can_be_asked_for():
    x = plugrad.ones(3, dtype=plugrad.bfloat16)

    class Copied:
        def __dlpack__(self, **wishes):
            return x.__dlpack__(**{**wishes, "copy": True})

        __dlpack_device__ = x.__dlpack_device__

    again = plugrad.from_dlpack(Copied())
    assert again.tolist() == [1, 1, 1]
    assert not np.shares_memory(again.array, x.array)


def test_pytorch_takes_and_gives_them():
    torch = pytest.importorskip("torch")
    x = plugrad.tensor([1.0, 2.5], dtype=plugrad.bfloat16)
    theirs = torch.from_dlpack(x)
    assert theirs.dtype == torch.bfloat16
    theirs[0] = 7
    assert x.tolist() == [7, 2.5]
    ours = plugrad.from_dlpack(torch.tensor([[1.5], [3.0]]).bfloat16())
    assert ours.dtype == plugrad.bfloat16
    assert ours.tolist() == [[1.5], [3.0]]
