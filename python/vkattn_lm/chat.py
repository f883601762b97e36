"""Text that goes on: prompts, conversations by a model's own template, perplexity."""
import dataclasses
import math
import sys
import time

import numpy

from .errors import ModelError, checked_text, require
from .sampling import log_likelihoods
from .template import RENDERER

_MOST_LOSS = 700.0  # of which exp is a number


def rendered(tokenizer, messages):
    """A conversation as the model's template writes it, up to where the model is to answer."""
    if tokenizer.template is None:
        raise ModelError(f"{tokenizer.where}: has no chat template, expected a model with one: see vkattn-lm complete")
    require("jinja2", "jinja2")
    answer = RENDERER.render(template=tokenizer.template, messages=messages, names=tokenizer.names)
    if "says" in answer:
        raise ModelError(f"{tokenizer.where}: its chat template says: {answer['says']}, expected a conversation that it takes")
    if "wrong" in answer:
        raise ModelError(f"{tokenizer.where}: chat template: {answer['wrong']}, expected one that jinja2 computes")
    return answer["text"]


@dataclasses.dataclass
class Speed:
    """How long a text took: tokens of the prompt that were not held, with which the first new one comes, and those after that."""
    read: int = 0
    read_seconds: float = 0.0
    made: int = 0
    made_seconds: float = 0.0

    def __str__(self):
        after = f"; then {self.made} at {self.made / max(self.made_seconds, 1e-9):.1f} tokens/s" if self.made else ""
        return f"prompt of {self.read} tokens at {self.read / max(self.read_seconds, 1e-9):.1f} tokens/s{after}"


class Writer:
    """Writes on after a text, in one cache: what a new text has in common with the last is not computed again. speed: of the
    last text, also where it was interrupted, after which another can be written."""

    def __init__(self, decoder, tokenizer, sampler, bar):
        """bar: makes a progress bar of a number of tokens."""
        self.decoder, self.tokenizer, self.sampler, self.bar = decoder, tokenizer, sampler, bar
        self.speed = Speed()
        self._held = []  # the tokens of the cache, which may have more behind them

    def write(self, tokens, most, show):
        """Goes on after tokens until the model ends, after `most` tokens (None: any), or where the context is full.

        show  called with each piece of text
        Returns (the new tokens, why it ended: "end", "count" or "context").
        """
        if not tokens:
            raise ModelError("prompt: no tokens, expected at least 1")
        if len(tokens) >= self.decoder.capacity:
            raise ModelError(f"prompt: {len(tokens)} tokens, expected fewer than {self.decoder.capacity}, the context's: see "
                             "--context")
        token, new, piece = self._read(tokens), [], self.tokenizer.stream()
        begun = time.perf_counter()
        while most is None or len(new) < most:
            if token in self.tokenizer.ends:
                return new, "end"
            new.append(token)
            show(piece(token) if token < self.tokenizer.size else "")
            if most is not None and len(new) == most:
                break
            if len(self._held) == self.decoder.capacity:
                return new, "context"
            held, token = token, self.decoder.next_token([token], self.sampler)
            self._held.append(held)
            self.speed.made, self.speed.made_seconds = self.speed.made + 1, time.perf_counter() - begun
        return new, "count"

    def _read(self, tokens):
        common = 0
        while common < min(len(tokens) - 1, len(self._held)) and tokens[common] == self._held[common]:
            common += 1
        self._held, self.speed = self._held[:common], Speed(len(tokens) - common)  # before what may be interrupted
        begun = time.perf_counter()
        self.decoder.rewind(common)
        with self.bar(len(tokens) - common) as progress:
            token = self.decoder.next_token(tokens[common:], self.sampler, progress)
        self._held, self.speed.read_seconds = list(tokens), time.perf_counter() - begun
        return token


def why_ended(writer, most, why):
    """In words, where the model did not end a text itself."""
    return {"count": f"ended after {most} tokens; see --tokens",
            "context": f"the context of {writer.decoder.capacity} tokens is full; see --context"}.get(why)


