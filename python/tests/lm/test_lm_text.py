"""What vkattn_lm makes of text: tokens, streams, templates. No device is needed."""
import os
import random
import sys
import threading

import pytest

for module in ("tokenizers", "jinja2"):
    pytest.importorskip(module)

import tokenizers  # noqa: E402
from vkattn_lm import errors, tokenizer  # noqa: E402
from vkattn_lm.facts import Facts  # noqa: E402
from vkattn_lm.template import RENDERER  # noqa: E402

BYTES = [f"<0x{i:02X}>" for i in range(256)]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, "▁", "a", "▁a", "▁hello"]
ALPHABET = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def sentence_pieces(spaced):
    return tokenizer.from_gguf(Facts("file", {
        "general.architecture": "llama", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.scores": [0.0] * len(PIECES), "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * 4],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_space_prefix": spaced}))


def byte_level(tokens, merges, **more):
    facts = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*ALPHABET, *tokens],
             "tokenizer.ggml.merges": merges, **{f"tokenizer.ggml.{name}": value for name, value in more.items()}}
    return tokenizer.from_gguf(Facts("file", facts))


@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("names, pieces", [
    (["a", "<0x0A>", "<0xF0>", "a"], ["a", "\n", "", "\ufffda"]),
    (["a", "<0x0A>", "<0xF0>", "<0x9F>", "▁a"], ["a", "\n", "", "", "\ufffd a"]),
    (["<0x7A>", "<0xD1>", "▁hello"], ["z", "", "\ufffd hello"]),
    (["a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0xF0>", "<0x9F>", "▁a"], ["a", "", "", "", "😀", "", "", "\ufffd a"]),
    (["a", "<0xC2>", "</s>", "a"], ["a", "", "\ufffd", "a"]),
    (["<0xFF>", "<0xC3>", "<0xA9>", "▁a"], ["\ufffd", "", "é", " a"]),
    (["a", "<0x41>", "<0xC3>", "a", "▁hello", "<0x0A>", "▁a"], ["a", "A", "", "\ufffda", " hello", "\n", " a"]),
])
def test_bytes_that_are_no_utf8_end_no_stream(spaced, names, pieces):
    step = sentence_pieces(spaced).stream()
    assert [step(PIECES.index(name)) for name in names] == pieces


def test_any_tokens_are_streamed():
    made, choice = sentence_pieces(False), random.Random(3)
    for _ in range(200):
        step, tokens = made.stream(), [*(choice.randrange(3, len(PIECES)) for _ in range(30)), PIECES.index("a")]
        of_bytes = b"".join(bytes([token - 3]) if token < 259 else PIECES[token].replace("▁", " ").encode() for token in tokens)
        assert "".join(map(step, tokens)) == of_bytes.decode("utf-8", "replace")


def test_a_decoder_that_takes_back_what_it_gave_ends_no_stream():
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"z": 0, "a": 1, "b": 2, "?": 3}, unk_token="?"))
    inner.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Fuse(), tokenizers.decoders.Replace("ab", "xyz")])
    step = tokenizer.Tokenizer("file", inner, None, frozenset(), None, {}).stream()
    assert [step(1), step(2)] == ["a", "b"]  # all of it reads xyz


def test_what_a_decoder_raises_ends_no_stream(monkeypatch):
    made, calls = sentence_pieces(True), []

    class Failing:
        def __init__(self, **_):
            pass

        def step(self, inner, token):
            calls.append(token)
            raise RuntimeError("no text")
    monkeypatch.setattr(tokenizers.decoders, "DecodeStream", Failing)
    step = made.stream()
    tokens = [PIECES.index("a"), PIECES.index("▁a")]
    assert list(map(step, tokens)) == ["\ufffd", "\ufffd"] and set(tokens) <= set(calls)


@pytest.mark.parametrize("pre, names", [
    ("gpt-2", ["I", "'", "LL", "Ġ", "123", "4", "Ġ", "@#", "!"]), ("llama-bpe", ["I", "'LL", "Ġ", "123", "4", "Ġ", "@#", "!"]),
    ("smollm", ["I", "'", "LL", "Ġ", "1", "2", "3", "4", "Ġ", "@#", "!"]),
    (None, ["I", "'", "LL", "Ġ", "123", "4", "Ġ", "@#", "!"]), ("", ["I", "'", "LL", "Ġ", "123", "4", "Ġ", "@#", "!"]),
])
def test_text_is_cut_as_the_file_says(pre, names):
    tokens = ["12", "123", "LL", "'LL", "@#"]
    merges = ["1 2", "12 3", "L L", "' LL", "@ #"]
    made = byte_level(tokens, merges, **({} if pre is None else {"pre": pre}))
    assert [made.inner.id_to_token(token) for token in made.encode("I'LL 1234 @#!")] == names


