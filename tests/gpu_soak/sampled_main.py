"""`python -m manyhands` that samples its memory: `python sampled_main.py SAMPLES train --flag=...`.

The process samples itself because NVML has other process ids inside a container. It switches to a
compiled step that is correct even if it is slower: which one is faster depends on the neighbors.
"""

import json
import runpy
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def switch_even_if_slower() -> None:
    """Let the time of a compiled step not count."""
    from manyhands.training.step.auto_compile import AutoCompile
    from manyhands.training.step.trial import Trial

    def verdict(trial: Trial, inputs: Any) -> Any:
        found = original(trial, inputs)
        is_correct = found is not None and "ms instead of" in found.reason
        return replace(found, is_faster=True) if is_correct else found

    def confirm(auto: AutoCompile, inputs: Any, num_left: int, step_s: float) -> None:
        times = f"{step_s * 1e3:.1f} ms instead of {auto._graph_s * 1e3:.1f} ms per step"
        auto._log(f"Switched to the compiled step: {times}")

    original = Trial.verdict
    Trial.verdict, AutoCompile._confirm = verdict, confirm  # type: ignore[method-assign]


if __name__ == "__main__":
    samples = Path(sys.argv.pop(1))
    switch_even_if_slower()
    threading.Thread(target=sample_memory, args=(samples,), daemon=True).start()
    runpy.run_module("manyhands", run_name="__main__", alter_sys=True)
