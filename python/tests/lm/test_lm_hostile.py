"""vkattn_lm on files that break their formats, or mean harm: a command ends, with exit status 0, or with 2 and one line.

VKATTN_LM_MUTATIONS: so many times as many mutations, others than those of a usual run, which are always the same.
"""
import base64
import io
import json
import os
import random
import shutil
import time
import warnings

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import gguf  # noqa: E402
import lm_models  # noqa: E402
import safetensors.numpy  # noqa: E402
from vkattn_lm import command, files, template  # noqa: E402

TIMES = int(os.environ.get("VKATTN_LM_MUTATIONS", "1"))
BYTES_OF = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's numbers
SIZES = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "hidden": 32, "context": 64}
ABSURD = (0, 1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63, 2**64 - 1)
NONSENSE = (0, 1, -1, 2, 7, 2**31 - 1, 2**32, 2**64 - 1, 10**400, 1e-45, 1e39, float("nan"), float("inf"), "", "x", True, None,
            [], [1], ["a"] * 3, [1.0] * 300, {}, {"rope_type": "longrope"}, "linear", "yarn", "llama", "qwen2", "Phi3ForCausalLM",
            "{{ 1 / 0 }}")
TEMPLATES = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{{ 'x' * 10**11 }}", "{{ 9**(9**9) }}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "{{ 'x' | center(10**10) }}", "{{ '%0999999999d' % 1 }}", "{{ lipsum(n=10**9) }}", "{{ range(10**9) | list }}",
    "{{ 'x' * 5000000 }}", "{{ messages | map(attribute='__class__') | list }}",
    "{{ cycler.__init__.__globals__.os.system('false') }}",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "{% include 'x' %}", "{% import 'os' as os %}", "{{ undefined.x }}",
    "{{ raise_exception(messages) }}", "{{ messages[9]['role'] }}", "{{ 1 / 0 }}", "{% if %}", "\0{{ bos_token }}")


class Run:
    """Runs commands, and holds each to what a command may do with a bad file."""

    def __init__(self, capfd, monkeypatch):
        self._captured, self._patch, self.refused = capfd, monkeypatch, 0

    def __call__(self, what, *words, given="it\n"):
        self._patch.setattr("sys.stdin", io.StringIO(given))
        self._captured.readouterr()
        begun, computed = time.monotonic(), time.process_time()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", RuntimeWarning)
            status = command.main([*map(str, words), "--quiet"])
        took, lines = time.monotonic() - begun, self._captured.readouterr().err.splitlines()
        errors = [line for line in lines if line.startswith("vkattn-lm: error: ")]
        assert status in (0, 2) and len(errors) == status // 2 and len(lines) <= 3, (what, status, lines)
        assert not warned, (what, [str(each.message) for each in warned])  # which would be lines, too
        assert all(line.startswith("vkattn-lm: ") and len(line) < 900 for line in lines), (what, lines)
        assert took < 300 and time.process_time() - computed < 20, (what, took)  # others may be on the machine
        self.refused += status == 2
        return errors[0] if errors else ""


def chance(seed):
    return random.Random(seed * TIMES)


@pytest.fixture
def run(capfd, monkeypatch):
    """A Run; at the end the process may not have held much more memory than before, at any time."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Run(capfd, monkeypatch)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # KiB


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a GGUF file, and a folder of the same model."""
    path = tmp_path_factory.mktemp("hostile")
    weights = lm_models.weights_of(lm_models.byte_level().get_vocab_size(), **SIZES)
    lm_models.write_gguf(path / "model.gguf", weights, SIZES, "Q8_0")
    (path / "folder").mkdir()
    lm_models.write_folder(path / "folder", weights, SIZES)
    return (path / "model.gguf").read_bytes(), path / "folder"


