import json
import os
import re
import shlex
import subprocess

import pytest

GPUS = ["polaris10", "vega10", "navi21", "navi31", "gfx1201"]


LLVM_REFUSES = 1  # exit status


class EndedError(Exception):
    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def table_name(name):
    return re.sub("^v_dual_", "v_", re.sub("(_e32|_e64|_e64_dpp|_dpp|_sdwa)$", "", name))


class Executor:
    """execute_instructions of one GPU, a question a line."""

    def __init__(self, gpu):
        command = shlex.split(os.environ["VKATTN_EXECUTE_INSTRUCTIONS"])
        self.gpu = gpu
        self.generation = dict(zip(GPUS, (8, 9, 10, 11, 12)))[gpu]
        self.lanes = 32 if self.generation >= 10 else 64
        self.command = command + [gpu]
        self.refused = set()  # code that the assembler does not take
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    executed = set()  # of all GPUs, by the names of the table

    def run(self, code, **problem):
        answer = self.ask(code=code, **{"lanes": self.lanes, **problem})
        assert "error" not in answer, f"{code}: {answer['error']}"
        return answer

    def attempt(self, code, **problem):
        """None where the assembler says that this GPU has no such instruction, with which LLVM ends its process."""
        if code in self.refused:
            return None
        try:
            return self.run(code, **problem)
        except EndedError as ended:
            if ended.status != LLVM_REFUSES:
                raise
            self.refused.add(code)
            return None

    def ask(self, **problem):
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            message = self.process.stderr.read()
            status = self.process.wait()
            self.start()  # for the next question
            raise EndedError(f"execute_instructions ended at {problem.get('code')}: {message}", status)
        answer = json.loads(line)
        Executor.executed |= {table_name(name) for name in answer.get("executed", [])}
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
