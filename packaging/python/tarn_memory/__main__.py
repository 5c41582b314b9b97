# SPDX-License-Identifier: MIT
"""The tarn command: this process becomes it, so that process id, signals and terminal are the command's."""

import os
import signal
import sys

from tarn_memory import command_path


def main() -> int:
    # Python ignores these two signals, and an ignored signal stays ignored in the command and the programs it starts.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        if signal.getsignal(ignored) is signal.SIG_IGN:
            signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(command_path(), ["tarn", *sys.argv[1:]])
    except OSError as error:
        print(f"tarn: cannot start the command: {error.strerror}: {error.filename}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
