"""What optimizers share: groups, state, saving and loading; and what they refuse."""

import pickle

import numpy as np
import pytest

import plugrad
from plugrad.optim import SGD, Adam, Optimizer


def leaf(values=(1.0, 2.0)):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def stepped(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = plugrad.ones_like(p)
    optimizer.step()
    return optimizer


class TestGroups:
    def test_options_of_a_group_and_defaults(self):
        a, b = leaf(), leaf()
        optimizer = SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 1.0]
        stepped(optimizer)
        assert a.tolist() == pytest.approx([0.9, 1.9])
        assert b.tolist() == [0, 1]

    def test_a_group_added_later(self):
        a, b = leaf(), leaf()
        optimizer = SGD([a], lr=0.1)
        optimizer.add_param_group({"params": [b], "lr": 0.5})
        stepped(optimizer)
        assert b.tolist() == [0.5, 1.5]

    def test_named_parameters(self):
        optimizer = SGD([("weight", leaf()), ("bias", leaf())])
        assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]

    def test_options_may_change_between_steps(self):
        p = leaf([1.0])
        optimizer = SGD([p], lr=0.1)
        optimizer.param_groups[0]["lr"] = 1.0
        stepped(optimizer)
        assert p.tolist() == [0]

    @pytest.mark.parametrize(
        ("make", "error", "words"),
        [
            (list, ValueError, "empty"),
            (leaf, TypeError, "iterable of Tensors"),
            (lambda: [1.0], TypeError, "float"),
            (lambda: [leaf() * 1], ValueError, "leaf"),
            (lambda: [leaf()] * 2, ValueError, "more than one place"),
            (lambda: [{"params": {leaf()}}], TypeError, "set"),
        ],
    )
    def test_what_is_no_list_of_parameters(self, make, error, words):
        with pytest.raises(error, match=words):
            SGD(make())

    def test_a_parameter_in_two_groups(self):
        p = leaf()
        with pytest.raises(ValueError, match="more than one place"):
            SGD([{"params": [p]}, {"params": [p]}])


class TestZeroGrad:
    def test_gradients_are_forgotten(self):
        p = leaf()
        optimizer = stepped(SGD([p]))
        optimizer.zero_grad()
        assert p.grad is None

    def test_or_filled_with_zeros_in_place(self):
        p = leaf()
        optimizer = stepped(SGD([p]))
        buffer = p.grad.array
        optimizer.zero_grad(set_to_none=False)
        assert p.grad.array is buffer
        assert p.grad.tolist() == [0, 0]

    def test_a_gradient_with_a_graph(self):
        p = leaf()
        (p * p).sum().backward(create_graph=True)
        SGD([p]).zero_grad(set_to_none=False)
        assert not p.grad.requires_grad
        assert p.grad.tolist() == [0, 0]


class TestStep:
    def test_a_closure_runs_with_a_graph(self):
        p = leaf([1.0])
        optimizer = SGD([p], lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        with plugrad.no_grad():
            assert optimizer.step(closure).item() == 1
        assert p.tolist() == [0.8]

    def test_saved_values_are_found_overwritten(self):
        p = leaf([1.0])
        loss = (p * p).sum()
        stepped(SGD([p]))
        with pytest.raises(RuntimeError, match="in-place"):
            loss.backward()

    def test_parameters_stay_the_same_leaves(self):
        p = leaf([1.0])
        array = p.array
        stepped(SGD([p]))
        assert p.is_leaf
        assert p.requires_grad
        assert p.array is array

    def test_not_finite_gradients_raise_no_warning(self):
        p = leaf([1.0, 1.0])
        p.grad = plugrad.tensor([np.inf, np.nan], dtype=np.float64)
        Adam([p]).step()
        assert np.isnan(p.array).all()

    def test_a_class_without_an_update(self):
        with pytest.raises(NotImplementedError, match="defines no update"):
            stepped(Optimizer([leaf()], {}))


class TestSavedState:
    def make(self, p):
        return Adam([p], lr=0.1, amsgrad=True)

    def test_a_run_goes_on_where_it_was_saved(self):
        a, b = leaf(), leaf()
        one = stepped(self.make(a))
        saved = pickle.loads(pickle.dumps(plain(one.state_dict())))
        with plugrad.no_grad():
            b.copy_(a.detach())
        other = self.make(b)
        other.load_state_dict(tensors(saved))
        stepped(one)
        stepped(other)
        assert a.tolist() == b.tolist()
        assert other.state[b]["step"] == 2

    def test_state_is_numbered_in_order(self):
        a, b = leaf(), leaf()
        optimizer = Adam([{"params": [a]}, {"params": [b]}])
        b.grad = plugrad.ones_like(b)
        optimizer.step()
        saved = optimizer.state_dict()
        assert [group["params"] for group in saved["param_groups"]] == [[0], [1]]
        assert list(saved["state"]) == [1]

    def test_loading_copies(self):
        a, b = leaf(), leaf()
        one, other = stepped(self.make(a)), self.make(b)
        other.load_state_dict(one.state_dict())
        assert other.state[b]["exp_avg"] is not one.state[a]["exp_avg"]
        assert not np.shares_memory(other.state[b]["exp_avg"].array, one.state[a]["exp_avg"].array)

    def test_floating_state_takes_the_dtype_of_its_parameter(self):
        low = plugrad.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
        other = self.make(low)
        other.load_state_dict(stepped(self.make(leaf())).state_dict())
        assert other.state[low]["exp_avg"].dtype == np.float32

    def test_groups_that_differ(self):
        saved = SGD([leaf(), leaf()]).state_dict()
        with pytest.raises(ValueError, match=r"\[2\].*\[1\]"):
            SGD([leaf()]).load_state_dict(saved)

    def test_it_prints_its_options(self):
        assert "lr: 0.1" in repr(SGD([leaf()], lr=0.1))


def plain(saved):
    """A saved state with arrays in place of tensors."""
    state = {
        i: {k: v.array if isinstance(v, plugrad.Tensor) else v for k, v in values.items()}
        for i, values in saved["state"].items()
    }
    return {**saved, "state": state}


def tensors(saved):
    state = {
        i: {k: plugrad.Tensor(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        for i, values in saved["state"].items()
    }
    return {**saved, "state": state}
