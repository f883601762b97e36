import json
import os
import shlex
import subprocess

import pytest

GPUS = ["polaris10", "vega10", "navi21", "navi31", "gfx1201"]


class Executor:
    """execute_instructions of one GPU, a question a line."""

    def __init__(self, gpu):
        command = shlex.split(os.environ["VKATTN_EXECUTE_INSTRUCTIONS"])
        self.gpu = gpu
        self.generation = dict(zip(GPUS, (8, 9, 10, 11, 12)))[gpu]
        self.lanes = 32 if self.generation >= 10 else 64
        self.process = subprocess.Popen(command + [gpu], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, code, **problem):
        problem = {"code": code, "lanes": self.lanes, **problem}
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"execute_instructions ended at: {code}"
        answer = json.loads(line)
        assert "error" not in answer, f"{code}: {answer['error']}"
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="session")
def executors():
    if "VKATTN_EXECUTE_INSTRUCTIONS" not in os.environ:
        pytest.skip("VKATTN_EXECUTE_INSTRUCTIONS is not set, expected the command that runs execute_instructions")
    running = {gpu: Executor(gpu) for gpu in GPUS}
    yield running
    for executor in running.values():
        executor.close()


@pytest.fixture(params=GPUS)
def executor(request, executors):
    return executors[request.param]
