"""python3 integrations/ggml/texts.py LLAMA_SIMPLE FOLDER [FILE.gguf...]: greedy text by vkattn's attention alone and by ggml's shaders
alone, which must be the same to the letter: of the files, or of those models that FOLDER/models holds (integrations/ggml/fetch --models).
Exit 77: there is none."""
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import llama_cpp  # noqa: E402

SHORT = "The history of the city of Lisbon begins"
LONG = (ROOT / "docs/caches.md").read_text(encoding="utf-8")[:1900]  # beyond Gemma's window of 512 tokens


def model_files(folder):
    """(name, file, texts with numbers of tokens) of each model that is there."""
    sys.path.insert(0, str(folder / "models"))
    found = []
    for name, find, texts in (("SmolLM2-135M, Q4_1", llama_cpp.smollm2, [(SHORT, 48)]),
                              ("Gemma 3 270m, Q4_K_M", lambda: llama_cpp.gemma3(folder), [(SHORT, 32), (LONG, 8)])):
        try:
            found.append((name, find(), texts))
        except llama_cpp.Missing as reason:
            print(f"{name}: {reason}")
    return found


def text_of(program, file, prompt, count, side):
    """What the program writes, by one side's attention."""
    ran = subprocess.run([program, "-m", file, "-n", str(count), "-ngl", "99", prompt], capture_output=True,
                         env={**os.environ, side: "1"})
    said = ran.stderr.decode(errors="replace")
    if ran.returncode != 0 or "Flash Attention enabled" not in said:
        sys.exit(f"{program} with {side}: status {ran.returncode}, expected 0 and 'Flash Attention enabled': {said[-2000:]}")
    return ran.stdout.decode(errors="replace")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, folder, files = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    models = [(file, file, [(SHORT, 48)]) for file in files] or model_files(folder)
    if not models:
        print("no model, expected a file or what integrations/ggml/fetch --models gets")
        sys.exit(77)
    differing = 0
    for name, file, texts in models:
        for prompt, count in texts:
            start = time.monotonic()
            ours, theirs = (text_of(program, file, prompt, count, side) for side in ("GGML_VK_FORCE_VKATTN", "GGML_VK_DISABLE_VKATTN"))
            what = f"{name}, {count} tokens after a prompt of {len(prompt)} characters"
            if ours == theirs and len(ours) > len(prompt):
                print(f"{what}: the same by vkattn and by ggml's shaders, {time.monotonic() - start:.0f} s", flush=True)
            else:
                differing += 1
                print(f"failed: {what}:\n--- by vkattn\n{ours}\n--- by ggml's shaders\n{theirs}", flush=True)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
