"""vkattn-lm as a person and a shell find it: interrupts, commands of a conversation, streams that are closed or full, progress."""
import io
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    pytest.importorskip(module)

import lm_models  # noqa: E402
from vkattn_lm import chat, model, terminal  # noqa: E402

PYTHON = pathlib.Path(__file__).parents[2]
SAID = re.compile(r"vkattn-lm: prompt of \d+ tokens at [\d.]+ tokens/s(; then \d+ at [\d.]+ tokens/s)?")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    path = tmp_path_factory.mktemp("terminal") / "llama.gguf"
    sizes = {**lm_models.SIZES, "layers": 1, "context": 512}
    lm_models.write_gguf(path, lm_models.weights_of(lm_models.byte_level().get_vocab_size(), **sizes), sizes)
    return path


class Typed(io.StringIO):
    """Standard input of a person who types."""

    def isatty(self):
        return True


@pytest.fixture
def talk(run, llama, monkeypatch):
    """Of a conversation in which a person types some lines: exit status, output, lines of errors, and the messages each time that
    the model is to answer."""
    def of(*lines, words=("--tokens", 3, "--seed", 1), interrupted=()):
        given, asked, shown, rendered = iter(lines), [], [], chat.rendered

        def typed(prompt):
            line = next(given, EOFError)
            if not isinstance(line, str):
                raise line
            return line

        def show(piece):
            shown.append(piece)
            print(piece, end="")
            if len(shown) in interrupted:
                raise KeyboardInterrupt
        monkeypatch.setattr("builtins.input", typed)
        monkeypatch.setattr(chat, "show_now", show)
        monkeypatch.setattr(chat, "rendered", lambda read, messages: asked.append([dict(each) for each in messages])
                            or rendered(read, messages))
        return *run("chat", llama, *words, stdin=Typed()), asked[1:]  # the first is before anybody types
    return of


def test_a_conversation_tells_its_speed_and_why_an_answer_ended(run, llama):
    status, _, err = run("chat", llama, "--tokens", 3, "--seed", 1, given="it\n")
    assert status == 0 and len(err) == 3 and "context of 512 tokens" in err[0] and SAID.fullmatch(err[1])
    assert err[2] == "vkattn-lm: ended after 3 tokens; see --tokens"
    status, _, err = run("complete", llama, "the cat", "--tokens", 3)
    assert status == 0 and err[0] == "vkattn-lm: ended after 3 tokens; see --tokens" and SAID.fullmatch(err[1]) and len(err) == 2
    for words, given in (("chat", llama, "--tokens", 3, "--quiet"), "it\n"), (("complete", llama, "it", "--tokens", 3, "-q"), ""):
        status, _, err = run(*words, given=given)
        assert status == 0 and err == ["vkattn-lm: ended after 3 tokens; see --tokens"]


def test_an_interrupt_ends_the_answer_and_keeps_the_conversation(talk):
    status, out, err, asked = talk("one", "two", "/exit", words=("--tokens", 4, "--seed", 1), interrupted=(2,))
    assert status == 0 and not [line for line in err if "error" in line]
    assert [each["content"] for each in asked[1] if each["role"] == "user"] == ["one", "two"]
    partial = asked[1][1]["content"]
    assert asked[1][1]["role"] == "assistant" and out.startswith(partial + "\n")
    assert sum(bool(SAID.fullmatch(line)) for line in err) == 2  # of what was interrupted, too


def test_what_follows_an_interrupt_is_what_it_is_without(talk, llama):
    """An interrupt at any place leaves a cache that can be gone on with."""
    words = ("--tokens", 5, "--temperature", 0)
    _, whole, _, _ = talk("the cat sat", words=words)
    for place in range(1, 5):
        _, out, _, asked = talk("the cat sat", "/clear", "the cat sat", words=words, interrupted=(place,))
        assert out.splitlines()[-2:] == whole.splitlines()[-2:] and asked[0] == asked[1]


