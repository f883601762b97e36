"""What a command is run with: its standard streams, and who is at them."""
import contextlib
import os
import sys
import threading

from .errors import ModelError, require

_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}"


def say(words):
    print(f"vkattn-lm: {words}", file=sys.stderr, flush=True)


def check_streams():
    """Refuses a closed standard output. In the place of closed streams nothing is read or written: a file that is opened would
    get their numbers, and what is written to them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        raise ModelError("standard output: closed, expected it open")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # what the terminal has not


def drop_output():
    """Forgets what standard output does not take, which Python would write once more at the end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def standard_input():
    """Text in UTF-8, whatever the locale; bytes that are none are left to errors.checked_text."""
    if sys.stdin is None:
        raise ModelError("standard input: closed, expected a text")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdin


def typed_lines():
    """What a person types after "> ", edited and called back where the system can; after a line that ends with a backslash goes
    on in the next."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401: which input uses
    while True:
        try:
            parts = [input("> ")]
            while parts[-1].endswith("\\"):
                parts[-1:] = [parts[-1][:-1], input("... ")]
        except EOFError:
            print(flush=True)
            return
        yield "\n".join(parts)


def bar(total, words, unit, quiet=False):
    """A progress bar on the error stream, where that is a terminal and nobody wants it quiet. Its update may be of a fraction."""
    tqdm = require("tqdm", "tqdm").tqdm
    tqdm.set_lock(threading.RLock())  # its own is one of processes too, which a signal would leave behind
    return tqdm(total=total, desc=words, unit=unit, leave=False, disable=quiet or None, file=sys.stderr,
                bar_format=_BAR if total else None)