def test_a_file_without_a_rule_is_cut_by_llama_cpps_default():
    tokens, merges = ["Ġ.", "12", "34", "1234", ".a", "+b"], ["Ġ .", "1 2", "3 4", "12 34", ". a", "+ b"]
    plain, default = (byte_level(tokens, merges, **more) for more in ({"pre": "gpt-2"}, {}))
    named = [[made.inner.id_to_token(token) for token in made.encode("a .a 1234")] for made in (plain, default)]
    assert named[0] == ["a", "Ġ.", "a", "Ġ", "1234"]  # of one expression
    assert named[1] == ["a", "Ġ", ".", "a", "Ġ", "12", "3", "4"]  # punctuation first, and digits in threes
    assert not plain.remark and "tokenizer.ggml.pre is missing" in default.remark


def test_names_of_control_tokens_are_text_where_they_are_asked_to_be():
    made = byte_level(["<|end|>", "<mark>"], [], pre="gpt-2", token_type=[1] * 256 + [3, 4])
    assert made.encode("a<|end|><mark>") == [made.inner.token_to_id(name) for name in ("a", "<|end|>", "<mark>")]
    text = made.encode("a<|end|><mark>", markers=False)
    assert 256 not in text and 257 in text and made.inner.decode(text[:-1]) == "a<|end|>"
    assert made.encode("a<|end|>") == [made.inner.token_to_id("a"), 256]


@pytest.mark.parametrize("template, text", [
    ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "it"),
    ("{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x }}", "1"),  # as in transformers: a scope of its own
    ("{{ tools is none }} {{ documents is none }}", "True True"),
    ("{{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, separators=(',', ':')) }}", '{"a":"é","b":1}'),
    ("{% for m in messages %}{% break %}{% endfor %}x", "x"),
])
def test_templates_are_rendered_as_transformers_does(template, text):
    assert RENDERER.render(template=template, messages=[{"role": "user", "content": "it"}], names={}) == {"text": text}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_forked_process_renders_for_itself_and_ends():
    def ask(words):
        return RENDERER.render(template="{{ messages[0].content }}", messages=[{"role": "user", "content": words}], names={})
    assert ask("before") == {"text": "before"}
    for renders in (False, True):
        child = os.fork()
        if child == 0:
            status = 0 if not renders or ask("child") == {"text": "child"} else 1
            RENDERER.end()  # as at the end of a process
            os._exit(status)
        timer = threading.Timer(20, os.kill, (child, 9))
        timer.start()
        assert os.waitpid(child, 0)[1] == 0
        timer.cancel()
        assert ask("parent") == {"text": "parent"}


def test_threads_leave_the_error_stream_where_it_is(capfd):
    where = os.fstat(2)

    def work():
        for _ in range(300):
            with errors.naming_panics("here", "nothing"):
                os.write(2, b"lost")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    after = os.fstat(2)
    assert (after.st_dev, after.st_ino) == (where.st_dev, where.st_ino) and capfd.readouterr().err == ""
    print("kept", file=sys.stderr)
    assert capfd.readouterr().err == "kept\n"


@pytest.mark.parametrize("error, says", [
    (FileNotFoundError(2, "No such file or directory", "x"), "f: No such file or directory, expected e"),
    (ValueError("ends at byte 7"), "f: ends at byte 7, expected e"), (KeyError("k"), "f: KeyError: 'k', expected e"),
    (ValueError("7, expected 8"), "f: 7, expected 8"), (RecursionError("x"), "f: nested too deeply, expected e"),
    (UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid start byte"), "f: byte 1 is no UTF-8, expected e"),
])
def test_messages_are_without_pythons_names_and_expect_one_thing(error, says):
    with pytest.raises(errors.ModelError) as raised:
        with errors.naming("f", "e"):
            raise error
    assert str(raised.value) == says


def test_text_that_is_no_utf8_is_named():
    assert errors.checked_text("TEXT", "café") == "café"
    with pytest.raises(errors.ModelError, match="^TEXT: byte 3 is no UTF-8, expected a text in UTF-8$"):
        errors.checked_text("TEXT", "caf\udce9")