def places(data):
    """Where a GGUF file says what: (kind, offset, bytes) of counts, types, names and shapes."""
    found, at = [], 0

    def take(kind, size):
        nonlocal at
        found.append((kind, at, size))
        at += size
        return int.from_bytes(data[at - size:at], "little")

    def text(kind):
        take(kind, take("counts", 8))

    def value(kind):
        if kind == gguf.GGUFValueType.STRING:
            text("text")
        elif kind == gguf.GGUFValueType.ARRAY:
            inner = take("types", 4)
            for _ in range(take("counts", 8)):
                value(inner)
        else:
            take("value", BYTES_OF[kind])
    take("types", 4), take("types", 4)
    tensors, facts = take("counts", 8), take("counts", 8)
    for _ in range(facts):
        text("names")
        value(take("types", 4))
    for _ in range(tensors):
        text("names")
        for _ in range(take("counts", 4)):
            take("shapes", 8)
        take("types", 4), take("counts", 8)
    return found


def random_bytes(data, choice, _):
    """Some bytes are others, are missing, or are more; most of them where the file says what it is."""
    data = bytearray(data)
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(min(len(data), 900) if choice.random() < 0.5 else len(data))
        what = choice.randrange(4)
        if what == 0:
            data[at] ^= 1 << choice.randrange(8)
        elif what == 1:
            data[at:at + 8] = choice.choice(ABSURD).to_bytes(8, "little")
        elif what == 2:
            del data[at:at + choice.randint(1, 64)]
        else:
            data[at:at] = choice.randbytes(choice.randint(1, 16))
    return bytes(data)


def truncated(data, choice, found):
    return data[:choice.randrange(len(data)) if choice.random() < 0.5 else choice.choice(found)[1]]


def other(kind):
    """Of what the file says of a kind, one thing is another."""
    def changed(data, choice, found):
        chosen = [place for place in found if place[0] == kind and place[2]]
        late = [place for place in chosen if place[1] > found[-1][1] - 1000]  # half of them in the last part: of tensors
        _, at, size = choice.choice(late if late and choice.random() < 0.5 else chosen)
        if kind == "names":
            new = bytearray(data[at:at + size])
            new[choice.randrange(size)] = choice.choice(b"\0\xffabx.0123456789")
            return data[:at] + bytes(new) + data[at + size:]
        new = choice.randrange(48) if kind == "types" else choice.choice((*ABSURD, data[at] ^ 1, data[at] + 1)) % 2**(8 * size)
        return data[:at] + new.to_bytes(size, "little") + data[at + size:]
    return changed


@pytest.mark.parametrize("mutate, count", [(random_bytes, 100), (truncated, 20), (other("counts"), 60), (other("types"), 40),
                                           (other("names"), 20), (other("shapes"), 20)])
def test_gguf_files(tmp_path, whole, run, mutate, count):
    data, choice, found, path = whole[0], chance(9), places(whole[0]), tmp_path / "model.gguf"
    path.write_bytes(data)
    assert found[-1][1] + 8 < len(data) and not run("whole", "complete", path, "a b", "--tokens", 1)
    for i in range(count * TIMES):
        path.write_bytes(mutate(data, choice, found))
        run(i, "complete", path, "a b", "--tokens", 1, "--seed", 1)
    assert run.refused > count // 3


def test_facts_of_gguf_files(tmp_path, whole, run, monkeypatch):
    read, choice, path, changes = files.GgufFile.__init__, chance(5), tmp_path / "model.gguf", []
    path.write_bytes(whole[0])

    def changed(self, path):
        read(self, path)
        known = self.facts.values
        name = choice.choice([*known, "llama.rope.scaling.type", "llama.rope.scaling.factor", "tokenizer.ggml.add_bos_token",
                              "llama.attention.sliding_window", "llama.attention.sliding_window_pattern"])
        given = known.get(name)
        known[name] = given[:choice.choice([len(given) - 1, 3])] if isinstance(given, list) else choice.choice(NONSENSE)
        changes.append((name, known[name]))
    monkeypatch.setattr(files.GgufFile, "__init__", changed)
    for _ in range(60 * TIMES):
        run(changes[-1:], "chat", path, "--tokens", 1)
    assert run.refused > 20


