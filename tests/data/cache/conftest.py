"""Pictures whose pixels follow from the frame number, and processes to read and write them."""

import sys
from pathlib import Path

# Spawned processes find the module of what they are to run by its name.
sys.path.insert(0, str(Path(__file__).parent))
