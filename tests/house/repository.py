"""The files of the project: those that git tracks, or would."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked(*folders):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout
    return [path for path in listed.split("\0") if (ROOT / path).is_file()]