def paths_of(value, path=()):
    """Where a JSON document has values, as lists of keys."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


def replaced(document, path, new):
    document = json.loads(json.dumps(document))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return document


def text_of_another(text, choice, more):
    """A JSON text with one value that is another, or with one that it had not, or broken."""
    document, what = json.loads(text), choice.randrange(8)
    if what == 0:
        return text[:choice.randrange(len(text))]
    if what == 1:
        return choice.choice(["", "null", "[]", "7", "{" * 100000, "[" * 100000, "\ufeff{}", '{"a": ' + "9" * 5000 + "}"])
    if what < 5 and more:
        return json.dumps({**document, choice.choice(more): choice.choice(NONSENSE)})
    found = [path for path in paths_of(document) if len(path) < 4 or path[1] not in ("vocab", "merges")]
    return json.dumps(replaced(document, choice.choice(found), choice.choice(NONSENSE)))


CONFIG = ("rope_scaling", "rope_parameters", "sliding_window", "layer_types", "max_window_layers", "partial_rotary_factor",
          "head_dim", "eos_token_id", "architectures", "hidden_act", "num_key_value_heads", "kv_lora_rank", "tie_word_embeddings")


@pytest.mark.parametrize("name, count, more", [
    ("config.json", 60, CONFIG), ("tokenizer_config.json", 20, ("chat_template", "bos_token")),
    ("generation_config.json", 5, ("eos_token_id",)), ("tokenizer.json", 45, ())])
def test_json_of_folders(tmp_path, whole, run, name, count, more):
    folder, choice = tmp_path / "folder", chance(3)
    shutil.copytree(whole[1], folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert not run("whole", "chat", folder, "--tokens", 1)
    for i in range(count * TIMES):
        (folder / name).write_text(text_of_another(text, choice, more), encoding="utf-8")
        run((i, (folder / name).read_text(encoding="utf-8")[:300]), "chat", folder, "--tokens", 1)
    assert run.refused >= count // 5


GROWING = [{"type": "Replace", "pattern": {"String": "t"}, "content": "t" * 1000}] * 4
PATTERN = {"type": "Split", "pattern": {"Regex": "(i|ii)+$"}, "behavior": "Isolated", "invert": False}


def map_of_characters(text):
    """A normalizer of SentencePiece's kind, whose map has this text."""
    data = (4).to_bytes(4, "little") + bytes(4) + text + bytes(1)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


@pytest.mark.parametrize("part, value, says", [
    ("normalizer", {"type": "Sequence", "normalizers": GROWING}, "may make text more than 64 times longer"),
    ("decoder", {"type": "Sequence", "decoders": GROWING}, "may make text more than 64 times longer"),
    ("normalizer", map_of_characters(b"t" * 65), "may make text more than 64 times longer"),
    ("normalizer", {"type": "Sequence", "normalizers": [map_of_characters(b"t" * 9)] * 2}, "may make text more than 64 times longer"),
    ("normalizer", map_of_characters(bytes(1 << 20)), "precompiled_charsmap: 1048585 bytes, expected at most 1048576"),
    ("padding", {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "a",
                 "pad_to_multiple_of": None}, ""),
    ("truncation", {"direction": "Right", "max_length": 10**12, "strategy": "LongestFirst", "stride": 2}, ""),
    ("pre_tokenizer", PATTERN, "PanicException"),  # which prints lines of its own
])
def test_tokenizers_that_mean_harm(tmp_path, whole, run, part, value, says):
    folder = tmp_path / "folder"
    shutil.copytree(whole[1], folder)
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps({**document, part: value}), encoding="utf-8")
    said = run(part, "complete", folder, "i" * 40 + "t", "--tokens", 1, "--context", 12)
    assert says in said