class Conversation:
    """Questions and answers, by the model's own template. What is done returns whether there is room for more.

    most  tokens of an answer, None: any number
    show  called with each piece of an answer
    say   called with words on it; tell: with those that may be left out
    """
    COMMANDS = {"/help": "lists these commands", "/clear": "forgets what was said", "/again": "answers the last question once more",
                "/exit": "ends the conversation, as Ctrl-D does; Ctrl-C ends an answer"}

    def __init__(self, writer, system, most, show, say, tell):
        self._writer, self._most, self._show, self._say, self._tell = writer, most, show, say, tell
        self._begun = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._begun)
        rendered(writer.tokenizer, [*self._begun, {"role": "user", "content": ""}])  # before anybody writes

    def do(self, line):
        """What a line asks for: one of COMMANDS, else an answer."""
        if line in self.COMMANDS:
            return getattr(self, line[1:])()
        self._messages.append({"role": "user", "content": line})
        return self._answer()

    def help(self):
        for name, words in self.COMMANDS.items():
            self._say(f"{name:7} {words}")
        return True

    def clear(self):
        self._messages = list(self._begun)
        return True

    def again(self):
        if self._messages == self._begun:
            self._say("there is no answer yet")
            return True
        self._messages.pop()
        return self._answer()

    def exit(self):
        raise EOFError

    def _answer(self):
        """To the last question, which goes if nothing is said; what is said until an interrupt stays."""
        writer, pieces = self._writer, []
        try:
            tokens = writer.tokenizer.encode(rendered(writer.tokenizer, self._messages))
            if len(tokens) >= writer.decoder.capacity:
                self._say(f"the context of {writer.decoder.capacity} tokens is full: the conversation has {len(tokens)}; see "
                          "--context, or /clear")
                return False
            _, why = writer.write(tokens, self._most, lambda piece: (pieces.append(piece), self._show(piece)))
            pieces.append("")  # an answer, even of no text
        finally:
            if pieces:
                self._show("\n")
                self._messages.append({"role": "assistant", "content": "".join(pieces)})
                self._tell(str(writer.speed))
            else:
                self._messages.pop()
        if why_ended(writer, self._most, why):
            self._say(why_ended(writer, self._most, why))
        return why != "context"


def converse(conversation, lines, say, keeps):
    """Does what each line asks for. keeps: an interrupt, a full context and a refusal end an answer alone, as where a person
    types."""
    for line in lines:
        goes_on = True
        try:
            line = checked_text("standard input", line.strip())
            goes_on = not line or conversation.do(line)
        except EOFError:
            return
        except KeyboardInterrupt:
            if not keeps:
                raise
        except ModelError as error:
            if not keeps:
                raise
            say(f"error: {error}")
        if not goes_on and not keeps:
            return


def show_now(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def losses(decoder, begin, part, progress=None):
    """What the tokens of the second half of a part of a text lose: -log of the probability of each, by those before it.

    begin  the token that all text begins with, in the place of the part's first; or None
    """
    decoder.rewind(0)
    found = []
    for at, logits in decoder.every_logits(part if begin is None else [begin, *part[1:]], len(part) // 2, progress):
        end = min(len(part) - 1, at + len(logits))
        if at < end:
            found.append(-log_likelihoods(logits[:end - at], part[at + 1:end + 1]))
    return numpy.concatenate(found)


def perplexity(decoder, tokenizer, text, bar):
    """(exp of the mean negative log-likelihood, how many tokens it is of, its standard error), as llama.cpp counts it: the text
    in parts of the decoder's capacity, each begun anew, of each the second half. Names of control tokens are text, as there."""
    tokens, size = tokenizer.encode(text, markers=False), decoder.capacity
    count = len(tokens) // size
    if count == 0 or size < 4:
        raise ModelError(f"text: {len(tokens)} tokens, expected at least {max(size, 4)}, one part of the context: see --context")
    sums, squares, scored = 0.0, 0.0, 0
    with bar(count * size) as progress:
        for start in range(0, count * size, size):
            found = losses(decoder, tokenizer.begin, tokens[start:start + size], progress)
            sums, squares, scored = sums + found.sum(), squares + (found ** 2).sum(), scored + len(found)
    mean = sums / scored
    spread = math.sqrt(max(squares / scored - mean ** 2, 0.0) / max(scored - 1, 1))
    value = math.exp(min(mean, _MOST_LOSS))
    return value, scored, value * spread
