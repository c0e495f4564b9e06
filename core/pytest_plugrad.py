"""pytest plugin: the contract of a plugin's operators as tests, in one line.

In a test module::

    from pytest_plugrad import check_operators

    test_contract = check_operators("ste")

makes one test per operator of the namespace ``ste``, each the whole battery. Several patterns may be given, as for
``plugrad ops``. For a test of one's own, the mark ``plugrad_operators`` gives every operator to the fixture
argument ``plugrad_operator``.

pytest imports this module before any test; it imports plugrad only inside its hooks, so that a run that checks no
operator does not load it, and coverage sees plugrad's own import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["check_operators"]

MARK = "plugrad_operators"


def check_operators(
    *patterns: str, quick: bool = False, device: str = "cpu"
) -> Callable[[Any], None]:
    """A test function that runs the battery on every operator that matches.

    Parameters
    ----------
    *patterns : str
        Namespaces, names or shell patterns, e.g. ``"ste"``, ``"ste::round"``, ``"ste::*"``.
    quick : bool, default False
        Whether to settle for the battery that runs when an operator is first used.
    device : str, default "cpu"
        ``"cuda"`` or ``"cuda-emulated"``: the battery there, after that on the CPU. Skipped, with the reason, where
        the device is not available.

    Returns
    -------
    callable
        To be bound to a name that starts with ``test``.
    """
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(f"check_operators takes names or patterns of operators, got {patterns!r}")

    def test_operator(plugrad_operator: Any) -> None:
        from plugrad import contract, registry

        if device != "cpu":
            try:
                registry.activate(device)
            except (ValueError, RuntimeError) as error:
                pytest.skip(f"{device}: {error}")
            registry.verify(plugrad_operator)
        report = contract.check(plugrad_operator, quick=quick, device=device)
        if not report.passed:
            pytest.fail(str(report), pytrace=False)

    return pytest.mark.plugrad_operators(*patterns)(test_operator)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(*patterns): run the test for every operator that matches, as plugrad_operator",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "plugrad_operator" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} takes plugrad_operator; say which ones with "
            f'@pytest.mark.{MARK}("namespace")'
        )
    from plugrad import registry

    found = {}
    for pattern in mark.args:
        matching = registry.operators(pattern)
        if not matching:
            # An unknown or quarantined plugin raises here, with its reason.
            raise pytest.UsageError(
                f"no operator matches {pattern!r}{_why(registry, pattern)}; "
                "'plugrad ops' lists all, 'plugrad plugins' what could not be loaded"
            )
        found.update({operator.name: operator for operator in matching})
    metafunc.parametrize("plugrad_operator", list(found.values()), ids=list(found))


def _why(registry: Any, pattern: str) -> str:
    """Why a plugin that owns the namespace offers nothing."""
    namespace = pattern.partition("::")[0]
    for plugin in registry.plugins():
        if namespace in plugin.namespaces and plugin.reason:
            return f": plugin {plugin.name!r} is {plugin.status}, {plugin.reason}"
    return ""