def test_weights_of_folders(tmp_path, whole, run):
    folder, choice = tmp_path / "folder", chance(7)
    shutil.copytree(whole[1], folder)
    path = folder / "model.safetensors"
    data, given, text = path.read_bytes(), safetensors.numpy.load_file(path), tmp_path / "text"
    text.write_text(lm_models.TEXT, encoding="utf-8")
    for i in range(25 * TIMES):
        weights, name, what = dict(given), choice.choice(list(given)), i % 5
        if what == 0:
            weights["x" + name] = weights.pop(name)
        elif what == 1:
            weights[name] = weights[name][:-1] if choice.random() < 0.5 else weights[name][None]
        elif what == 2:
            weights[name] = weights[name].astype(choice.choice(["i4", "f8", "u1"]))
        elif what == 3:
            weights[name] = weights[name] * numpy.float32(choice.choice([numpy.nan, numpy.inf, 1e38]))
        safetensors.numpy.save_file(weights, path)
        if what == 4:
            path.write_bytes(random_bytes(data, choice, None))
        command = ("perplexity", folder, text, "--context", 16) if i % 2 else ("complete", folder, "a b", "--tokens", 1)
        run((i, name, what), *command)
    assert run.refused > 12


@pytest.mark.parametrize("mutate, count", [(random_bytes, 15), (truncated, 10)])
def test_parts_of_split_gguf_files(tmp_path, whole, run, mutate, count):
    """The first part is whole, the second is not."""
    weights, choice = lm_models.weights_of(lm_models.byte_level().get_vocab_size(), **SIZES), chance(11)
    paths, names = [tmp_path / f"model-{i:05}-of-00002.gguf" for i in (1, 2)], sorted(weights)
    for number, path in enumerate(paths):
        lm_models.write_gguf(path, {name: weights[name] for name in names[number::2]}, SIZES, more={"add_uint16": [
            ("split.no", number), ("split.count", 2)]})
    data = paths[1].read_bytes()
    found = places(data)
    for i in range(count * TIMES):
        paths[1].write_bytes(mutate(data, choice, found))
        run(i, "complete", choice.choice(paths), "a b", "--tokens", 1, "--seed", 1)
    assert run.refused > count // 3


BERT = ("max_seq_length", "do_lower_case", "pooling_mode", "include_prompt", "prompts", "default_prompt_name", "hidden_size")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json",
                                  "config_sentence_transformers.json", "sentence_bert_config.json"])
def test_folders_of_encoders(tmp_path, run, name):
    choice = chance(13)
    lm_models.write_bert(tmp_path, lm_models.byte_level())
    (tmp_path / "1_Pooling").mkdir()
    documents = {"modules.json": [{"type": "m.Transformer", "path": ""}, {"type": "m.Pooling", "path": "1_Pooling"}],
                 "1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": True},
                 "config_sentence_transformers.json": {"prompts": {"query": "a "}, "default_prompt_name": "query"},
                 "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": True}}
    for each, document in documents.items():
        (tmp_path / each).write_text(json.dumps(document))
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert not run("whole", "embed", tmp_path, "the cat", "it")
    for i in range(20 * TIMES):
        (tmp_path / name).write_text(text_of_another(text, choice, BERT if name != "modules.json" else ()), encoding="utf-8")
        run((i, (tmp_path / name).read_text(encoding="utf-8")[:300]), "embed", tmp_path, "the cat", "", "it" * 40)
    assert run.refused > 4


def test_chat_templates(tmp_path, run, monkeypatch):
    monkeypatch.setattr(template, "SECONDS", 1)
    weights = lm_models.weights_of(lm_models.byte_level().get_vocab_size(), **SIZES)
    for hostile in TEMPLATES:
        lm_models.write_gguf(tmp_path / "model.gguf", weights, SIZES, template=hostile)
        run(hostile, "chat", tmp_path / "model.gguf", "--tokens", 1)
    assert run.refused > 12
