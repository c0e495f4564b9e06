"""Streams of random numbers: known answers, agreement between dtypes, and distributions."""

import copy
import pickle

import numpy as np
import pytest

from plugrad.backends.philox import Stream

MANY = 400_001  # odd, and no multiple of what is made at once


def by_the_paper(key, counter):
    """Philox4x32-10 with Python's integers."""
    k, (a, b, c, d) = list(key), counter
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k[0], q % 2**32, (p >> 32) ^ d ^ k[1], p % 2**32
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return [a, b, c, d]


ONES = 0xFFFFFFFF
KNOWN = [  # of Random123
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES), (ONES, ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
def test_known_answers(key, counter, answer):
    seed, block, offset = (low | high << 32 for low, high in (key, counter[:2], counter[2:]))
    assert Stream(seed, offset).block(block) == answer
    assert tuple(by_the_paper(key, counter)) == answer


def test_blocks_count_and_their_words_are_those_of_the_cipher():
    seed, offset = 0x299F31D0A4093822, 0x0370734413198A2E
    words = Stream(seed, offset).bits(4 * 1030)
    for block in (0, 1, 7, 8, 255, 256, 1029):
        expected = by_the_paper((0xA4093822, 0x299F31D0), (block, 0, 0x13198A2E, 0x03707344))
        assert words[4 * block : 4 * block + 4].tolist() == expected


def test_low_halves_come_from_the_blocks_in_the_upper_half():
    key = (0xA4093822, 0x299F31D0)
    stream = Stream(key[0] | key[1] << 32, 5)
    wide = stream.integers(4, 0, 2**64, np.uint64)
    low = by_the_paper(key, (0, 0x80000000, 5, 0))
    high = by_the_paper(key, (0, 0, 5, 0))
    assert wide.tolist() == [h << 32 | v for h, v in zip(high, low)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 33, 1023, 1024, 1025, 5000])
def test_a_number_depends_on_its_place_alone(n):
    stream = Stream(3, 4)
    for draw in (
        stream.bits,
        stream.uniform,
        stream.normal,
        stream.exponential,
        lambda n: stream.normal(n, np.float64),
        lambda n: stream.uniform(n, np.float16),
        lambda n: stream.integers(n, -7, 8),
        lambda n: stream.chance(n, 0.25),
    ):
        np.testing.assert_array_equal(draw(n), draw(6000)[:n])


def test_shapes_are_filled_in_c_order():
    stream = Stream(3, 4)
    np.testing.assert_array_equal(stream.normal((5, 7)).ravel(), stream.normal(35))
    assert stream.uniform(()).shape == ()
    out = np.zeros((5, 7), np.float32).T
    stream.fill_uniform(out)
    np.testing.assert_array_equal(out, stream.uniform((7, 5)))


# ---- dtypes ------------------------------------------------------------------------------------------------


def test_uniform_numbers_of_different_dtypes_are_one_number_cut_off():
    stream = Stream(11, 2)
    wide = stream.uniform(MANY, np.float64)
    np.testing.assert_array_equal(stream.uniform(MANY), np.floor(wide * 2**24) / 2**24)
    np.testing.assert_array_equal(stream.uniform(MANY, np.float16), np.floor(wide * 2**11) / 2**11)
    for dtype in (np.float16, np.float32, np.float64):
        numbers = stream.uniform(MANY, dtype)
        assert numbers.dtype == dtype
        assert numbers.min() >= 0 and numbers.max() < 1


def test_normal_and_exponential_numbers_of_different_dtypes_agree():
    stream = Stream(11, 2)
    for draw in (stream.normal, stream.exponential):
        wide = draw(MANY, np.float64)
        # The float of a word near 2**32 rounds: where the radius is tiny, so is what it has of its own.
        np.testing.assert_allclose(draw(MANY), wide, rtol=2e-6, atol=5e-4)
        np.testing.assert_array_equal(draw(100, np.float16), draw(100).astype(np.float16))


