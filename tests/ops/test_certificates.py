"""That a certificate of an operator can be kept: its declaration holds nothing that cannot be hashed."""

import pytest

from plugrad import registry
from plugrad.registry.fingerprint import of_operator


@pytest.mark.parametrize("operator", registry.operators("standard::*"), ids=lambda each: each.name)
def test_a_declaration_has_a_fingerprint(operator):
    assert of_operator(operator) == of_operator(operator)
