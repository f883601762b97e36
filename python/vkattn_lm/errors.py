"""What goes wrong with models that people have, in one line each."""
import contextlib


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


def require(module, package):
    """A module that the extra lm installs."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError:
        raise ModelError(f"the package {package} is missing, expected it: pip install 'vkattn[lm]', or pip install "
                         f"{package}") from None
