"""A pytest plugin: leaves out the tests that passed in an earlier run, by its JUnit report in $PASSED_BEFORE.

For a second run that differs only in that more is installed: what was skipped then is looked at again, and what did not
even come up. A test whose name is not found in the report runs.
"""

import os
import re
import xml.etree.ElementTree as ET


def pytest_collection_modifyitems(config, items):
    passed = passed_tests(os.environ["PASSED_BEFORE"])
    left_out = [item for item in items if reported_name(item.nodeid) in passed]
    config.hook.pytest_deselected(items=left_out)
    left_out = set(left_out)
    items[:] = [item for item in items if item not in left_out]


def passed_tests(report):
    """Class name and name of each."""
    return {
        (case.get("classname"), case.get("name"))
        for case in ET.parse(report).iter("testcase")
        if all(case.find(tag) is None for tag in ("failure", "error", "skipped"))
    }


def reported_name(nodeid):
    """a/test_b.py::TestC::test_d[1/2] is test_d[1/2] of a.test_b.TestC."""
    address, bracket, parameters = nodeid.partition("[")
    file, *names = address.split("::")
    module = re.sub(r"\.py$", "", file).replace("/", ".")
    return ".".join([module, *names[:-1]]), names[-1] + bracket + parameters
