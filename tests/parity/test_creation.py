"""Functions that make tensors against PyTorch's: values, shapes, dtypes."""

import numpy as np
import pytest
from table_creation import CREATION

pytest.importorskip("torch", reason="PyTorch is not installed")

from calls import Case
from harness import Plugrad, Torch, compare_output, found

EXPRESSIONS = [(path, text) for path, texts in CREATION.items() for text in texts]


class Names(dict):
    """The library's names; Python's where it has none."""

    def __init__(self, library):
        super().__init__(x=library.tensor(np.ones((2, 3), "float32"), False), tuple=tuple)
        self.library = library

    def __missing__(self, name):
        return getattr(self.library.lib, name)


@pytest.mark.parametrize(("path", "text"), EXPRESSIONS)
def test_function(path, text):
    assert found(Plugrad, path) is not None
    theirs, ours = (eval(text, {}, Names(library)) for library in (Torch, Plugrad))
    if isinstance(theirs, tuple):
        assert tuple(ours) == tuple(theirs)
    else:
        compare_output(text, ours, theirs, Case(lambda d: None), ("value",))
