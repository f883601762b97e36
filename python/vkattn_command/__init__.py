"""The command vkattn of a wheel: starts the program that lies beside the library, in the package vkattn."""
import importlib.util
import os
import pathlib
import subprocess
import sys

MISSING = ("vkattn: error: the command is not in this installation, expected one that was built where CLI11 and nlohmann_json are "
           "(Debian: libcli11-dev nlohmann-json3-dev): install them, and vkattn with pip again")


def program():
    """The path of the program, None where the wheel has none. vkattn itself is not imported: it would load the library."""
    package = importlib.util.find_spec("vkattn")
    folders = package.submodule_search_locations if package else []
    paths = (pathlib.Path(folder) / ("vkattn.exe" if os.name == "nt" else "vkattn") for folder in folders)
    return next((str(path) for path in paths if path.is_file()), None)


def main():
    path = program()
    if path is None:
        print(MISSING, file=sys.stderr)
        return 2
    if os.name == "nt":  # where exec would not wait
        return subprocess.call([path, *sys.argv[1:]])
    os.execv(path, [path, *sys.argv[1:]])
