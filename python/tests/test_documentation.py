"""The Python of the README and of docs runs as it stands, and its models give what NumPy gives in float64."""
import contextlib
import io
import linecache
import math
import pathlib
import re

import numpy
import pytest
import vkattn

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = [(page.name, program) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
            for program in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)]


SAYS = {"vkattn.linear_attention": "a state of (1, 4, 64, 64) after any number of tokens\n", "vkattn.record": " barriers\n", "create_block_mask": "56.25 % of the blocks are hidden\n", "BERT": "BERT's layer gives (2, 16, 64)\n", "Llama": "the Llama goes on to 8 tokens\n"}


def run(page, program):
    """What the program printed, and its variables."""
    said, variables = io.StringIO(), {}
    linecache.cache[page] = (len(program), None, program.splitlines(True), page)  # functions of it have a text
    with contextlib.redirect_stdout(said):
        exec(compile(program, page, "exec"), variables)
    return said.getvalue(), variables


def program_of(word):
    [program] = [program for _, program in PROGRAMS if word in program]
    return run(word, program)[1]


def nmse(values, expected):
    return float(((values - expected) ** 2).sum() / (expected ** 2).sum())


def softmax(scores):
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("page, program", PROGRAMS, ids=[page for page, _ in PROGRAMS])
def test_a_program_of_the_pages(page, program):
    try:
        said, _ = run(page, program)
    except vkattn.UnsupportedError as missing:
        if "flex_attention" not in program:
            raise
        pytest.skip(str(missing))  # vkattn_jit
    expected = next((says for word, says in SAYS.items() if word in program), "averages its keys to 63.5\n")
    assert expected in said
    if page == "README.md":
        assert f"{32768 * 2 * 8 * 128 * 2} bytes of cache a sequence" in said


def test_the_layer_of_bert_is_numpys():
    its = program_of("BERT's layer")
    bert = {name: value.astype("float64") for name, value in its["bert"].items()}
    x, heads = its["hidden_states"].astype("float64"), its["heads"]

    def linear(name, x):
        return x @ bert[name + ".weight"].T + bert[name + ".bias"]

    def layer_norm(name, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-12) * bert[name + ".weight"] + bert[name + ".bias"]

    q, k, v = (linear("attention.self." + name, x).reshape(2, 16, heads, -1).swapaxes(1, 2) for name in ("query", "key", "value"))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = numpy.where(its["padding"][:, None, None], -numpy.inf, scores)
    attended = (softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
    x = layer_norm("attention.output.LayerNorm", x + linear("attention.output.dense", attended))
    inner = linear("intermediate.dense", x)
    inner = inner * (1 + numpy.vectorize(math.erf)(inner / math.sqrt(2))) / 2
    expected = layer_norm("output.LayerNorm", x + linear("output.dense", inner))
    assert nmse(its["output"], expected) < 1e-10


def test_the_llama_of_4_bits_is_numpys_on_the_whole_text():
    its = program_of("Llama goes on")
    tokens, heads, kv_heads, size = its["tokens"], its["heads"], its["kv_heads"], its["head_dim"]
    rows = its["embedding"].download().astype("float64")
    x = rows[tokens]

    def rms(x):
        return x / numpy.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5)

    def rotated(x):
        angles = numpy.arange(len(tokens))[:, None] * 10000.0 ** (-numpy.arange(0, size, 2) / size)
        a, b = x[..., : size // 2], x[..., size // 2:]
        return numpy.concatenate([a * numpy.cos(angles) - b * numpy.sin(angles), b * numpy.cos(angles) + a * numpy.sin(angles)], -1)

    for stored in its["model"]:
        w = {name: value.download().astype("float64") for name, value in stored.items()}
        normed = rms(x)
        q, k, v = ((normed @ w[name].T).reshape(len(tokens), count, size).swapaxes(0, 1)
                   for name, count in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)))
        q, k, v = rotated(q), rotated(k).repeat(heads // kv_heads, 0), v.repeat(heads // kv_heads, 0)
        scores = numpy.where(numpy.tri(len(tokens), dtype=bool), q @ k.swapaxes(1, 2) / math.sqrt(size), -numpy.inf)
        x = x + (softmax(scores) @ v).swapaxes(0, 1).reshape(len(tokens), -1) @ w["o_proj"].T
        normed = rms(x)
        gate, up = (normed @ matrix.T for matrix in w["gate_up_proj"])
        x = x + (gate / (1 + numpy.exp(-gate)) * up) @ w["down_proj"].T
    assert nmse(its["logits"], (rms(x) @ rows.T)[-1]) < 1e-5


def test_the_readme_has_a_program():
    assert [page for page, _ in PROGRAMS].count("README.md") == 1
