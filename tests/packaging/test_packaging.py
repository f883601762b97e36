"""What lies in packaging says of the project what the project says, and is well-formed."""
import ast
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
VERSION = re.search(r"project\(vkattn VERSION ([0-9.]+) ", PROJECT)[1]
ABI = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}.get(platform.machine())


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def cmake(script, *definitions):
    return subprocess.run(["cmake", *(f"-D{definition}" for definition in definitions), "-P", script], capture_output=True, text=True)


def recipe():
    [found] = [node for node in ast.parse(text("packaging/conan/conanfile.py")).body if isinstance(node, ast.ClassDef)]
    return {node.targets[0].id: node.value for node in found.body if isinstance(node, ast.Assign)}


def test_versions_are_the_projects():
    assert json.loads(text("packaging/vcpkg/vcpkg.json"))["version"] == VERSION
    assert ast.literal_eval(recipe()["version"]) == VERSION
    assert re.search(r"^(VKATTN_\S+) \{", text("cmake/exports.map"), re.MULTILINE)[1] == f"VKATTN_{VERSION.rpartition('.')[0]}"


def test_descriptions_and_licences_are_the_projects():
    description = re.search(r'DESCRIPTION "([^"]*)"', PROJECT)[1]
    port = json.loads(text("packaging/vcpkg/vcpkg.json"))
    assert port["description"] == ast.literal_eval(recipe()["description"]) == description
    assert text("LICENSE").startswith(port["license"] + " License\n") and ast.literal_eval(recipe()["license"]) == port["license"]


@pytest.mark.parametrize("path", sorted(PACKAGING.rglob("*.json")), ids=lambda path: path.name)
def test_json_is_json(path):
    assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict)


def test_files_that_are_named_are_there():
    named = {path: re.findall(r"\$\{(?:CURRENT_PORT_DIR|CMAKE_CURRENT_LIST_DIR)\}/([\w./-]+)", text(path))
             for path in ("packaging/vcpkg/portfile.cmake", "packaging/android/package.cmake")}
    named["packaging/conan/test_package/CMakeLists.txt"] = re.findall(r"\w+\.cpp", text("packaging/conan/test_package/CMakeLists.txt"))
    for path, names in named.items():
        assert names, path
        for name in names:
            assert ((ROOT / path).parent / name).exists() or name == "vkattn-", f"{path}: {name}"  # of the tarball


@pytest.mark.parametrize("path", ["packaging/vcpkg/portfile.cmake", "packaging/conan/conanfile.py"])
def test_parts_that_are_left_out_are_options_of_the_project(path):
    parts = set(re.findall(r"VKATTN_BUILD_([A-Z]+)=OFF", text(path)) or ast.literal_eval(re.search(r"for part in (\(.*\)):", text(path))[1]))
    assert parts == set(re.findall(r"option\(VKATTN_BUILD_([A-Z]+) .*\$\{vkattn_is_top_level\}\)", PROJECT))


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """A build folder of the library alone, with an address of the project."""
    folder = tmp_path_factory.mktemp("configured")
    parts = [f"-DVKATTN_BUILD_{part}=OFF" for part in ("TOOLS", "TESTS", "SAMPLES")]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DVKATTN_HOMEPAGE_URL=https://example.org/vkattn", *parts], check=True,
                   capture_output=True)
    return folder


def test_an_address_that_is_given_once_is_in_what_is_packed(configured):
    assert "\nURL: https://example.org/vkattn\nVersion: " in (configured / "vkattn.pc").read_text()
    assert 'set(CPACK_PACKAGE_HOMEPAGE_URL "https://example.org/vkattn")' in (configured / "CPackConfig.cmake").read_text()


def test_no_address_is_claimed_that_nobody_filled_in():
    lines = [line for line in text("packaging/homepage").splitlines() if not line.startswith("#")]
    assert len(lines) <= 1 and all(re.match(r"https://\S+$", line) for line in lines)


def test_uninstall_removes_what_was_installed_and_nothing_else(tmp_path):
    installed = [tmp_path / name for name in ("lib/libvkattn.a", "include/vkattn/results.h", "share/vkattn/vkattn_plot/cli.py")]
    other = tmp_path / "include/other.h"
    for file in (*installed, other):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    manifest = tmp_path / "install_manifest.txt"
    manifest.write_text("\n".join(map(str, [*installed, tmp_path / "lib/gone.a"])))
    result = cmake(ROOT / "cmake/uninstall.cmake", f"MANIFEST={manifest}")
    assert result.returncode == 0 and "removed 3 files" in result.stdout and "gone.a" in result.stdout
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "include", "include/other.h", "install_manifest.txt", "lib", "share"]
    assert "is not there, expected an installation" in " ".join(cmake(ROOT / "cmake/uninstall.cmake", "MANIFEST=/none").stderr.split())


