"""What the command prints, made up, as JSON files in a folder of the test's own."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from vkattn_plot.__main__ import main  # noqa: E402: after the path is set


def point(kv_len, q_len=1, peaks=True, **others):
    """Of a device with 1 TFLOP/s and 100 GB/s; a run takes twice what they allow."""
    flops, size = 4e6 * kv_len * q_len, 1e6 * kv_len
    bound = max(flops / 1e12, size / 1e11) * 1e3
    record = {"device": "Device <X> & Co", "driver": "driver 1", "batch": 1, "q_len": q_len, "kv_len": kv_len,
              "kernel": "decode" if kv_len < 4096 else "flash", "clock": "gpu", "median_ms": 2 * bound,
              "gflops": flops / (2 * bound) / 1e6, "gbytes_per_s": size / (2 * bound) / 1e6, "op": "attention",
              "problem": "8 heads", "flops": flops, "bytes": size}
    if peaks:
        record |= {"peak_gflops": 1000.0, "peak_matrix_gflops": 4000.0, "peak_gbytes_per_s": 100.0,
                   "percent_of_roofline": 50.0, "bound_ms": bound, "bound_by": "memory"}
    return record | others


def variant(name, milliseconds):
    return {"variant": name, "clock": "gpu", "prefill_median_ms": milliseconds, "prefill_kernel": "flash",
            "decode_median_ms": milliseconds / 10, "decode_kernel": "decode", "parameters": 10**6,
            "cache_bytes_per_token": 4096}


def estimated(name, cache):
    return {"name": name, "op": "mha", "num_layers": 2, "batch": 1, "context_len": 32768, "weight_type": "f16",
            "cache_type": "f16", "parameters": 10**9, "cache_bytes_per_token": cache, "cache_bytes": cache * 32768,
            "memory_bytes": 2**31}


SWEEP = [point(1024 << step) for step in range(4)]
VARIANTS = {"device": "Device <X> & Co", "driver": "driver 1", "d_model": 64, "heads": 4, "len": 128, "batch": 1,
            "dtype": "f16", "variants": [variant("mha", 9.0), variant("mqa", 7.0)]}
ESTIMATE = {"estimates": [estimated("a<b&\"c\"", 8192), estimated("mla", 1152), estimated("encoder", 0)],
            "notes": [], "verdict": ["a<b fits."]}
WEIGHTS = {"name": "a case", "device": "Device <X> & Co", "kernel": "unfused", "sequence": 0, "batch": 1, "heads": 2,
           "queries": 2, "keys": 3, "query_labels": ["the", "end"], "key_labels": ["In", "the", "end"],
           "panels": [{"title": f"head {head}", "weights": [[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]} for head in range(2)]}
DEVICES = [{"name": "Device <X> & Co", "driver_name": "driver", "driver_info": "1", "subgroup_size": 32,
            "kernels": [{"name": "flash", "supported": True, "reason": ""},
                        {"name": "coopmat", "supported": False, "reason": "no matrix units"}]}]
LOSSES = {"model": "a<b.gguf", "device": "Device <X> & Co", "tokens_of_step": 1024,
          "losses": [{"step": step, "loss": 4.0 - step / 50, "learning_rate": 0.01} for step in range(1, 41)],
          "held_out": [{"step": 0, "loss": 4.5}, {"step": 40, "loss": 3.5}]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a file of each kind."""
    monkeypatch.chdir(tmp_path)
    for name, content in (("sweep", SWEEP), ("variants", VARIANTS), ("estimate", ESTIMATE), ("weights", WEIGHTS), ("losses", LOSSES),
                          ("devices", DEVICES), ("one", point(4096)), ("plain", point(4096, peaks=False))):
        save(tmp_path / f"{name}.json", content)
    return tmp_path


def save(path, content):
    path.write_text(json.dumps(content))
    return path.name


@pytest.fixture
def refused(folder, capsys):
    """Runs vkattn-plot, which must say why not, in one line, and write nothing; returns the line."""
    def run(*words):
        before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("vkattn-plot: error: ") and said.err.count("\n") == 1
        assert "expected" in said.err
        assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
        return said.err
    return run
