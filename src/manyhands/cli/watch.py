"""`manyhands watch`: the page of a run, served while the run continues."""

import sys
from collections.abc import Sequence
from pathlib import Path

from manyhands.cli.flags import read_config, split_names
from manyhands.config.commands.watch import WatchConfig
from manyhands.errors import UserError
from manyhands.observe.wrapping import print_over_echo

USAGE = """manyhands watch RUN_DIR [--port=0] [--host=127.0.0.1]

Serves the page of manyhands report and refreshes it while the run continues. Only this machine
can open it, unless --host names another address. Ctrl-C stops."""


def watch_command(arguments: Sequence[str]) -> int:
    """Serve the page until Ctrl-C; return the exit code."""
    names, flags = split_names(arguments)
    config = read_config(WatchConfig, USAGE, flags)
    from manyhands.report.runs.live_page import LivePage
    from manyhands.report.runs.server import PageServer

    if len(names) != 1:
        raise UserError(
            f"manyhands watch needs one run directory, not {len(names)}. Name one: manyhands watch "
            f"{names[0] if names else 'outputs/pick'}"
        )
    page = LivePage(Path(names[0]), config.frames)
    with PageServer(page, config.host, config.port) as server:
        print(f"{server.address}  (Ctrl-C stops)", flush=True)
        server.serve_until_interrupted()
    if sys.stderr.isatty():
        print_over_echo("stopped watching")
    return 0
