"""What a release is packed as: all that a build takes, and the tests beside it."""
import os
import pathlib
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@pytest.fixture
def pack(tmp_path):
    """pack(FILES): what source_package.cmake says of a repository of these, and the files of both archives."""
    def packed(files):
        source, output = tmp_path / "source", tmp_path / "output"
        write(source, {".gitattributes": (ROOT / ".gitattributes").read_text(), ".gitignore": "/build*/\n", **files})
        write(tmp_path, {"headers/flash.spv.hpp": "// a shader\n"})
        output.mkdir()
        assert run("git", "init", "-q", cwd=source).returncode == 0
        done = run("cmake", f"-DSOURCE={source}", f"-DHEADERS={tmp_path / 'headers'}", f"-DOUTPUT={output}", "-DNAME=vkattn-9", "-DCPU_DRIVERS=ON",
                   "-DMATRIX_UNITS=ON", "-DQUANTISED_WEIGHTS=ON", "-P", ROOT / "cmake/source_package.cmake")
        found = []
        for name in ("vkattn-9", "vkattn-9-tests"):
            with tarfile.open(output / f"{name}.tar.gz") as archive:
                found.append({member.name for member in archive.getmembers() if member.isfile()})
        return done, *found
    return packed


def test_a_release_has_what_a_build_takes_and_the_rest_beside(pack):
    done, release, rest = pack({"runtime/a b.cpp": "", "tests/data/case": "", "bench/lab/x": "", "build/x": "", ".ci/run": "",
                                "samples/textgen/models/m": "", "samples/textgen/main.cpp": ""})
    assert done.returncode == 0, done.stderr
    assert release == {f"vkattn-9/{path}" for path in (".gitattributes", ".gitignore", "runtime/a b.cpp", "samples/textgen/main.cpp",
                                                       "shaders/compiled/headers/flash.spv.hpp")}
    assert rest == {f"vkattn-9/{path}" for path in ("tests/data/case", "bench/lab/x", ".ci/run", "samples/textgen/models/m")}


def test_a_release_that_is_too_large_is_told(pack):
    done, *_ = pack({"tests/small": "", "runtime/large": os.urandom(4_100_000).hex()})
    assert done.returncode != 0 and "expected at most 4000000" in " ".join(done.stderr.split())