def test_interrupts_inside_the_decoder_leave_a_conversation(talk, monkeypatch):
    attended, calls = model.Decoder._attended, []

    def interrupting(self, *rest):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return attended(self, *rest)
    monkeypatch.setattr(model.Decoder, "_attended", interrupting)
    status, _, err, asked = talk("one", "two")
    assert status == 0 and [each["content"] for each in asked[1]] == ["two"]  # nothing was said to the first


def test_an_interrupt_at_the_prompt_leaves(talk):
    assert talk("one", KeyboardInterrupt)[0] == 130
    assert talk("one")[0] == 0  # the end of the input


def test_an_interrupt_ends_a_conversation_that_nobody_types(run, llama, monkeypatch):
    monkeypatch.setattr(chat, "show_now", lambda piece: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("chat", llama, "--tokens", 3, given="one\ntwo\n")[0] == 130


def test_a_conversation_has_commands(talk):
    status, _, err, asked = talk("/help", "/again", "one", "/again", "two", "/clear", "three", "/exit", "four")
    users = [[each["content"] for each in messages if each["role"] == "user"] for messages in asked]
    assert status == 0 and users == [["one"], ["one"], ["one", "two"], ["three"]]
    assert asked[1] == asked[0] and len(asked[2]) == 3
    assert all(any(name in line for line in err) for name in chat.Conversation.COMMANDS)
    assert "vkattn-lm: there is no answer yet" in err


def test_a_full_context_ends_no_conversation_that_is_typed(talk):
    long = "the cat sat on the mat, the dog sat on the log; " * 4
    status, _, err, asked = talk(long, long, "/clear", "it", words=("--tokens", 3, "--context", 100))
    assert status == 0 and any("the context of 100 tokens is full" in line for line in err)
    assert [each["content"] for each in asked[-1]] == ["it"]


def test_a_line_that_is_no_utf8_ends_no_conversation_that_is_typed(talk, run, llama):
    status, _, err, asked = talk("caf\udce9", "it")
    assert status == 0 and "vkattn-lm: error: standard input: byte 3 is no UTF-8, expected a text in UTF-8" in err
    assert [each["content"] for each in asked[-1]] == ["it"]
    assert run("chat", llama, given="caf\udce9\n")[0] == 2


def test_a_line_goes_on_after_a_backslash(monkeypatch):
    lines = iter(["one\\", "two", "three"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    typed = terminal.typed_lines()
    assert [next(typed), next(typed)] == ["one\ntwo", "three"]


@pytest.mark.parametrize("words, where", [(("complete", "MODEL", "caf\udce9"), "TEXT"), (("complete", "MODEL", "-"), "standard input"),
                                          (("chat", "MODEL"), "standard input"), (("embed", "MODEL", "caf\udce9"), "text 1"),
                                          (("chat", "MODEL", "--system", "caf\udce9"), "--system")])
def test_bytes_that_are_no_utf8_are_named(run, llama, words, where):
    status, _, err = run(*(llama if word == "MODEL" else word for word in words), given="caf\udce9\n")
    assert status == 2 and err[-1] == f"vkattn-lm: error: {where}: byte 3 is no UTF-8, expected a text in UTF-8"


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PYTHON), *sys.path])}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize("words, closed, says", [
    (["complete", "MODEL", "-"], "<&-", "standard input: closed, expected a text"),
    (["complete", "MODEL", "it"], ">&-", "standard output: closed, expected it open"),
    (["--help"], ">/dev/full", "No space left on device"), (["chat", "--help"], ">/dev/full", "No space left on device"),
    (["--help"], "2>&-", None), (["complete", "no-such", "it"], "2>&-", "")])
@pytest.mark.parametrize("unbuffered", ["", "1"])  # of Python: a stream that is full fails at once
def test_streams_that_are_closed_or_full_get_one_line(llama, words, closed, says, unbuffered):
    """Of a closed error stream: nobody can be told, and nothing else is written to what is opened in its place."""
    if "full" in closed and not os.path.exists("/dev/full"):
        return
    words = [str(llama) if word == "MODEL" else word for word in words]
    made = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-B", "-m", "vkattn_lm", *words],
                          env={**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}, input="it", capture_output=True, text=True, timeout=120)
    lines = made.stderr.splitlines()
    assert made.returncode == (0 if says is None else 2) and len(lines) == bool(says)
    assert not says or lines[0].startswith("vkattn-lm: error: ") and lines[0].endswith(says)


