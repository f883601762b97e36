"""Which stages of CI run: .ci/choose by the table .ci/paths."""
import fnmatch
import os
import re
import shutil
import subprocess

import pytest
from repository import ROOT, tracked

STAGES = re.findall(r'^    "(\S+) ', (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
LINES = [line for line in (ROOT / ".ci/paths").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
SETS = dict(line.split(" = ", 1) for line in map(lambda line: re.sub(r" +", " ", line), LINES) if " = " in line)
ROWS = [line.split(maxsplit=1) for line in LINES if " = " not in line]


def row_of(path):
    """The first whose pattern matches, as the shell does: * matches / as well."""
    return next((pattern for pattern, _ in ROWS if fnmatch.fnmatchcase(path, pattern)), None)


def choose(folder, *paths, **environment):
    """(stages, what it said why)"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VKATTN_CI_", "GIT_"))}
    done = subprocess.run([folder / ".ci/choose", *paths], env=clean | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split()), done.stderr


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", *words], cwd=folder, check=True,
                   capture_output=True)


def head(folder):
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def write(folder, path, text):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


@pytest.fixture
def landed(tmp_path):
    """A clone of what has landed, on a branch."""
    origin = tmp_path / "origin"
    shutil.copytree(ROOT / ".ci", origin / ".ci")
    for path in ("README.md", "runtime/vulkan/context.cpp", "shaders/attention/flash.comp"):
        write(origin, path, "landed\n")
    git(origin, "init", "-q", "-b", "main")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "landed")
    git(tmp_path, "clone", "-q", "origin", "change")
    git(tmp_path / "change", "checkout", "-q", "-b", "change")
    return tmp_path / "change"


def commit(folder, path):
    write(folder, path, "changed\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", path)


def test_every_file_has_a_row_and_every_row_a_file():
    rows = {path: row_of(path) for path in tracked()}
    assert [path for path, row in rows.items() if row is None] == [], "expected a row of .ci/paths"
    assert [pattern for pattern, _ in ROWS if pattern not in rows.values()] == [], "rows of .ci/paths that no file has"


def test_rows_name_stages_and_rows_name_every_stage():
    named = {word for _, words in ROWS for word in words.split()}
    assert named - set(SETS) - set(STAGES) == {"all"}
    stages = {stage for words in SETS.values() for stage in words.split()} | named - set(SETS) - {"all"}
    assert stages == set(STAGES)
    assert sorted(path.stem for path in (ROOT / ".ci/stages").iterdir()) == sorted(STAGES)


def test_debian_testing_has_the_library_that_another_stage_leaves():
    for pattern, words in ROWS:
        stages = {stage for word in words.split() for stage in SETS.get(word, word).split()}
        assert "debian_testing" not in stages or stages & {"documentation", "lavapipe"}, pattern


@pytest.mark.parametrize("path", ["a_new_folder/file.cpp", ".ci/run", "CMakeLists.txt", "tests/CMakeLists.txt", "scripts/compile"])
def test_what_is_unknown_and_what_builds_runs_all(path):
    assert choose(ROOT, "README.md", path)[0] == {"all"}


def test_documents_and_kernels_run_what_can_fail_of_them():
    assert choose(ROOT, "README.md", "docs/guide.md", "bench/results/gpu-h100.md")[0] == {"format", "documentation"}
    kernels = choose(ROOT, "shaders/attention/flash.comp")[0]
    assert {"lavapipe", "gpu_lab", "executed_gpus", "simulated_devices"} <= kernels and "sanitizers" not in kernels
    assert {"sanitizers", "threads", "clang_tidy", "executed_gpus"} <= choose(ROOT, "runtime/vulkan/context.cpp")[0]


def test_integrations_run_with_what_they_stand_on():
    assert choose(ROOT, "integrations/README.md")[0] == {"format", "documentation"}
    assert choose(ROOT, "integrations/ggml/CMakeLists.txt", "integrations/ggml/test")[0] == {"format", "integrations"}
    for path in ("include/vkattn/vkattn.h", "runtime/plan/plan.cpp", "shaders/kernels/flash.comp", "shaders/interface/rows.h"):
        assert "integrations" in choose(ROOT, path)[0], path
    assert "integrations" not in choose(ROOT, "docs/guide.md", "tools/vkattn.1", "python/vkattn/context.py")[0]


def test_what_has_landed_is_told_by_origin(landed):
    commit(landed, "runtime/vulkan/context.cpp")
    commit(landed, "README.md")
    stages, why = choose(landed)
    assert {"sanitizers", "documentation"} <= stages and "(origin/HEAD): 2;" in why
    stages, why = choose(landed, VKATTN_CI_SINCE="HEAD~1")
    assert stages == {"format", "documentation"} and "(VKATTN_CI_SINCE): 1;" in why


def test_a_merge_is_all_that_it_brings(landed):
    git(landed, "checkout", "-q", "-b", "other", "origin/main")
    commit(landed, "shaders/attention/flash.comp")
    git(landed, "checkout", "-q", "change")
    commit(landed, "README.md")
    git(landed, "merge", "-q", "--no-ff", "-m", "both", "other")
    assert {"documentation", "gpu_lab"} <= choose(landed)[0]


def test_what_is_not_committed_and_what_is_gone_counts(landed):
    write(landed, "docs/new.md", "new\n")
    assert choose(landed)[0] == {"format", "documentation"}
    git(landed, "mv", "shaders/attention/flash.comp", "docs/flash.md")
    assert "gpu_lab" in choose(landed)[0]
    git(landed, "mv", "docs/flash.md", "elsewhere")
    assert choose(landed)[0] == {"all"}


def test_where_nothing_tells_what_has_landed_all_runs(landed, tmp_path):
    assert choose(landed) == ({"all"}, f"every stage: nothing has changed since {head(landed)[:12]} (origin/HEAD)\n")
    commit(landed, "README.md")
    git(landed, "remote", "remove", "origin")
    git(landed, "branch", "-D", "main")
    assert choose(landed)[0] == {"all"}
    git(landed, "branch", "-m", "main")  # of one's own
    assert choose(landed)[0] == {"all"}
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{landed}", "shallow")
    git(tmp_path / "shallow", "checkout", "-q", "--detach")
    assert choose(tmp_path / "shallow")[0] == {"all"}
    shutil.rmtree(landed / ".git")
    assert choose(landed, GIT_CEILING_DIRECTORIES=str(tmp_path))[0] == {"all"}


def test_words_name_stages():
    for words in (["nonsense"], ["format", "0"]):
        done = subprocess.run([ROOT / ".ci/run", *words], capture_output=True, text=True)
        assert done.returncode == 2 and f"stage '{words[-1]}', expected all, a number from 1 to {len(STAGES)}, or one of" in done.stderr
