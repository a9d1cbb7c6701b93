"""`python -m manyhands` that samples its memory: `python sampled_main.py SAMPLES train --flag=...`.

The process samples itself because NVML has other process ids inside a container.
"""

import json
import runpy
import sys
import threading
import time
from pathlib import Path

import psutil

PERIOD_S = 0.5


def sample_memory(file: Path) -> None:
    """Append a line per period for as long as this process lives."""
    while True:
        with file.open("a", encoding="utf-8") as output:
            output.write(json.dumps({"time": time.time()} | memory()) + "\n")
        time.sleep(PERIOD_S)


def memory() -> dict[str, int]:
    """Memory of this process on the host and, once CUDA is initialized, on the GPU."""
    info = psutil.Process().memory_info()
    found = {"host_bytes": info.rss - info.shared}
    cuda = sys.modules.get("torch.cuda")
    try:
        if cuda is not None and cuda.is_initialized():
            found["gpu_bytes"] = cuda.memory_reserved()
            # Everything on the device: also driver, CUDA graphs and other processes.
            found["device_bytes"] = cuda.device_memory_used()
    except Exception:
        # Torch is still being imported, or NVML does not answer: the next sample may know more.
        return found
    return found


if __name__ == "__main__":
    samples = Path(sys.argv.pop(1))
    threading.Thread(target=sample_memory, args=(samples,), daemon=True).start()
    runpy.run_module("manyhands", run_name="__main__", alter_sys=True)
