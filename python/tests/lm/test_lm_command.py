"""The commands of vkattn-lm on a small model, beside NumPy; and samples."""
import json

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import lm_cases  # noqa: E402
import lm_models  # noqa: E402
import vkattn  # noqa: E402
from vkattn_lm import chat, device, errors, files, sampling, tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


def test_complete_goes_on_as_numpy_would(llama, inner, run):
    path, held = llama
    tokens = inner.encode("the cat").ids
    while len(tokens) < len(inner.encode("the cat").ids) + 8:
        tokens.append(int(lm_models.logits_of(held, lm_models.SIZES, tokens)[-1].argmax()))
    assert not {0, 2} & set(tokens)
    read = files.open_model(path).tokenizer()
    piece = read.stream()
    expected = "".join(map(piece, tokens[len(inner.encode("the cat").ids):]))
    status, out, err = run("complete", path, "the cat", "--temperature", 0, "--tokens", 8, "--kv-type", "f32")
    assert (status, out, err[0]) == (0, expected + "\n", "vkattn-lm: ended after 8 tokens; see --tokens")
    same = [run("complete", path, "-", "--seed", 4, "--tokens", 8, given="the cat")[1] for _ in range(2)]
    assert same[0] == same[1] != run("complete", path, "-", "--seed", 5, "--tokens", 8, given="the cat")[1]


def test_what_a_budget_finds_serves_the_next_start(llama, run, monkeypatch, tmp_path, recwarn):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    query = numpy.random.default_rng(5).standard_normal((1, 2, 5, 16), "f4")

    def start(budget):
        """What a run that attends once says and keeps."""
        own = device.Device("", budget)
        vkattn.attention(query, query, query, context=own.context)
        return own.keep()

    assert start(0) == "" and not list((tmp_path / "vkattn").glob("*.saved*"))
    assert start(3_600_000).startswith("tuned within the budget: 1 class, ")
    assert [path.name for path in (tmp_path / "vkattn").glob("*.saved*")] == ["vkattn-lm.saved"]
    assert start(3_600_000) == ""
    (tmp_path / "vkattn" / "vkattn-lm.saved").write_bytes(b"vkattn of another time")
    assert start(0) == "" and not recwarn.list
    assert run("complete", llama[0], "x", "--tune-budget", "x")[0] == 2


def test_a_folder_goes_on_as_its_gguf_file_does(llama, tmp_path, run):
    lm_models.write_folder(tmp_path, llama[1], lm_models.SIZES)
    words = ("the cat", "--temperature", 0, "--tokens", 8, "--kv-type", "f32", "--quiet")
    assert run("complete", tmp_path, *words) == run("complete", llama[0], *words)
    chats = [run("chat", path, "--seed", 1, "--tokens", 4, given="it\n") for path in (tmp_path, llama[0])]
    assert chats[0][:2] == chats[1][:2] and chats[0][0] == 0
    read = files.open_model(tmp_path).tokenizer()
    assert read.ends == {0, 2, 9} and read.begin is None
    lm_models.write_folder(tmp_path, llama[1], lm_models.SIZES, begin="<|endoftext|>")
    read = files.open_model(tmp_path).tokenizer()
    assert read.encode("a") == read.encode("<|endoftext|>a") == [0, *lm_models.byte_level().encode("a").ids]


def test_the_context_is_obeyed_and_said(llama, run):
    status, _, err = run("complete", llama[0], "the cat", "--temperature", 0, "--context", 12, "--quiet")
    assert status == 0 and err == ["vkattn-lm: the context of 12 tokens is full; see --context"]
    status, _, err = run("complete", llama[0], "the cat " * 20, "--context", 12)
    assert status == 2 and "expected fewer than 12" in err[0]
    status, _, err = run("complete", llama[0], "the cat", "--context", 65)
    assert status == 2 and "--context 65: expected at most 64" in err[0]


def test_chat_renders_the_models_template(llama, run, monkeypatch):
    seen, write = [], chat.Writer.write
    monkeypatch.setattr(chat.Writer, "write", lambda self, tokens, *rest: seen.append((list(tokens), list(self._held)))
                        or write(self, tokens, *rest))
    status, out, err = run("chat", llama[0], "--system", "it", "--tokens", 3, "--seed", 1, given="the cat\n\nit\n")
    assert status == 0 and len(err) == 5 and len(out.splitlines()) >= 2
    read = files.open_model(llama[0]).tokenizer()
    first, second = ([read.inner.id_to_token(token) for token in tokens] for tokens, _ in seen)
    text = read.inner.decode(seen[0][0], skip_special_tokens=False)
    assert text == "<|im_start|>system\nit<|im_end|>\n<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    assert second[:len(first)] == first and seen[1][1][:len(first)] == seen[0][0]


