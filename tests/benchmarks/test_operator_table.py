"""The table of operators next to PyTorch: its cases are what they say, do the same in both, and are summed up."""

from pathlib import Path

import numpy as np
import pytest

import plugrad

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def table(script):
    return script("table")


def cases(table, dtypes=("float32", "float64")):
    for name in table.OPERATORS:
        for dtype in dtypes:
            for layout in table.LAYOUTS:
                yield table.Case(name, 100, dtype, layout)


# -------------------------------------------------------------------------------------------------------------- cases


def test_every_case_does_the_same_in_both_libraries(table):
    pytest.importorskip("torch")
    for case in cases(table):
        for body in table.bodies(case, ("plugrad", "torch")).values():
            body()


def test_every_case_runs(table):
    for case in cases(table, ("float32",)):
        table.bodies(case, ("plugrad",))["plugrad"]()


def test_sizes_are_what_they_say(table):
    for size in table.ALL_SIZES:
        for name in ("exp", "group_norm:images"):
            assert np.prod(table.Case(name, size, "float32", "contiguous").shape) == size
    assert table.Case("exp", 10**4, "float32", "contiguous", row=50).shape == (200, 50)


def test_a_transposed_leaf_and_what_comes_back_to_it_have_their_layout(table):
    case = table.Case("exp", 10**4, "float64", "transposed")
    x = table._inputs(plugrad, case, ["x"])["x"]
    assert x.is_leaf
    assert x.requires_grad
    assert x.array.flags.f_contiguous
    result = plugrad.exp(x)
    seed = table._seed(plugrad, result)
    assert seed.stride() == result.stride()
    same = table._inputs(plugrad, table.Case("exp", 10**4, "float64", "contiguous"), ["x"])["x"]
    np.testing.assert_array_equal(x.detach().numpy(), same.detach().numpy())
    assert same.array.flags.c_contiguous


def test_works_that_differ_are_refused(table, monkeypatch):
    torch = pytest.importorskip("torch")
    wrong = table.elementwise(lambda lib, x: x * 2 if lib is torch else x * 3)
    monkeypatch.setitem(table.OPERATORS, "wrong", wrong)
    with pytest.raises(ValueError, match="do not do the same work"):
        table.bodies(table.Case("wrong", 100, "float32", "contiguous"), ("plugrad", "torch"))


# ---------------------------------------------------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (("gelu",), ["gelu", "gelu:tanh"]),
        (("gelu:tanh", "exp"), ["exp", "gelu:tanh"]),
        (("softmax",), None),
        (("log_soft*",), ["log_softmax:rows", "log_softmax:columns"]),
    ],
)
def test_operators_are_chosen_by_name_group_or_pattern(script, patterns, names):
    chosen = script("operators").Selection(patterns).names()
    if names is None:
        assert {"softmax:rows", "logsumexp:columns"} <= set(chosen)
    else:
        assert chosen == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operators": ("nonsense",)}, "no operator nonsense in the table; there is add"),
        ({"dtypes": ("float16",)}, "no float16 in the table; there is float32, float64"),
        ({"sizes": (7,)}, "no 7 in the table; there is 100"),
        ({"layouts": ("sliced",)}, "no sliced in the table"),
    ],
)
def test_what_is_not_in_the_table_is_named(script, arguments, message):
    with pytest.raises(LookupError, match=message):
        script("operators").Selection(**arguments)


def test_every_case_is_measured_once(script):
    cases = script("operators").Selection(("exp", "sum")).cases()
    assert len(cases) == len(set(cases)) == 4 * 4 * 2 * 2


# ------------------------------------------------------------------------------------------------------------ summary


def test_a_summary_gives_mean_worst_and_how_many_are_over(script):
    operators, rows = script("operators"), script("rows")
    measured = [
        (group, rows.Row(f"{group} {ratio}", "µs", {}, 1.1, "torch", ratio))
        for group, ratio in (("softmax", 0.25), ("softmax", 1.0), ("losses", 4.0))
    ]
    found = {row.work: row for row in operators.summary(measured)}
    assert found["softmax, worst case"].verdict == "ok"
    assert found["softmax, geometric mean"].ratio == pytest.approx(0.5)
    worst = found["operators, worst case"]
    assert (worst.ratio, worst.verdict) == (4.0, "over")
    assert worst.note == "losses 4.0; 1 of 3 cases over"
    assert found["operators, geometric mean"].ratio == pytest.approx(1.0)


def test_a_case_that_fails_is_a_row_that_says_so(script, table, monkeypatch):
    def broken(x):
        raise NotImplementedError("not yet")

    monkeypatch.setitem(table.OPERATORS, "broken", table.elementwise(broken))
    selection = script("operators").Selection(("broken",), ("float32",), ("contiguous",), (100,))
    row, _ = script("operators").rows(selection, ("plugrad",))
    assert (row.verdict, row.failure) == ("failed", "NotImplementedError: not yet")


@pytest.mark.parametrize(("second", "expected"), [(0.9, 1.0), (1.3, 1.3)])
def test_a_case_that_is_over_in_some_rounds_is_measured_again(
    script, table, monkeypatch, second, expected
):
    operators, measure = script("operators"), script("measure")
    rounds = []

    def interleave(bodies, count, *_):
        rounds.append(count)
        ratios = [1.0, 1.2, 1.2] if len(rounds) == 1 else [second] * count
        return measure.Timing({"plugrad": ratios, "torch": [1.0] * len(ratios)})

    monkeypatch.setattr(operators, "interleave", interleave)
    monkeypatch.setattr(table, "bodies", lambda case, peers: dict.fromkeys(peers))
    case = table.Case("exp", 100, "float32", "contiguous")
    timing = operators._timing(case, ("plugrad", "torch"), 3)
    assert rounds == [3, 6]
    assert timing.ratio("plugrad", "torch") == pytest.approx(expected, abs=0.11)
