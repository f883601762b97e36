"""What goes wrong with models that people have, in one line each."""
import contextlib
import os
import threading

# Held while the error stream is turned away: two threads that do so would save each other's, and a fork would keep it.
_TURNED_AWAY = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_TURNED_AWAY.acquire, after_in_parent=_TURNED_AWAY.release, after_in_child=_TURNED_AWAY.release)


class ModelError(ValueError):
    """A file, a folder or an option that cannot be used; the message says which, and what was expected."""


def words_of(error):
    """What an exception says, with Python's name of it only where it says nothing by itself."""
    words, kind = " ".join(str(error).split())[:200], type(error)
    if words and kind.__module__.split(".")[0] == "vkattn":
        return words
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "takes more memory than there is"
    if words and isinstance(error, ValueError):
        return words
    return f"{kind.__name__}: {words}" if words else kind.__name__


@contextlib.contextmanager
def naming(where, expected):
    """Turns whatever a package raises on a foreign file into one line. A panic of a Rust package is no Exception."""
    try:
        yield
    except (ModelError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: B902: see above
        words = words_of(error)
        raise ModelError(f"{where}: {words}" + ("" if ", expected " in words else f", expected {expected}")) from error


@contextlib.contextmanager
def naming_panics(where, expected):
    """naming, for Rust packages: what a panic prints on the error stream goes nowhere. Threads take turns."""
    with _TURNED_AWAY, naming(where, expected), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # there may be no such stream
            held = os.dup(2)
            after.callback(lambda: (os.dup2(held, 2), os.close(held)))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        yield


def checked_text(where, text):
    """A text from outside. Raises where it holds bytes that are no UTF-8, which Python keeps as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8")  # also where the locale knows less than UTF-8
    except UnicodeError as error:
        raise ModelError(f"{where}: {words_of(error)}, expected a text in UTF-8") from None


def require(module, package):
    """A module that the extra lm installs."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError:
        raise ModelError(f"the package {package} is missing, expected it: pip install 'vkattn[lm]', or pip install "
                         f"{package}") from None