@pytest.mark.skipif(sys.platform == "win32", reason="locales of POSIX")
def test_text_is_utf8_whatever_the_locale():
    words = ("import sys; from vkattn_lm import errors, terminal; texts = [terminal.standard_input().read(), *sys.argv[1:]]; "
             "print([[ord(each) for each in errors.checked_text('here', text)] for text in texts])")
    for more in ({"PYTHONUTF8": "1"}, {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}):
        made = subprocess.run([sys.executable, "-B", "-c", words, "ï".encode()], env={**ENVIRONMENT, **more}, input="ü".encode(),
                              capture_output=True, timeout=120)
        assert made.stdout == b"[[252], [239]]\n", made.stderr


class Screen:
    """vkattn-lm at a terminal of its own."""

    def __init__(self, *words):
        fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))
        try:
            self._own, other = pty.openpty()
        except OSError as error:
            pytest.skip(f"no terminals: {error}")
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))  # without it there is no room for progress
        self.process = subprocess.Popen([sys.executable, "-B", "-m", "vkattn_lm", *map(str, words)], stdin=other, stdout=other,
                                        stderr=other, start_new_session=True, env={**ENVIRONMENT, "TERM": "dumb"},
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # in the background ignored
        os.close(other)
        self.text, self.seen = "", 0

    def wait_for(self, words, seconds=120):
        os.set_blocking(self._own, False)
        until, start = time.monotonic() + seconds, self.seen
        while words not in self.text[start:]:
            assert time.monotonic() < until, self.text
            try:
                self.text += os.read(self._own, 4096).decode("utf-8", "replace")
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # its other end is closed
                break
        self.seen = self.text.find(words, start) + len(words)
        return self.text[start:]

    def type(self, words):
        os.write(self._own, words.encode())

    def end(self):
        status = self.process.wait(timeout=60)
        os.close(self._own)
        return status


def test_at_a_terminal_an_answer_is_interrupted_and_the_next_one_given(llama):
    screen = Screen("chat", llama, "--temperature", 0)
    begun = screen.wait_for("> ")
    assert "/help lists commands, Ctrl-D ends it" in begun and "weights:" in begun  # with progress
    screen.type("the cat\n")
    screen.wait_for("prompt: ")
    screen.process.send_signal(signal.SIGINT)  # before the first token: kernels are compiled
    screen.wait_for("> ")
    screen.type("/help\n")
    screen.wait_for("/clear")
    screen.wait_for("> ")
    screen.type("the cat\n")
    screen.wait_for("SSS")
    screen.process.send_signal(signal.SIGINT)
    screen.wait_for("tokens/s")
    screen.wait_for("> ")
    screen.type("/exit\n")
    screen.wait_for("\0never")
    assert screen.end() == 0 and "is full" not in screen.text, screen.text


def test_at_a_terminal_there_is_progress(llama):
    screen = Screen("bench", llama, "--prompt", 8, "--tokens", 2)
    shown = screen.wait_for("\0never")
    assert screen.end() == 0 and all(f"{name}:   0%" in shown for name in ("weights", "warm-up", "prompt", "tokens"))
    assert terminal.bar(7, "words", "", quiet=True).disable


def test_perplexity_tells_its_progress(llama, monkeypatch, run, tmp_path):
    counted = []

    class Bar:
        def __init__(self, total, **_):
            self.total = total

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, count):
            counted.append(count)
    (tmp_path / "text").write_text(lm_models.TEXT)
    monkeypatch.setattr(terminal, "bar", Bar)
    assert run("perplexity", llama, tmp_path / "text", "--context", 16, "--kv-type", "f32")[0] == 0
    assert sum(counted) == sum(each for each in counted if each == 1) + 16 * counted.count(16) > 32  # of weights, and of parts
