"""Models that the sample textgen cannot run are refused by name. TEXTGEN: the program."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

PROGRAM = os.environ.get("TEXTGEN")
MODEL = pathlib.Path(__file__).parents[2] / "samples/textgen/models/gqa"
pytestmark = pytest.mark.skipif(not PROGRAM, reason="TEXTGEN names no program")


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(MODEL, tmp_path / "model")


def run(model, *words):
    return subprocess.run([PROGRAM, "--model", model, "--tokens", "2", *words], capture_output=True, text=True, timeout=300)


def refused(model, says, *words):
    result = run(model, *words)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("textgen: error: ") and result.stderr.count("\n") == 1
    assert says in result.stderr and "expected" in result.stderr, result.stderr


def test_a_copy_of_a_model_writes_text(model):
    result = run(model)
    assert result.returncode == 0 and result.stdout.startswith("And the LORD said unto")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "vocab.json"])
def test_a_tokenizer_of_its_own_is_named(model, name):
    (model / name).write_text("{}")
    refused(model, name)


@pytest.mark.parametrize("key, value", [("model_type", "gemma"), ("model_type", "qwen3"), ("mlp_bias", True),
                                        ("hidden_act", "gelu"), ("quantization_config", {"quant_method": "fp8"})])
def test_what_the_config_asks_for_is_named(model, key, value):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, key: value}))
    refused(model, f"'{key}'")


def edit(model, change):
    """Rewrites the header of the weights, which change() takes as a dict with the size of the data."""
    file = model / "model.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    change(header, len(data))
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_a_tensor_that_the_decoder_does_not_know_is_named(model):
    edit(model, lambda header, end: header.update(
        {"model.layers.1.mlp.gate_proj.bias": {"dtype": "F16", "shape": [0], "data_offsets": [end, end]}}))
    refused(model, "model.layers.1.mlp.gate_proj.bias")


def test_weights_in_a_type_that_it_has_not_are_named(model):
    def as_bytes(header, _):
        entry = header["model.norm.weight"]
        entry.update(dtype="F8_E4M3", shape=[2 * entry["shape"][0]])
    edit(model, as_bytes)
    refused(model, "F8_E4M3")


def test_another_vocabulary_is_named(model):
    vocabulary = json.loads((MODEL.parent / "vocabulary.json").read_text())
    vocabulary["pieces"].pop()
    (model / "vocabulary.json").write_text(json.dumps(vocabulary))
    refused(model, "has 1024 tokens, expected the 1023 of the vocabulary", "--models", model)
