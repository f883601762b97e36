"""python3 bench/gpu_lab/ggml_cases.py GPU...: cases of llama.cpp's own test program, drawn at random, on AMD GPUs whose machine code
is executed (scripts/gpu-lab execute). They are a second code base: what ggml gets wrong there is most likely the executor's
fault. Findings in ggml's kernels (races, LDS that nobody wrote) are told, and fail nothing."""
import argparse
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

import ggml_attention  # noqa: E402
import lab  # noqa: E402

OPERATIONS = ("FLASH_ATTN_EXT", "MUL_MAT")
CASE = re.compile(r"^.*?((?:{})\(.*\)): .*?(OK|FAIL|SUPPORTED|not supported|NOT SUPPORTED)".format("|".join(OPERATIONS)))
SETTINGS = "order=random,switch=60,fail=0"


def program():
    return ggml_attention.command(str(lab.ROOT / "scripts/modern-root"), "run")[0]


def known_cases(gpu, operation, program):
    """What the program has of an operation, and its Vulkan backend takes on the GPU."""
    ran = lab.run(gpu, program, "support", "-o", operation, "-b", "Vulkan0")
    found = (CASE.match(line) for line in ran.stdout.splitlines())
    return [match[1] for match in found if match and match[2] == "SUPPORTED"]


def work_of(case):
    """About how many multiplications a case has: the executor does some million wave instructions a second."""
    value = dict(re.findall(r"(\w+)=\[?(\d+)", case))
    numbers = {name: int(number) for name, number in value.items()}
    repeats = [int(x) for x in re.search(r"nr(?:23)?=\[(\d+),(\d+)", case).groups()]
    if case.startswith("MUL_MAT"):
        batch = [int(x) for x in re.search(r"bs=\[(\d+),(\d+)", case).groups()]
        return numbers["m"] * numbers["n"] * numbers["k"] * batch[0] * batch[1] * repeats[0] * repeats[1]
    return (numbers["hsk"] + numbers["hsv"]) * numbers["nh"] * repeats[0] * repeats[1] * numbers["kv"] * max(numbers["nb"], 16)


def draw(cases, number, most_work, seed, pattern=""):
    small = [case for case in cases if re.search(pattern, case) and work_of(case) <= most_work]
    return random.Random(seed).sample(small, min(number, len(small)))


def execute(gpu, cases, seed, program):
    """The program's verdicts by case, and all that it printed."""
    command = [lab.LAB, "execute", gpu, program, "test", "-o", ",".join(cases), "-b", "Vulkan0"]
    settings = f"{SETTINGS},seed={seed}"
    if os.environ.get("VKATTN_EXECUTE"):
        settings += "," + os.environ["VKATTN_EXECUTE"]
    ran = subprocess.run([str(word) for word in command], cwd=lab.ROOT, capture_output=True, text=True, errors="replace",
                         env={**os.environ, "VKATTN_EXECUTE": settings})
    verdicts = {}
    for line in ran.stdout.splitlines():
        match = CASE.match(line)
        if match:
            verdicts[match[1]] = match[2]
    if not verdicts:
        sys.exit(f"{gpu}: test-backend-ops told nothing, status {ran.returncode}: {(ran.stdout + ran.stderr)[-400:]}")
    return verdicts, ran.stdout + ran.stderr


def try_gpu(gpu, arguments):
    """How many cases were right, and those that were not."""
    wrong, tried = [], 0
    for operation in arguments.operations:
        cases = draw(known_cases(gpu, operation, arguments.program), arguments.cases, arguments.most_work, arguments.seed, arguments.pattern)
        for first in range(0, len(cases), 16):
            batch = cases[first:first + 16]
            verdicts, output = execute(gpu, batch, arguments.seed, arguments.program)
            batch = [case for case in batch if verdicts.get(case) != "not supported"]  # by its CPU backend, which it compares with
            tried += len(batch)
            bad = [case for case in batch if verdicts.get(case) != "OK"]
            if bad:
                print("\n".join(line for line in output.splitlines() if "ERR" in line or "not known" in line), file=sys.stderr)
            wrong += bad
            print(f"{gpu}: {operation}, {tried - len(wrong)} of {tried} right", file=sys.stderr, flush=True)
    return tried, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", nargs="+", help="AMD's, of scripts/gpu-lab list")
    parser.add_argument("--cases", type=int, default=32, help="of each operation (default 32)")
    parser.add_argument("--seed", type=int, default=1, help="of the cases and of the waves' order (default 1)")
    parser.add_argument("--most-work", type=float, default=4e6, help="multiplications of a case (default 4e6)")
    parser.add_argument("--pattern", default="", help="only cases that match this regular expression")
    parser.add_argument("--operations", nargs="+", default=OPERATIONS, choices=OPERATIONS)
    parser.add_argument("--program", help="test-backend-ops (default: Debian's); that of integrations/ggml/build has vkattn in it")
    arguments = parser.parse_args()
    arguments.program = arguments.program or program()
    is_right = True
    for gpu in arguments.gpus:
        tried, wrong = try_gpu(gpu, arguments)
        is_right &= not wrong
        print(f"{gpu}: {tried - len(wrong)} of {tried} cases right")
        for case in wrong:
            print(f"  wrong: {case}")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
