"""Lets the test modules of this folder import the tables and the harness beside them."""

import sys
from pathlib import Path

# pytest's importlib mode leaves sys.path alone, so that a module beside a test is not found by itself.
sys.path.append(str(Path(__file__).parent))