def test_the_formulas_in_double():
    stream = Stream(11, 2)
    uniform = stream.uniform(MANY, np.float64)
    radius = np.sqrt(-2 * np.log(uniform[:-1:2] + 2.0**-53))
    angle = 2 * np.pi * uniform[1::2]
    normal = stream.normal(MANY, np.float64)
    np.testing.assert_allclose(normal[:-1:2], radius * np.cos(angle), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(normal[1::2], radius * np.sin(angle), rtol=1e-13, atol=1e-14)
    waits = stream.exponential(MANY, np.float64)
    np.testing.assert_allclose(waits, -np.log(uniform + 2.0**-53), rtol=1e-13, atol=1e-16)
    assert waits.min() > 0


def test_other_dtypes_are_refused():
    with pytest.raises(TypeError, match="int32"):
        Stream(1).normal(3, np.int32)


# ---- integers and chances ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-5, 17), (0, 2**40), (-(2**63), 2**63), (7, 2**63)]
)
def test_integers_are_the_high_half_of_a_product(low, high):
    stream = Stream(9, 1)
    words = stream.integers(50, 0, 2**64, np.uint64).tolist()
    expected = [low + (w * (high - low) >> 64) for w in words]
    assert stream.integers(50, low, high).tolist() == expected


def test_integers_do_not_depend_on_the_dtype():
    stream = Stream(9, 1)
    numbers = stream.integers(1000, 0, 100)
    for dtype in (np.int8, np.uint8, np.int32, np.float16, np.float64):
        np.testing.assert_array_equal(stream.integers(1000, 0, 100, dtype), numbers)


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 3), (0, 2**64 + 1)])
def test_empty_and_excessive_ranges_are_refused(low, high):
    with pytest.raises(ValueError, match="from low up to high"):
        Stream(9).integers(3, low, high)


def test_chances_at_both_ends_and_between():
    stream = Stream(5, 5)
    assert stream.chance(MANY, 1.0).all()
    assert not stream.chance(MANY, 0.0).any()
    assert not stream.chance(MANY, 1e-60).any()
    assert not stream.chance(3, float("nan")).any()
    rows = stream.chance((3, 1000), np.array([[0.0], [1.0], [np.nan]]))
    assert rows.mean(1).tolist() == [0, 1, 0]
    np.testing.assert_array_equal(
        stream.chance((2, 50), 0.3), stream.chance((2, 50), np.full((2, 1), 0.3))
    )
    # The same words as the uniform numbers: the finer comparison agrees with theirs.
    np.testing.assert_array_equal(stream.chance(MANY, 0.25), stream.uniform(MANY) < 0.25)


def test_moments():
    seed = 20240607
    print("seed", seed)
    stream = Stream(seed, 3)
    for dtype in (np.float32, np.float64):
        u, z, e = (
            f(MANY, dtype).astype(float)
            for f in (stream.uniform, stream.normal, stream.exponential)
        )
        error = 5 / MANY**0.5
        assert abs(u.mean() - 1 / 2) < error * 12**-0.5
        assert abs(u.var() - 1 / 12) < error * 180**-0.5
        for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
            assert abs((z**power).mean() - moment) < error * spread**0.5
        assert abs(np.mean(z[:-1:2] * z[1::2])) < error * 2**0.5
        assert abs(np.mean(z[1:-1:2] * z[2::2])) < error * 2**0.5
        assert abs(e.mean() - 1) < error
        assert abs(e.var() - 1) < error * 8**0.5
    counts = np.bincount(stream.integers(MANY, 0, 10))
    assert np.abs(counts - MANY / 10).max() < 5 * (MANY * 0.09) ** 0.5
    assert abs(stream.chance(MANY, 0.3).mean() - 0.3) < error * 0.21**0.5


def test_streams_with_other_seeds_or_offsets_are_other_numbers():
    streams = [Stream(0, 0), Stream(1, 0), Stream(0, 1), Stream(2**32, 0), Stream(0, 2**32)]
    firsts = {tuple(s.bits(4).tolist()) for s in streams}
    assert len(firsts) == len(streams) == len(set(streams))


# ---- the object --------------------------------------------------------------------------------------------


def test_a_stream_is_a_value():
    stream = Stream(2**64 - 1, 7)
    assert stream == Stream(2**64 - 1, 7) != Stream(2**64 - 1, 8)
    assert hash(stream) == hash(Stream(2**64 - 1, 7))
    assert stream != (2**64 - 1, 7)
    assert pickle.loads(pickle.dumps(stream)) == copy.deepcopy(stream) == stream
    assert repr(stream) == f"Stream(seed={2**64 - 1}, offset=7)"
    assert stream.packed == (2**64 - 1).to_bytes(8, "little") + (7).to_bytes(8, "little")
    with pytest.raises(AttributeError):
        stream.seed = 3


@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_a_seed_outside_of_64_bits_is_refused(wrong):
    with pytest.raises(ValueError, match="seed"):
        Stream(wrong)
    with pytest.raises(ValueError, match="offset"):
        Stream(0, wrong)
