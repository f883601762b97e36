"""What goes wrong with models that people have, in one line each."""
import contextlib
import os


class ModelError(ValueError):
    """A file, a folder or an option that cannot be used; the message says which, and what was expected."""


@contextlib.contextmanager
def naming(where, expected):
    """Turns whatever a package raises on a foreign file into one line. A panic of a Rust package is no Exception."""
    try:
        yield
    except (ModelError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: B902: see above
        words = " ".join(str(error).split())[:200]
        raise ModelError(f"{where}: {type(error).__name__}{': ' if words else ''}{words}, expected {expected}") from error


@contextlib.contextmanager
def naming_panics(where, expected):
    """naming, for Rust packages: what a panic prints on the error stream goes nowhere."""
    with naming(where, expected), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # there may be no such stream
            held = os.dup(2)
            after.callback(lambda: (os.dup2(held, 2), os.close(held)))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        yield


def require(module, package):
    """A module that the extra lm installs."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError:
        raise ModelError(f"the package {package} is missing, expected it: pip install 'vkattn[lm]', or pip install "
                         f"{package}") from None
