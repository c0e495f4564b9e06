"""Names that are not there: the error says what to write, and docs/pytorch.md lists the same."""

import re
from pathlib import Path

import pytest

import plugrad
from plugrad.registry.elsewhere import FUNCTIONAL, METHODS, MODULE, NN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
TABLES = {"": MODULE, "Tensor.": METHODS, "nn.": NN, "nn.functional.": FUNCTIONAL}


def message(read):
    with pytest.raises(AttributeError) as caught:
        read()
    return str(caught.value)


def test_what_is_misspelt_is_guessed():
    assert message(lambda: plugrad.softmx).endswith("Did you mean plugrad.softmax?")
    assert message(lambda: plugrad.zero_like).endswith("Did you mean plugrad.zeros_like?")
    assert message(lambda: plugrad.manual_sed).endswith("Did you mean plugrad.manual_seed?")
    text = message(lambda: plugrad.nn.functional.cross_entrpy)
    assert text.endswith("Did you mean plugrad.nn.functional.cross_entropy?")
    assert "mean" not in message(lambda: plugrad.qwertzuiop)


def test_what_pytorch_calls_otherwise_is_told():
    assert "a device is a string such as 'cpu'" in message(lambda: plugrad.device)
    assert "numpy.finfo" in message(lambda: plugrad.finfo)
    assert "x.relu_(...)" in message(lambda: plugrad.relu_)
    assert "requires_grad=True" in message(lambda: plugrad.nn.Parameter)
    assert "there are no modules yet" in message(lambda: plugrad.nn.Linear)
    assert "inplace=True" in message(lambda: plugrad.nn.functional.relu_)
    assert "x.to(dtype)" in message(lambda: plugrad.ones(2).type)


@pytest.mark.parametrize("prefix", TABLES)
def test_no_name_of_the_tables_is_there(prefix):
    owner = {
        "": plugrad,
        "Tensor.": plugrad.ones(1),
        "nn.": plugrad.nn,
        "nn.functional.": plugrad.nn.functional,
    }[prefix]
    assert not [name for name in TABLES[prefix] if hasattr(owner, name)]


def test_the_page_lists_them():
    (table,) = re.findall("<!-- names -->\n(.*?)<!-- end of names -->", PAGE.read_text(), re.DOTALL)
    listed = {}
    for row in table.splitlines()[2:]:
        names, text = row.strip("| ").split(" | ")
        listed |= dict.fromkeys(re.findall("`(.+?)`", names), text)
    assert listed == {p + name: text for p, table in TABLES.items() for name, text in table.items()}
