"""What a release is packed as: all that a build takes, the tests beside it, and the library as one file."""
import os
import pathlib
import shutil
import subprocess
import sys
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
            with tarfile.open(output / f"{name}.tar.xz") as archive:
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


FILES = {
    "CMakeLists.txt": "project(vkattn VERSION 9.8.7)\n",
    "LICENSE": "A licence\n",
    "include/vkattn/vkattn.h": '#ifdef __cplusplus\nextern "C" {\n#endif\nint first(void), second(void);\n#ifdef __cplusplus\n}\n#endif\n',
    "runtime/a/shared.hpp": '#pragma once\n#include "vkattn/vkattn.h"\nnamespace vkattn {\nstruct Both { int answer = 0; };\nint answer(char);\n}\n',
    "runtime/a/far.hpp": "#pragma once\nnamespace vkattn {\nenum : int { kFar = 7 };\n}\n",
    "runtime/a/one.cpp": '''#include "shared.hpp"
#include <dlfcn.h>
#define TWICE(x) (2 * (x))
namespace vkattn {
namespace {
constexpr int kOne = 1, kTwo = 2; // kOne
int helper(int) { return kOne; }
struct Shape {
    int sides = 3;
};
} // namespace
int answer(char) { return 40; }
} // namespace vkattn
extern "C" int first(void) {
    using namespace vkattn;
    return TWICE(helper(0)) + Shape{.sides = 4}.sides + (sizeof "kOne" == 5 ? 100 : 0);
}
''',
    "runtime/b/two.cpp": '''#include "runtime/a/shared.hpp"
#include "runtime/a/far.hpp"
#define TWICE(x) (3 * (x))
namespace vkattn {
namespace {
constexpr int kTwo = 20, kOne = 10;
int helper(int) { return kOne + kTwo; }
struct Shape {};
int answer(int) { return 5; } // here it hides that of shared.hpp
int hidden() { return answer('c'); }
} // namespace
} // namespace vkattn
extern "C" int second(void) {
    using namespace vkattn;
    return TWICE(helper(0)) + Both{.answer = hidden()}.answer + kFar;
}
''',
    "runtime/b/zero.cpp": "namespace vkattn {\nnamespace {\nconstexpr char kFar[] = \"far\";\n} // namespace\nint zero() { return kFar[0]; }\n} // namespace vkattn\n",
    "main.c": '#include <vkattn/vkattn.h>\n#include <stdio.h>\nint main(void) { return printf("%d %d\\n", first(), second()) < 0; }\n',
}


@pytest.mark.skipif(not shutil.which("c++"), reason="no c++")
def test_one_file_is_what_several_are(tmp_path):
    """Names that two files have, members, texts and macros of these names, a header that both include."""
    write(tmp_path, FILES)
    (tmp_path / "out").mkdir()
    done = run(sys.executable, "-B", ROOT / "packaging/amalgamation/amalgamate.py", tmp_path, tmp_path / "generated", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/vkattn.cpp").read_text()
    assert "vkattn 9.8.7" in text and "// A licence" in text and text.count("struct Both") == 1
    assert text.index("// runtime/a/one.cpp") > text.index("// runtime/b/two.cpp")  # which includes what defines macros
    flags = ["-I", tmp_path / "out/include", "-Wall", "-Wextra", "-Werror"]
    one = run("c++", "-std=c++20", *flags, "-c", "out/vkattn.cpp", "-o", "one.o", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    assert run("cc", *flags, "-c", "main.c", cwd=tmp_path).returncode == 0
    assert run("c++", "main.o", "one.o", "-o", "main", cwd=tmp_path).returncode == 0
    assert run(tmp_path / "main").stdout == "106 102\n"


@pytest.mark.parametrize("path, line, words", [
    ("runtime/a/one.cpp", '#include "gone.hpp"\n', "one.cpp includes gone.hpp, which is in none of"),
    ("runtime/b/two.cpp", "int both() { return vkattn::second() + answer('c'); }\n", "two.cpp overloads answer of a header and calls one of them"),
])
def test_what_one_file_cannot_hold_is_named(tmp_path, path, line, words):
    write(tmp_path, FILES | {path: FILES[path] + line})
    (tmp_path / "out").mkdir()
    done = run(sys.executable, "-B", ROOT / "packaging/amalgamation/amalgamate.py", tmp_path, tmp_path / "out")
    assert done.returncode == 1 and words in done.stderr
