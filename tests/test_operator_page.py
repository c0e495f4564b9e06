"""docs/operators.md lists the operators that there are, as they are declared."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = (DOCS / "operators.md").read_text(encoding="utf-8")


@pytest.fixture
def operators(scripts):
    pytest.importorskip("click", reason="needs the extra cli")
    return scripts(DOCS)("operators")


def rows(text, columns):
    """Operator to its first cells."""
    found = {}
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ")
        if re.fullmatch(r"`\w+`", cells[0]):
            assert cells[0] not in found, f"listed twice: {line}"
            found[cells[0]] = cells[:columns]
    return found


def test_it_lists_what_there_is(operators):
    written, expected = (rows(text, operators.STATIC) for text in (TEXT, operators.page({})))
    hint = "run python docs/operators.py"
    assert not expected.keys() - written.keys(), hint
    assert not written.keys() - expected.keys(), hint
    assert {n: c for n, c in written.items() if c != expected[n]} == {}, hint


def test_what_batteries_found_is_said_in_known_words(operators):
    times = {
        "-",
        *(operators.time_class(1e-3 * n - 1e-9) for n in operators.CLASSES),
        operators.time_class(1),
    }
    records = operators.recorded(TEXT)
    assert records
    for name, (check, emulated, hardware) in records.items():
        assert check in times, name
        assert {emulated, hardware} <= {"passed", "not run", "no kernel"}, name


def test_it_is_written_again_as_it_was(operators):
    """What is not static is kept, so that running the script twice changes nothing."""
    again = operators.page(operators.recorded(TEXT))
    assert operators.page(operators.recorded(again)) == again
