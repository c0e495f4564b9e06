"""Hooks on a CUDA device: on tensors, on what is saved, on several gradients; saving on the host."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import graph

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(values=(1.0, 2.0), device="cuda"):
    return plugrad.tensor(values, dtype=np.float64, device=device, requires_grad=True)


def host(tensor):
    return tensor.detach().cpu().numpy()


def test_hooks_of_tensors_see_and_replace_gradients():
    x, seen = leaf(), []
    y = x * x
    y.register_hook(lambda grad: seen.append(grad.device) or grad * 2)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.device))
    y.sum().backward()
    assert seen == ["cuda", "cuda"]
    assert host(x.grad).tolist() == [4, 8]


def test_a_hook_that_moves_a_gradient_is_refused():
    x = leaf()
    y = x * x
    y.register_hook(lambda grad: grad.cpu())
    with pytest.raises(RuntimeError, match=r"cpu.*cuda|cuda.*cpu"):
        y.sum().backward()


def test_several_gradients():
    x, y, seen = leaf(), leaf(), []
    with graph.register_multi_grad_hook((x, y), seen.append):
        (x * y).sum().backward()
    assert [[host(g).tolist() for g in grads] for grads in seen] == [[[1, 2], [1, 2]]]


def test_saved_values_on_the_host():
    x, packed = leaf(), []

    def pack(tensor):
        packed.append(tensor.device)
        return tensor.cpu().numpy()

    with graph.saved_tensors_hooks(pack, lambda a: plugrad.tensor(a, device="cuda")):
        y = (x * x).exp().sum()
    y.backward()
    assert set(packed) == {"cuda"}
    np.testing.assert_allclose(host(x.grad), 2 * host(x) * np.exp(host(x) ** 2))


def test_save_on_cpu_gives_the_memory_back(cuda):
    x = plugrad.ones(512, 128, device="cuda", requires_grad=True)
    peaks = []
    for saving in (False, True):
        before = cuda.memory_allocated()
        with graph.save_on_cpu() if saving else graph.disable_saved_tensors_hooks("none here"):
            y = x
            for _ in range(4):
                y = y.sin()
        peaks.append(cuda.memory_allocated() - before)
        y.sum().backward()
        del y
    assert peaks[1] <= peaks[0] - 3 * x.array.nbytes
    first, x.grad = host(x.grad) / 2, None
    y = x
    for _ in range(4):
        y = y.sin()
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), first, rtol=1e-6)


def test_save_on_cpu_of_tensors_of_two_devices():
    x, y = leaf(), leaf(device="cpu")
    with graph.save_on_cpu():
        z = (x * x).cpu() * y * y
    z.sum().backward()
    assert (x.grad.device, y.grad.device) == ("cuda", "cpu")
    assert host(x.grad).tolist() == [2, 16]
    assert host(y.grad).tolist() == [2, 16]


def test_a_write_that_plugrad_does_not_see_is_told():
    x = leaf()
    y = x.detach() * 1
    z = (y * x).sum()
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="version"):
        z.backward()
