"""What holds for every test module."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_nodes_left(request):
    """After a module's last test as many graph nodes are alive as before its first.

    Only where all its tests passed: a failure is kept with its frames, and with the graphs in them.
    """
    import plugrad

    gc.collect()
    before = plugrad.graph_stats()
    failed = request.session.testsfailed
    yield
    gc.collect()
    after = plugrad.graph_stats()
    if request.session.testsfailed == failed:
        assert after.nodes <= before.nodes, (
            f"{request.module.__name__} left nodes: {before} -> {after}"
        )
