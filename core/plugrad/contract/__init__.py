"""The contract: what an operator must prove before it can be called.

`check` runs the battery; `gradcheck` holds PyTorch's functions of the same name, for any function.
"""

from plugrad.contract import gradcheck
from plugrad.contract.battery import check
from plugrad.contract.gradcheck import GradcheckError
from plugrad.contract.report import CheckResult, Failure, Report
from plugrad.contract.samples import Maker, Sample

__all__ = [
    "CheckResult",
    "Failure",
    "GradcheckError",
    "Maker",
    "Report",
    "Sample",
    "check",
    "gradcheck",
]