def test_values_may_have_a_type_of_their_own(llama, inner):
    path, held = llama
    tokens = inner.encode("the cat sat on the log").ids
    expected, decoder = lm_models.logits_of(held, lm_models.SIZES, tokens)[-1], lm_cases.decoder_of(path)
    found = {}
    for types in (("f32",), ("f32", "q8_0"), ("q8_0", "f32"), ("q8_0",)):
        decoder.empty_caches(*types)
        assert decoder.length == 0
        decoder.logits(tokens[:-1])
        found[types] = decoder.cache_bytes, lm_cases.nmse(decoder.logits(tokens[-1:]), expected)
    assert found["f32",][0] > found["f32", "q8_0"][0] == found["q8_0", "f32"][0] > found["q8_0",][0]
    assert found["f32",][1] < 1e-10 and all(1e-8 < error < 1e-2 for types, (_, error) in found.items() if types != ("f32",))
    assert found["f32", "q8_0"][1] != found["q8_0", "f32"][1]


def test_what_is_held_is_not_computed_again(llama):
    decoder = lm_cases.decoder_of(llama[0])
    counted, next_token = [], decoder.next_token
    decoder.next_token = lambda tokens, *more: counted.append(len(tokens)) or next_token(tokens, *more)
    writer = chat.Writer(decoder, files.open_model(llama[0]).tokenizer(), sampling.Sampler(0, 0, 1, 0), lambda total: lm_cases.NoBar())
    first, _ = writer.write([5, 6, 7, 8], 2, lambda piece: None)
    assert counted == [4, 1]
    again, _ = writer.write([5, 6, 7, 8], 2, lambda piece: None)
    assert counted == [4, 1, 1, 1] and again == first


def test_perplexity_is_numpys(llama, inner, run, tmp_path):
    path, held = llama
    (tmp_path / "text").write_text(lm_models.TEXT)
    tokens, lost = inner.encode(lm_models.TEXT).ids, []
    for start in range(0, len(tokens) // 16 * 16, 16):
        part = tokens[start:start + 16]
        logits = lm_models.logits_of(held, lm_models.SIZES, part)
        shares = numpy.log(numpy.exp(logits).sum(-1)) - logits[range(16), [*part[1:], 0]]
        lost += shares[8:15].tolist()
    status, out, err = run("perplexity", path, tmp_path / "text", "--context", 16, "--kv-type", "f32")
    assert status == 0 and err == [] and f"of {len(lost)} tokens" in out
    assert abs(float(out.split()[1]) / numpy.exp(numpy.mean(lost)) - 1) < 1e-4
    (tmp_path / "marked").write_text("<|im_end|>" * 40)  # text as any other, as in llama-perplexity
    assert f"of {len(files.open_model(path).tokenizer().encode('<|im_end|>' * 40, markers=False)) // 16 * 7} tokens" in run(
        "perplexity", path, tmp_path / "marked", "--context", 16)[1]
    status, _, err = run("perplexity", path, tmp_path / "text", "--context", 64, "--kv-type", "q8_0")
    assert status == 0


def test_bench_counts_what_it_holds(llama, run):
    status, out, err = run("bench", llama[0], "--prompt", 16, "--tokens", 4, "--json")
    found = json.loads(out)
    assert status == 0 and err == [] and found["new_tokens"] == 4
    assert found["weight_bytes"] == sum(value.nbytes for value in llama[1].values()) and found["new_tokens_per_second"] > 0


def test_samples_have_the_chances_that_they_are_to_have():
    logits = numpy.log(numpy.array([0.5, 0.3, 0.15, 0.05], "f4"))

    def shares(**options):
        sampler = sampling.Sampler(**{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 7, **options})
        return numpy.bincount([sampler(logits) for _ in range(4000)], minlength=4) / 4000
    assert numpy.abs(shares() - [0.5, 0.3, 0.15, 0.05]).max() < 0.03
    assert numpy.abs(shares(top_k=2) - [0.625, 0.375, 0, 0]).max() < 0.03
    assert numpy.abs(shares(top_p=0.9) - [0.5263, 0.3158, 0.1579, 0]).max() < 0.03
    assert (shares(temperature=0) == [1, 0, 0, 0]).all() and (shares(top_p=0.0) == [1, 0, 0, 0]).all()
    assert numpy.abs(shares(temperature=0.5) - numpy.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365).max() < 0.03


@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-308, 1e-30])
def test_a_temperature_near_0_takes_the_most_likely(temperature):
    logits = numpy.array([0.5, 3.0, -100.0, 2.9, -3e38], "f4")
    assert {sampling.Sampler(temperature, top_k, 0.95, 1)(logits) for top_k in (0, 3)} == {1}


