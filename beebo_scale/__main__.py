"""`python -m beebo_scale` is `beebo-scale`."""

import os
import sys

from .cli.main import main


def end(code: int) -> None:
    """Leave with an exit code.

    Where several workers were started, torch's communication threads now and then abort an interpreter that shuts down
    (seen once in thirty jobs), so that a finished job would look like a failed one: leave without shutting down.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    try:
        code = main()
    except SystemExit as leave:  # of the parsers' --help, or a job that was stopped
        code = leave.code if isinstance(leave.code, int) else 0 if leave.code is None else 1
    end(code)
