"""A model's chat template, computed in a process of its own: it is a program of somebody else's, which may not end, or take all
memory. This file is that process, too; the two exchange lines of JSON."""
import atexit
import datetime
import json
import os
import subprocess
import sys
import threading

SECONDS = 10
BYTES = 1 << 30       # of memory, where the system can limit it
CHARACTERS = 1 << 22  # of the text


class Renderer:
    """The process, begun with the first template. Ends with this one, or where a template takes too long."""

    def __init__(self):
        self._process, self._lock = None, threading.Lock()

    def render(self, **request):
        """The answer to {template, messages, names}: {text}, {says}, what the template raised, or {wrong}."""
        with self._lock:
            if self._process is None:
                self._begin()
            late = threading.Event()
            timer = threading.Timer(SECONDS, lambda process: (late.set(), process.kill()), [self._process])
            timer.start()
            answer = ""
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            except OSError:  # it is no more
                pass
            finally:
                timer.cancel()
                if not answer:  # also of an interrupt, after which one may still come
                    self.end()
            return json.loads(answer) if answer else {
                "wrong": f"takes more than {SECONDS} s" if late.is_set() else "ends the process that computes it"}

    def _begin(self):
        self._process = subprocess.Popen([sys.executable, "-I", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, encoding="utf-8")
        self._process.stdin.write(json.dumps(sys.path) + "\n")

    def hold(self):
        """Before a fork, which so comes between two requests."""
        self._lock.acquire()

    def go_on(self):
        self._lock.release()

    def forget(self):
        """In a forked process, whose parent's the other one is: its pipes lead nowhere here, and another is begun."""
        process, self._process = self._process, None
        if process is not None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for pipe in (process.stdin, process.stdout):
                os.dup2(nowhere, pipe.fileno())
            os.close(nowhere)
            process.returncode = 0  # nothing to wait for
        self._lock.release()

    def end(self):
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


RENDERER = Renderer()
atexit.register(RENDERER.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=RENDERER.hold, after_in_parent=RENDERER.go_on, after_in_child=RENDERER.forget)


class _Raised(Exception):
    """What a template raises by raise_exception."""


def _raise(message):
    raise _Raised(" ".join(str(message).split())[:200])


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _generation(jinja2):
    """The extension of {% generation %}, which tells training what a model is to say, and changes no text."""
    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)
    return Generation


def _rendered(jinja2, template, messages, names):
    """As transformers does it, with its names."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_generation(jinja2), jinja2.ext.loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise, strftime_now=lambda form: datetime.datetime.now().strftime(form))
    text = environment.from_string(template).render(messages=messages, tools=None, documents=None, add_generation_prompt=True,
                                                    **names)
    if len(text) > CHARACTERS:
        raise ValueError(f"gives {len(text)} characters, expected at most {CHARACTERS}")
    return text


def _answer(jinja2, request):
    try:
        return {"text": _rendered(jinja2, **request)}
    except _Raised as raised:
        return {"says": str(raised)}
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        return {"wrong": f"{type(error).__name__}{': ' if words else ''}{words}"}


def _serve():
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for the process that asks
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    except (ImportError, ValueError, OSError):
        pass
    sys.path[:] = json.loads(sys.stdin.readline())
    import jinja2.ext
    import jinja2.sandbox
    for line in sys.stdin:
        print(json.dumps(_answer(jinja2, json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()
