"""Text that goes on: prompts, conversations by a model's own template, perplexity."""
import math
import sys

import numpy

from .errors import ModelError, require
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


class Writer:
    """Writes on after a text, in one cache: what a new text has in common with the last is not computed again."""

    def __init__(self, decoder, tokenizer, sampler, bar):
        """bar: makes a progress bar of a number of tokens."""
        self.decoder, self.tokenizer, self.sampler, self.bar = decoder, tokenizer, sampler, bar
        self._held = []  # the tokens of the cache

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
        return new, "count"

    def _read(self, tokens):
        common = 0
        while common < min(len(tokens) - 1, len(self._held)) and tokens[common] == self._held[common]:
            common += 1
        self.decoder.rewind(common)
        self._held = self._held[:common]
        with self.bar(len(tokens) - common) as progress:
            token = self.decoder.next_token(tokens[common:], self.sampler, progress)
        self._held = list(tokens)
        return token


def converse(writer, system, most, lines, ask, say):
    """Answers line after line. ask: called before each; say: called with words of its own."""
    messages = [{"role": "system", "content": system}] if system else []
    rendered(writer.tokenizer, [*messages, {"role": "user", "content": ""}])  # before anybody writes
    ask()
    for line in lines:
        if line.strip():
            messages.append({"role": "user", "content": line.strip()})
            tokens = writer.tokenizer.encode(rendered(writer.tokenizer, messages))
            if len(tokens) >= writer.decoder.capacity:
                say(f"the context of {writer.decoder.capacity} tokens is full: the conversation has {len(tokens)}; see --context")
                return
            pieces = []
            _, why = writer.write(tokens, most, lambda piece: (pieces.append(piece), show_now(piece)))
            show_now("\n")
            messages.append({"role": "assistant", "content": "".join(pieces)})
            if why == "context":
                say(f"the context of {writer.decoder.capacity} tokens is full; see --context")
                return
        ask()


def show_now(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def losses(decoder, begin, part):
    """What the tokens of the second half of a part of a text lose: -log of the probability of each, by those before it.

    begin  the token that all text begins with, in the place of the part's first; or None
    """
    decoder.rewind(0)
    found = []
    for at, logits in decoder.every_logits(part if begin is None else [begin, *part[1:]], len(part) // 2):
        end = min(len(part) - 1, at + len(logits))
        if at < end:
            found.append(-log_likelihoods(logits[:end - at], part[at + 1:end + 1]))
    return numpy.concatenate(found)


def perplexity(decoder, tokenizer, text, bar):
    """(exp of the mean negative log-likelihood, how many tokens it is of, its standard error), as llama.cpp counts it: the text
    in parts of the decoder's capacity, each begun anew, of each the second half."""
    tokens, size = tokenizer.encode(text), decoder.capacity
    count = len(tokens) // size
    if count == 0 or size < 4:
        raise ModelError(f"text: {len(tokens)} tokens, expected at least {max(size, 4)}, one part of the context: see --context")
    sums, squares, scored = 0.0, 0.0, 0
    with bar(count * size) as progress:
        for start in range(0, count * size, size):
            found = losses(decoder, tokenizer.begin, tokens[start:start + size])
            sums, squares, scored = sums + found.sum(), squares + (found ** 2).sum(), scored + len(found)
            progress.update(size)
    mean = sums / scored
    spread = math.sqrt(max(squares / scored - mean ** 2, 0.0) / max(scored - 1, 1))
    value = math.exp(min(mean, _MOST_LOSS))
    return value, scored, value * spread
