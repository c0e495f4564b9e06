"""The scripts of a test module's folder; what a benchmark registers by hand does not outlive its test."""

import pytest

from plugrad import registry


@pytest.fixture(autouse=True)
def _forget_what_was_registered():
    table = registry._loader.table
    registry.operators()
    before = set(table.operators)
    yield
    new = table.operators.keys() - before
    for name in new:
        del table.operators[name]
    table.changed(sorted(new))


@pytest.fixture
def script(request, scripts):
    """Imports a module of the folder that the test module calls FOLDER."""
    return scripts(request.module.FOLDER)
