"""make: its values, and how samples read."""

import numpy as np
import pytest

from plugrad.contract import Maker, Sample
from plugrad.contract.automatic import added_samples
from plugrad.contract.samples import collect


def test_values_depend_on_the_name_only():
    first, second = Maker("a::b"), Maker("a::b")
    np.testing.assert_array_equal(first.normal(3, 4), second.normal(3, 4))
    assert not np.array_equal(Maker("a::c").normal(3), Maker("a::b").normal(3))


def test_dtypes_shapes_and_ranges():
    make = Maker("a::b")
    assert make.normal(2, 3).shape == make.normal((2, 3)).shape == (2, 3)
    assert make.normal().shape == ()
    for values in (make.normal(3), make.uniform(3), make.positive(3), make.distinct(3)):
        assert values.dtype == np.float64
    assert make.values(2).dtype == make.values([1, 2]).dtype == np.float64
    assert (make.positive(100) >= 0.5).all()
    uniform = make.uniform(100, low=2.0, high=3.0)
    assert (uniform >= 2).all()
    assert (uniform <= 3).all()
    assert make.integers(3, high=4).dtype == np.int64
    assert set(make.integers(100, low=-1, high=2).tolist()) == {-1, 0, 1}
    assert make.booleans(3).dtype == np.bool_
    assert make.booleans().shape == make.integers().shape == ()


def test_distinct_values_differ_clearly():
    values = np.sort(Maker("a::b").distinct(4, 5).reshape(-1))
    assert np.diff(values).min() > 0.1
    assert Maker("a::b").distinct(0).shape == (0,)


def test_a_sample_reads_like_the_call():
    make = Maker("a::b")
    sample = collect([make.call(make.normal(3, 4), 2.0, None, cap=1.5)], "a::b")[0]
    assert str(sample) == "sample 0: (float64[3, 4], 2.0, None, cap=1.5)"
    listed = make.call([make.normal(2), make.normal(3)], dim=0)
    assert "[float64[2], float64[3]]" in str(listed)


def test_collect_takes_tuples_and_arrays_and_refuses_the_rest():
    array = np.ones(2)
    first, second = collect([(array, 2.0), array], "a::b")
    assert first.args[1] == 2.0
    assert second.args[0] is array
    with pytest.raises(TypeError, match=r"a::b.*make\.call"):
        collect([3.0], "a::b")


def test_errors_keep_what_they_expect():
    sample = Maker("a::b").error(ValueError, "positive", np.ones(2), cap=-1.0)
    assert sample.raises is ValueError
    assert sample.words == "positive"


def test_added_samples_stay_among_the_values_of_the_first():
    a, b = np.array([[1.0, 2.0, 3.0]]), np.array([[10.0], [20.0]])
    base = Sample((a, b, 5.0), {"cap": 2.0})
    zero_d, empty, broadcast = added_samples([base], lambda sample: True)
    assert [str(s).split(":")[0] for s in (zero_d, empty, broadcast)] == [
        "added (0-d)",
        "added (zero-size)",
        "added (broadcast)",
    ]
    for sample in (zero_d, empty, broadcast):
        assert set(sample.args[0].reshape(-1)) <= {1.0, 2.0, 3.0}
        assert set(sample.args[1].reshape(-1)) <= {10.0, 20.0}
        assert sample.args[2] == 5.0
        assert sample.constants == {"cap": 2.0}
        np.broadcast_shapes(sample.args[0].shape, sample.args[1].shape)
    assert zero_d.args[0].shape == ()
    assert 0 in empty.args[0].shape


def test_added_samples_pair_as_the_author_did_where_crossing_fails():
    base = Sample((np.array([1.0, 2.0]), np.array([3.0, 0.0])))
    *_, broadcast = added_samples([base], lambda sample: False)
    assert set(broadcast.args[0].reshape(-1)) == {1.0}
    assert set(broadcast.args[1].reshape(-1)) == {3.0}


def test_nothing_is_added_without_arrays():
    assert added_samples([Sample((2.0,)), Sample((np.zeros(0),))], lambda sample: True) == []