@pytest.mark.parametrize("wrong", [numpy.nan, numpy.inf])
def test_logits_that_are_not_finite_are_refused(wrong):
    logits = numpy.array([0.0, wrong, 1.0], "f4")
    for temperature in (0.0, 1.0):
        with pytest.raises(errors.ModelError, match="not finite numbers"):
            sampling.Sampler(temperature, 0, 1.0, 1)(logits)
    with pytest.raises(errors.ModelError, match="not finite numbers"):
        sampling.log_likelihoods(logits[None], [0])


@pytest.mark.parametrize("words, says", [
    (["complete", "no-such-file", "x"], "no-such-file: no such file"), (["complete", "FOLDER", "x"], "has no config.json"),
    (["complete", "FOLDER/text", "x"], "begins with b'some'"), (["complete", "MODEL", ""], "prompt: no tokens"),
    (["complete", "MODEL", "x", "--temperature", "hot"], "--temperature: 'hot', expected a number from 0 to 100"),
    (["complete", "MODEL", "x", "--top-p", "2"], "--top-p: '2'"), (["complete", "MODEL", "x", "--kv-type", "q3"], "--kv-type"),
    (["complete", "MODEL", "x", "--device", "no such"], "no such"), (["talk", "MODEL"], "talk"), ([], "COMMAND"),
    (["perplexity", "MODEL", "no-such-text"], "no-such-text"), (["perplexity", "MODEL", "FOLDER/bytes"], "bytes: byte 0 is no UTF-8, expected a text in UTF-8"),
    (["perplexity", "MODEL", "FOLDER/text"], "expected at least 64"),
    (["perplexity", "MODEL", "FOLDER"], "Is a directory, expected a text in UTF-8"),
    (["complete", "MODEL", "x", "--kv-scales", "row"], "error: kv_scales: 'row' beside f16, expected a type f8_e4m3 or f8_e5m2"),
    (["embed", "MODEL", "x"], "a GGUF file, expected the folder"),
])
def test_bad_input_gets_one_line(tmp_path, llama, run, words, says):
    (tmp_path / "text").write_text("some text")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    status, _, err = run(*(word.replace("FOLDER", str(tmp_path)).replace("MODEL", str(llama[0])) for word in words))
    assert status == 2 and len(err) == 1 and err[0].startswith("vkattn-lm: error: ") and says in err[0]
    assert err[0].count("expected") == 1


def test_texts_are_the_tokens_that_they_were_trained_to(llama, inner):
    read = files.open_model(llama[0]).tokenizer()
    for text in ("the cat sat", "What is it? 1234, 5", "<|im_start|>user\nthe dog<|im_end|>", "ünï ☃ \n\n  x", ""):
        assert read.encode(text) == inner.encode(text).ids
        piece = read.stream()
        assert "".join(map(piece, read.encode(text))) == text.replace("<|im_start|>", "").replace("<|im_end|>", "")
    assert read.ends == {0, 2} and read.begin is None


def test_marks_belong_to_words_in_qwen35():
    pieces = ["Ì", "ģ", "e", "a", "eÌ", "eÌģ", "eÌģa"]  # the bytes of an accent are Ì and ģ in GPT-2's names
    facts = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": [1] * len(pieces),
             "tokenizer.ggml.merges": ["e Ì", "eÌ ģ", "eÌģ a"], "tokenizer.ggml.eos_token_id": 3}
    for pre, count in (("qwen2", 4), ("qwen35", 1)):
        read = tokenizer.from_gguf(files.Facts("here", {**facts, "tokenizer.ggml.pre": pre}))
        assert len(read.encode("e\u0301a")) == count


def test_pieces_merge_by_their_scores():
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a", "b", "ab", "▁ab", "ba"]
    types = [2, 3, 3, *[6] * 256, *[1] * 6]
    scores = [0.0, 0.0, 0.0, *[0.0] * 256, -10.0, -10.0, -10.0, -2.0, -3.0, -1.0]
    facts = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": types,
             "tokenizer.ggml.scores": scores, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
             "tokenizer.ggml.add_space_prefix": False}
    read = tokenizer.from_gguf(files.Facts("here", facts))
    names = [pieces[i] for i in read.encode("ab aba é")]
    assert names == ["<s>", "ab", "▁", "a", "ba", "▁", "<0xC3>", "<0xA9>"]  # ba scores higher than ab
    piece = read.stream()
    assert "".join(map(piece, read.encode("ab aba é"))) == "ab aba é"
