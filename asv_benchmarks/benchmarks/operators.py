"""One benchmark class per standard operator, generated from the registry: `standard__exp`, `standard__matmul`, …

Only the standard plugin's, whatever else is installed: another plugin's suite has its own file of these two lines.
"""

from plugrad.contract.benchmarks import operator_benchmarks

from .cases import CASES, FORWARD_ONLY

globals().update(operator_benchmarks("standard::*", CASES, FORWARD_ONLY))
