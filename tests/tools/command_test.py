"""What the command does with files, words and traits. VKATTN_PROGRAM: the command; VKATTN_EMULATOR: what runs it, if anything."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import time

import pytest

PROGRAM = os.environ.get("VKATTN_PROGRAM")
COMMAND = [word for word in (os.environ.get("VKATTN_EMULATOR"), PROGRAM) if word]
ON_WINDOWS = PROGRAM is not None and PROGRAM.endswith(".exe")
CASE = pathlib.Path(__file__).parents[1] / "data/ref001_sdpa.safetensors"
pytestmark = pytest.mark.skipif(not PROGRAM, reason="VKATTN_PROGRAM names no command")


def run(*words, **environment):
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def refused(*words, says, **environment):
    """The one line with which the command refuses."""
    result = run(*words, **environment)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("vkattn: error: ") and result.stderr.count("\n") == 1
    assert says in result.stderr and "expected" in result.stderr, result.stderr
    return result


@pytest.mark.parametrize("option", ["-o", "--saved"])
def test_other_peoples_files_are_left_as_they_are(tmp_path, option):
    theirs = tmp_path / "theirs.safetensors"
    shutil.copy(CASE, theirs)
    refused("run", CASE, option, theirs, says="holds something else")
    assert theirs.read_bytes() == CASE.read_bytes()
    assert os.listdir(tmp_path) == ["theirs.safetensors"]


def test_the_output_is_no_other_file_of_the_command(tmp_path):
    case = tmp_path / "case.safetensors"
    shutil.copy(CASE, case)
    refused("run", case, "-o", case, says="of the same command")
    refused("run", case, "-o", tmp_path / "new", "--saved", tmp_path / "." / "new", says="of the same command")
    assert case.read_bytes() == CASE.read_bytes()


def test_own_and_empty_files_are_written_anew(tmp_path):
    output, saved = tmp_path / "output", tmp_path / "saved"
    output.touch()
    for _ in range(2):
        assert run("run", CASE, "-o", output, "--saved", saved).returncode == 0
    assert b"expected" not in output.read_bytes() and b"output" in output.read_bytes()
    damaged = bytearray(saved.read_bytes())
    damaged[-1] ^= 1
    saved.write_bytes(damaged)
    result = run("check", CASE, "--saved", saved)
    assert result.returncode == 0 and "warning: saved_data: damaged, ignored" in result.stderr
    assert saved.read_bytes() != damaged


@pytest.mark.parametrize("option", ["-o", "--saved"])
@pytest.mark.parametrize("name", ["", "no-folder/file", *([] if ON_WINDOWS else ["/dev/null", "/dev/zero", "fifo"])])
def test_names_that_nothing_can_be_written_to_are_refused_before_anything_is_done(tmp_path, monkeypatch, option, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    result = refused("run", CASE, option, name, says=name or "is empty")
    assert result.stdout == ""


def test_tune_looks_at_its_file_before_it_measures(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("a letter")
    for saved in (theirs, tmp_path / "no-folder" / "saved"):
        assert refused("tune", "--heads", 2, "--kv-len", 64, "--saved", saved, says=str(saved)).stdout == ""
    assert theirs.read_text() == "a letter"


def test_bare_vkattn_prints_its_help():
    result = run()
    assert result.returncode == 0 and "bench" in result.stdout and "selftest" in result.stdout and result.stderr == ""


def test_the_manual_page_is_what_the_command_says_of_itself():
    page = (pathlib.Path(__file__).parents[2] / "tools/vkattn.1").read_text(encoding="utf-8")
    assert run("--help-man").stdout == page, "expected what 'vkattn --help-man >tools/vkattn.1' writes"
    commands = re.findall(r"^  ([\w-]+) ", re.split("subcommands:", run().stdout, flags=re.IGNORECASE)[1], re.MULTILINE)
    assert commands and commands == re.findall(r"^\.SS vkattn ([\w-]+)$", page, re.MULTILINE)
    assert page.count("Examples:") == len(commands)


def test_the_examples_of_the_manual_page_take_options_that_there_are():
    page = (pathlib.Path(__file__).parents[2] / "tools/vkattn.1").read_text(encoding="utf-8").replace("\\-", "-")
    commands, _, common = page.partition(".SH OPTIONS OF EVERY COMMAND")
    for section in commands.split(".SS vkattn ")[1:]:
        examples = re.findall(r"^vkattn .*$", section, re.MULTILINE)
        assert examples, section
        for example in examples:
            for option in re.findall(r" (--?[a-z][a-z-]*)", example.split("|")[0]):
                assert re.search(rf"^\.B (.*,)?{option}\b", section + common, re.MULTILINE), example


@pytest.mark.parametrize("words, said", [
    (("bench", "--head", 4), "did you mean --heads or --head-dim?"),
    (("estimate", "gqa-8", "--contxt", "8k"), "did you mean --context?"),
    (("run", "x.safetensors", "--zzz"), "'--zzz' is no option of run, expected what 'vkattn run --help' lists"),
    (("bench", "--seconds", "x"), "expected what 'vkattn bench --help' lists"),
    (("--zzz",), "'vkattn --help'"),
    (("benhc",), "'benhc' is no command (did you mean bench?), expected one of devices, run,"),
    (("dance",), "'dance' is no command, expected one of devices, run,"),
    (("estimate", "mamba"), 'mamba: variant "mamba" is unknown, expected mha, mqa')])
def test_an_unknown_option_is_named_with_its_like_and_the_help_to_read(words, said):
    refused(*words, says=said)


def test_a_name_that_begins_with_a_slash_is_a_file(tmp_path):
    assert str(CASE.resolve()).startswith("/")
    assert run("check", CASE.resolve()).returncode == 0
    assert run("run", CASE.resolve(), "-o", tmp_path / "output").returncode == 0
    refused("check", "/no-such-file", says="/no-such-file: ")


def test_a_kernel_that_is_none_is_told_those_that_there_are():
    said = refused("plan", "--kernel", "coopmat3", says="no such kernel").stderr
    assert "coopmat, coopmat2, " in said


@pytest.mark.parametrize("words, says", [
    (("bench", "--input-norm"), "--input-norm: given with attention, expected it with --op linear"),
    (("bench", "--len", "4k"), "--len: given with attention, expected it with --variants"),
    (("bench", "--op", "linear", "--index", 8), "--index: given with --op linear, expected it with attention"),
    (("bench", "--op", "linear", "--kv-len", 8, "--rows", 4), "--kv-len: given with --op linear, expected it with attention or --index"),
    (("bench", "--op", "linear_attention", "--backward"), "--backward: given with --op linear_attention, expected it with attention or --op linear"),
    (("bench", "--index", 8, "--key-list", 4), "--key-list: given with --index, expected it with attention"),
    (("bench", "--variants", "mha", "--q-len", 8), "--q-len: given with --variants, expected it with attention or --index or --op linear_attention"),
    (("bench", "--op", "linear", "--kernel", "coopmat"), "--kernel: given with --op linear, expected it with attention or --variants"),
    (("bench", "--visible-blocks", 50), "--visible-blocks requires --block-mask"),
    (("bench", "--op", "rows"), "--op rows: not supported by bench, expected attention or linear or linear_attention"),
    (("plan", "--weight-dtype", "q8_0"), "--weight-dtype: given with attention, expected none by plan"),
    (("plan", "--op", "linear", "--rows", 3), "--op linear: not supported by plan, expected attention"),
    (("bench", "--variants", "mha", "--roofline"), "--roofline: given with --variants, expected it with attention or --index or --op linear or --op linear_attention"),
    (("bench", "--variants", "mha", "--csv"), "--csv: given with --variants"),
    (("tune", "--op", "linear", "--batch", 2), "--batch: given with --op linear, expected it with attention or --index"),
    (("shaders", "--rows", 4), "--rows: given with attention, expected it with --op linear"),
    (("tune", "--op", "linear", "--causal"), "--causal: given with --op linear, expected it with attention or --index"),
])
def test_what_is_of_another_operation_is_refused(words, says):
    refused(*words, says=says)


def test_what_no_operation_of_a_command_takes_is_no_option_of_it():
    refused("tune", "--op", "linear", "--input-norm", says="'--input-norm' is no option of tune")


def test_an_unknown_word_is_named():
    refused("bnech", says="'bnech'")
    refused("bnech", "--heads", 8, says="'bnech'")


@pytest.mark.parametrize("words", [("devices",), ("check", CASE), ("estimate", "gqa-2", "--d-model", 64, "--heads", 4)])
def test_unknown_traits_are_refused(words):
    refused(*words, says='VKATTN_DEVICE_TRAITS: "speed" is unknown', VKATTN_DEVICE_TRAITS="speed=9")


def test_selftest_prints_as_it_goes():
    process = subprocess.Popen([*COMMAND, "selftest"], stdout=subprocess.PIPE, bufsize=0,
                               env={**os.environ, "MESA_SHADER_CACHE_DISABLE": "true"})
    arrivals = []
    while line := process.stdout.readline():
        arrivals.append((time.monotonic(), line))
    assert process.wait() == 0
    verdicts = [at for at, line in arrivals if b" PASS " in line]
    assert len(verdicts) >= 6 and verdicts[-1] - verdicts[0] > 0.1, arrivals  # the others are computed meanwhile
    places = [re.match(rb" *(\d+) of (\d+)  ", line).groups() for _, line in arrivals if b" PASS " in line]
    assert [int(number) for number, _ in places] == list(range(1, len(places) + 1)), arrivals
    assert int(places[0][1]) >= len(places), arrivals
    assert arrivals[-1][1].endswith(b" passed, 0 failed\r\n" if ON_WINDOWS else b" passed, 0 failed\n")


def test_memory_says_what_it_leaves_out():
    result = run("estimate", "gqa-2", "--d-model", 512, "--heads", 8, "--memory", "2GiB")
    line = next(line for line in result.stdout.splitlines() if "fit" in line and line.startswith("In "))
    assert all(word in line for word in ("feed-forward", "embeddings", "activations")), line


@pytest.mark.skipif(ON_WINDOWS, reason="Wine draws its console anew, with lines in pieces")
@pytest.mark.parametrize("words, said", [
    (("--head-dim", 16, "--kv-len", "16,32"), ["q_len 1, kv_len 16 (1 of 2): 1 / 1 runs", "q_len 1, kv_len 32 (2 of 2), about "]),
    (("--variants", "mha,mqa", "--d-model", 32, "--len", 16), ["mha (1 of 2): 1 / 1 runs", "mqa (2 of 2), about "])])
def test_bench_says_on_a_terminal_what_it_does_and_how_long_it_takes(words, said):
    main, terminal = pty.openpty()
    process = subprocess.Popen([*COMMAND, "bench", "--heads", "2", "--repeat", "1", *map(str, words)],
                               stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    lines = b""
    try:
        while piece := os.read(main, 4096):
            lines += piece
    except OSError:  # the other side is closed
        pass
    os.close(main)
    table = process.communicate()[0].decode()
    assert process.returncode == 0 and "32" in table and "runs" not in table
    for text in said:
        assert text in lines.decode(), lines


def test_a_report_holds_the_device_and_what_was_measured(tmp_path):
    report = tmp_path / "report.json"
    result = run("tune", "--heads", 2, "--kv-len", 64, "--head-dim", 32, "--report", report)
    assert result.returncode == 0, result.stderr
    written = json.loads(report.read_text())
    assert written["format"] == "vkattn tune report 1"
    assert written["device"]["driver_info"] and not {"index", "device_uuid", "driver_uuid"} & set(written["device"])
    [problem] = written["problems"]
    assert "2 query heads" in problem["problem"]
    assert any(candidate["kept"] and candidate["milliseconds"] > 0 for candidate in problem["candidates"])


def test_gradients_are_tuned_by_rows_of_queries_and_of_keys(tmp_path):
    report = tmp_path / "report.json"
    result = run("tune", "--backward", "--heads", 2, "--q-len", 40, "--kv-len", 64, "--head-dim", 16, "--dtype", "f32", "--report", report)
    assert result.returncode == 0, result.stderr
    queries, keys = json.loads(report.read_text())["problems"]
    assert queries["problem"].endswith("gradients: d_query") and keys["problem"].endswith("gradients: d_key and d_value")
    for problem, shader in ((queries, "backward_queries"), (keys, "backward_keys")):
        assert all(candidate["tile"].startswith(shader) for candidate in problem["candidates"])
        assert [candidate["kept"] for candidate in problem["candidates"]].count(True) == 1
    refused("tune", "--backward", "--op", "linear", says="--backward: given with --op linear, expected attention")


def test_a_report_is_a_new_file(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.touch()
    for report in (theirs, tmp_path / "no-folder" / "report.json", ""):
        assert refused("tune", "--kv-len", 64, "--report", report, says=str(report) or "is empty").stdout == ""
