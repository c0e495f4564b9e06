"""Every public operator is compared with PyTorch, or listed with the reason why not."""

import pytest
from table_creation import CREATION
from table_random import RANDOM
from tables import INNER, OWN, TABLE, compared, entry, operators, paths

pytest.importorskip("torch", reason="PyTorch is not installed")

from harness import Plugrad, Torch, found


def theirs(path):
    return found(Torch, path)


def ours(path):
    return found(Plugrad, path)


def listed(path):
    return entry(path) is not None or path in RANDOM or path in CREATION


def test_every_public_operator_is_in_a_table():
    missing = [p for places in compared(ours, theirs).values() for p in places if not listed(p)]
    assert not missing, (
        f"not compared with PyTorch: {missing}; give each a line in tests/parity/table_*.py"
    )


def test_every_public_operator_has_a_name_of_pytorchs():
    nowhere = [name for name, places in compared(ours, theirs).items() if not places]
    assert not nowhere, (
        f"PyTorch has no {nowhere} where plugrad has it: give it PyTorch's place, or list it as INNER or OWN in tables.py"
    )


def test_every_entry_is_of_an_operator():
    known = set(operators())
    gone = {*INNER, *OWN} - known
    assert not gone, f"listed in tables.py, and no operators: {sorted(gone)}"
    places = {p for each in paths().values() for p in each}
    names = {p.rpartition(".")[2] for p in places}
    stale = [p for p in TABLE if p not in places and p not in names and ".__" not in p]
    assert not stale, f"tables of operators that plugrad has not: {stale}"
    assert not [p for p in (*RANDOM, *CREATION) if ours(p) is None]
