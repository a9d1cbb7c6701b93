"""What processes started anew need to import."""

import multiprocessing
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Whichever test starts the server: its children find everything imported.
multiprocessing.set_forkserver_preload(["manyhands.data.loading.workers"])