@pytest.fixture
def port(tmp_path):
    """The port in a folder of its own, and a script that runs it with functions that say what vcpkg's were called with."""
    folder = shutil.copytree(PACKAGING / "vcpkg", tmp_path / "vkattn")
    functions = set(re.findall(r"vcpkg_\w+", text("packaging/vcpkg/portfile.cmake")))
    script = tmp_path / "run.cmake"
    script.write_text("".join(
        f'function({name})\n    message(STATUS "{name} ${{ARGN}}")\nendfunction()\n' for name in sorted(functions)) + f"""
set(CURRENT_PORT_DIR "{folder}")
set(CURRENT_PACKAGES_DIR "{tmp_path}/packages")
set(PORT vkattn)
set(VERSION {VERSION})
set(SOURCE_PATH "{ROOT}")
include("{folder}/portfile.cmake")
""")
    return folder, script


def test_the_port_takes_the_tarball_beside_it(port):
    folder, script = port
    (folder / f"vkattn-{VERSION}.tar.xz").touch()
    result = cmake(script)
    assert result.returncode == 0, result.stderr
    calls = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("-- vcpkg_")]
    assert calls == ["vcpkg_extract_source_archive", "vcpkg_cmake_configure", "vcpkg_cmake_install", "vcpkg_copy_pdbs",
                     "vcpkg_cmake_config_fixup", "vcpkg_fixup_pkgconfig", "vcpkg_install_copyright"]
    assert (folder.parent / "packages/share/vkattn/usage").exists()


def test_a_port_without_the_tarball_says_what_is_missing(port):
    result = cmake(port[1])
    assert result.returncode != 0 and f"vkattn-{VERSION}.tar.xz is not there, expected" in " ".join(result.stderr.split())


def archive(output, *, libraries, api="29", ndk="27"):
    return cmake(PACKAGING / "android/package.cmake", f"LIBRARIES={libraries}", f"VERSION={VERSION}", f"API={api}", f"NDK={ndk}",
                 f"OUTPUT={output}")


@pytest.mark.skipif(not ABI, reason="Android has no ABI of this machine")
def test_the_android_archive_has_the_layout_of_prefab(tmp_path):
    library, output = tmp_path / "library.so", tmp_path / "vkattn.aar"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    result = archive(output, libraries=f"{ABI}={library}")
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["library.so", "vkattn.aar"]
    module = "prefab/modules/vkattn"
    folder = f"{module}/libs/android.{ABI}"
    with zipfile.ZipFile(output) as packed:
        names = {name for name in packed.namelist() if not name.endswith("/")}
        headers = {f"{module}/include/vkattn/{path.name}" for path in (ROOT / "include/vkattn").iterdir() if path.stem != "jit"}  # of vkattn_jit
        assert names == headers | {"AndroidManifest.xml", "prefab/prefab.json", f"{module}/module.json",
                                   f"{folder}/abi.json", f"{folder}/libvkattn.so"}
        assert packed.read(f"{folder}/libvkattn.so") == library.read_bytes()
        assert json.loads(packed.read("prefab/prefab.json")) == {
            "schema_version": 2, "name": "vkattn", "version": VERSION, "dependencies": []}
        assert json.loads(packed.read(f"{module}/module.json")) == {"export_libraries": [], "library_name": "libvkattn"}
        assert json.loads(packed.read(f"{folder}/abi.json")) == {
            "abi": ABI, "api": 29, "ndk": 27, "stl": "none", "static": False}
        assert f'android:versionName="{VERSION}"' in packed.read("AndroidManifest.xml").decode()


@pytest.mark.parametrize("words, says", [
    ({"libraries": f"x86_64={ROOT / 'LICENSE'}"}, "is no shared library for x86_64"),
    ({"libraries": "x86_64=/no-such-file"}, "/no-such-file is not there"),
    ({"libraries": "mips=/no-such-file"}, "ABI 'mips', expected arm64-v8a"),
    ({"libraries": "libvkattn.so"}, "expected ABI=LIBRARY"),
    ({"libraries": ""}, "LIBRARIES is not given"),
    ({"libraries": "x86_64=/no-such-file", "api": "P"}, "API: 'P', expected a whole number")])
def test_what_is_no_library_for_android_is_refused(tmp_path, words, says):
    result = archive(tmp_path / "vkattn.aar", **words)
    assert result.returncode != 0 and says in " ".join(result.stderr.split()) and "expected" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("package", ["vkattn_plot", "vkattn_lm"])
def test_the_manual_page_of_a_python_command_tells_of_every_command(package):
    printed = subprocess.run([sys.executable, "-B", "-m", package, "--help"], cwd=ROOT / "python", capture_output=True, text=True,
                             check=True)
    commands = re.findall(r"^    (\w+)(?: |$)", printed.stdout, re.MULTILINE)
    assert len(commands) >= 4
    page = text(f"python/{package.replace('_', '-')}.1")
    assert set(commands) == set(re.findall(r"^\.TP\n\.B (\w+)$", page, re.MULTILINE))
