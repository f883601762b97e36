"""Where pictures and pages go: under their names whole or not at all, and never over something else."""
import os
import pathlib
import tempfile

from .documents import PlotError

GENERATOR = b'<meta name="generator" content="vkattn-plot">'
# What a file of each suffix begins with: (of which bytes, what is among them)
MARKS = {".png": (8, b"\x89PNG\r\n\x1a\n"), ".svg": (1024, b"<svg"), ".pdf": (8, b"%PDF-"), ".html": (1024, GENERATOR)}
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html",)


def checked_target(name, suffixes, inputs):
    """The path to write. Refuses other suffixes, the inputs, and files that hold something else."""
    path = pathlib.Path(name)
    if path.suffix not in suffixes:
        raise PlotError(f"{name}: unknown suffix '{path.suffix}', expected {' or '.join(suffixes)}")
    path = path.resolve()
    if not path.parent.is_dir():
        raise PlotError(f"{name}: no such folder, expected one that there is")
    if not path.exists():
        return path
    if any(each != "-" and os.path.exists(each) and os.path.samefile(each, path) for each in inputs):
        raise PlotError(f"{name}: is an input, expected another name for the output")
    if not path.is_file():
        raise PlotError(f"{name}: is no regular file, expected the name of a file to write")
    if not looks_written(path):
        raise PlotError(f"{name}: holds something else than a {path.suffix[1:].upper()} file, which is kept; "
                        "expected a new name")
    return path


def looks_written(path):
    """Whether the file may be an earlier output, hence replaced."""
    length, mark = MARKS[path.suffix]
    with open(path, "rb") as file:
        return mark in file.read(length)


def write(path, content):
    try:
        file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name + ".", suffix=".partial", delete=False)
    except OSError as error:
        raise PlotError(f"{path}: cannot be written ({error.strerror}), expected a folder that can be") from None
    try:
        with file:
            file.write(content)
        os.chmod(file.name, 0o666 & ~current_umask())
        os.replace(file.name, path)
    except OSError as error:
        os.unlink(file.name)
        raise PlotError(f"{path}: cannot be written ({error.strerror}), expected room for it") from None


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
