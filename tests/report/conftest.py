"""Helpers of the tests of pages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
