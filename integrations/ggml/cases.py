"""python3 integrations/ggml/cases.py PROGRAM [--products] [--seconds S] [--seed N] [--all [--kept FILE]]: cases of attention of
test-backend-ops, or of MUL_MAT, drawn at random until the time is over, by vkattn alone (GGML_VK_FORCE_VKATTN). Attention that it refuses and
ggml's own shaders take fails; products it takes by one matrix. Needs nothing but Python."""
import argparse
import hashlib
import os
import pathlib
import random
import re
import subprocess
import sys
import time

CASE = re.compile(r"((?:FLASH_ATTN_EXT|MUL_MAT)\(.*\)): .*?(OK|FAIL|not supported|SUPPORTED|NOT SUPPORTED)")
BATCH = 12  # cases of a process


def ask(program, mode, cases, environment):
    """The program's verdict of each case, and all that it printed."""
    command = [program, mode, "-o", ",".join(cases), "-b", "Vulkan0"]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", env={**os.environ, **environment})
    # colours lie between the case and its verdict
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    return {match[1]: match[2] for match in map(CASE.search, plain.splitlines()) if match}, plain + ran.stderr, ran.returncode


def supported(program, operation, environment):
    verdicts, output, status = ask(program, "support", [operation], environment)
    if not verdicts and status == 0 and "Vulkan0" not in output:
        sys.exit(f"{program}: has no Vulkan device, expected one; a CPU driver where GGML_VK_VISIBLE_DEVICES=0 names it")
    if not verdicts:
        sys.exit(f"{program}: names no case of {operation}, status {status}: {output[-2000:]}")
    return {case for case, verdict in verdicts.items() if verdict == "SUPPORTED"}


def kept_cases(file, program):
    """The cases that an earlier run of the same build found right; of another build the file begins anew."""
    library = next(pathlib.Path(program).parent.glob("libggml-vulkan.so"), None)
    build = hashlib.sha256(library.read_bytes()).hexdigest() if library else "unknown"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if build == "unknown" or lines[:1] != [build]:
        file.write_text(build + "\n", encoding="utf-8")
        return set()
    return set(lines[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="test-backend-ops")
    parser.add_argument("--products", action="store_true", help="MUL_MAT in place of attention")
    parser.add_argument("--seconds", type=float, default=60, help="how long cases are begun (default 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the draw (default: any)")
    parser.add_argument("--validated", action="store_true", help="a message of Vulkan's validation layer fails")
    parser.add_argument("--all", action="store_true", help="every case, however long it takes")
    parser.add_argument("--kept", type=pathlib.Path, help="a file of the cases that were right, which a run that was ended goes on after")
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        sys.exit(f"integrations/ggml/cases.py: {arguments.program} cannot be run, expected test-backend-ops")

    operation = "MUL_MAT" if arguments.products else "FLASH_ATTN_EXT"
    by_ggml = supported(arguments.program, operation, {"GGML_VK_DISABLE_VKATTN": "1"})
    by_vkattn = supported(arguments.program, operation, {"GGML_VK_FORCE_VKATTN": "1"})
    if not by_vkattn or by_vkattn == by_ggml:  # vkattn has head sizes that ggml has not
        sys.exit(f"{len(by_vkattn)} cases are vkattn's, {len(by_ggml)} ggml's: is vkattn in this build, and takes the device?")
    failed = sorted(by_ggml - by_vkattn)
    print(f"{operation}: {len(by_vkattn)} cases are vkattn's, {len(by_ggml)} ggml's, {len(failed)} ggml's alone", flush=True)
    if arguments.products:
        failed = []

    cases = random.Random(arguments.seed).sample(sorted(by_vkattn), len(by_vkattn))
    print(f"seed {arguments.seed}", flush=True)
    if arguments.kept:
        kept = kept_cases(arguments.kept, arguments.program)
        cases = [case for case in cases if case not in kept]
        print(f"{len(kept)} were right before, in {arguments.kept}", flush=True)
    start, tried, wrong = time.monotonic(), 0, []
    while cases and (arguments.all or time.monotonic() - start < arguments.seconds):
        batch, cases = cases[:BATCH], cases[BATCH:]
        verdicts, output, status = ask(arguments.program, "test", batch, {"GGML_VK_FORCE_VKATTN": "1"})
        bad = [case for case in batch if verdicts.get(case) != "OK"]
        if arguments.validated and re.search("VUID-|SYNC-HAZARD|Validation Error", output):
            bad = batch
        if bad:
            print(output[-4000:], file=sys.stderr)
        if status != 0 and not bad:
            bad = [f"status {status} of {len(batch)} cases that are right"]
        if arguments.kept:
            with arguments.kept.open("a", encoding="utf-8") as file:
                file.writelines(f"{case}\n" for case in batch if case not in bad)
        tried += len(batch)
        wrong += bad
    for case in failed + wrong:
        print(f"failed: {case}")
    print(f"{tried} cases run in {time.monotonic() - start:.0f} s: {tried - len(wrong)} ok, {len(wrong)} failed")
    sys.exit(1 if failed or wrong else 0)


if __name__ == "__main__":
    main()
