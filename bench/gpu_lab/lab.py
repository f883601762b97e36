"""Runs commands on the GPUs of scripts/gpu-lab."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "scripts/gpu-lab"
BUILD = ROOT / "build-modern"
BUILD_ARM64 = ROOT / "build-aarch64-linux-gnu"  # for drivers that are for that processor alone
LONGEST_SECONDS = 300  # of one problem on one GPU


def run(gpu, *command, input="", problems=1):
    """The finished command; fails with subprocess.TimeoutExpired. gpu: a name of scripts/gpu-lab list. input: what it reads.
    problems: how many it compiles."""
    return subprocess.run([str(word) for word in (LAB, "run", gpu, *command)], cwd=ROOT, capture_output=True, text=True,
                          errors="replace", input=input, timeout=LONGEST_SECONDS * problems)


def execute(gpu, *command, settings, environment=(), longest_seconds=None):
    """The finished command, its submissions executed (scripts/gpu-lab execute). settings: of VKATTN_EXECUTE, by name;
    environment: more variables, by name. After longest_seconds it is ended, with all that it started."""
    words = [str(word) for word in (LAB, "execute", gpu, *command)]
    settings_words = ",".join(f"{name}={value}" for name, value in settings.items())
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          env={**os.environ, **dict(environment), "VKATTN_EXECUTE": settings_words},
                          start_new_session=True) as running:
        try:
            output, errors = running.communicate(timeout=longest_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(words, running.returncode, output, errors)


def run_under_layer(gpu, *command, input=""):
    """The same under the statistics layer, and its records (pipeline_record.hpp) of the pipelines that the command made.
    Apple's driver hands out no code: it prints it, and the layer reads that."""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        file = pathlib.Path(folder) / "pipelines.jsonl"
        ran = run(gpu, "env", f"VK_LAYER_PATH={BUILD / 'bench/gpu_lab'}", "VK_INSTANCE_LAYERS=VK_LAYER_VKATTN_statistics",
                  f"VKATTN_STATISTICS_FILE={file}", "AGX_MESA_DEBUG=shaders", *command, input=input)
        return ran, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
