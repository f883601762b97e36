"""python3 vkattn_decoder.py SHAPE: vkattn's side of a WholeShape (JSON), by the decoder of vkattn-lm, in the root of
scripts/modern-root: a layer as a recorded program, a model as vkattn-lm runs it. Prints which dispatches computed it, the program's
report, and "right" or "wrong" with the error."""
import collections
import json
import os
import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

import decoder_weights  # noqa: E402
import vkattn  # noqa: E402
from vkattn import _abi  # noqa: E402
from vkattn.arrays import describe  # noqa: E402
from vkattn.calls import Call  # noqa: E402
from vkattn_lm.architectures import ARCHITECTURES, Config  # noqa: E402
from vkattn_lm.files import Stored  # noqa: E402
from vkattn_lm.model import Decoder  # noqa: E402
from vkattn_lm.rope import Rope  # noqa: E402


class Silent:
    def update(self, count):
        pass


class Source:
    """A Problem's weights, as vkattn_lm's files give them."""
    where = "random weights"

    def __init__(self, problem):
        self._problem = problem

    def names(self):
        return set(self._problem.shapes())

    def stored(self, name):
        kind, shape = self._problem.kind(name), self._problem.shapes()[name]
        data = self._problem.stored(name)
        data = data[None] if data.ndim == 1 else data  # a vector is one row

        def part(first, end):
            return data[first:end]

        def numbers(first, end):
            return decoder_weights.numbers_of(data[first:end], kind, (end - first, shape[1]))
        if kind in decoder_weights.BLOCKS:
            return Stored(name, shape, "float16", numbers, kind, part)
        return Stored(name, shape, "float32" if kind == "f32" else "float16", part)


def config_of(problem):
    architecture = ARCHITECTURES[problem.family]
    return Config(name=problem.family, architecture=architecture, width=problem.width, heads=problem.heads,
                  kv_heads=problem.kv_heads, head_dim=problem.head_dim, hidden=problem.hidden, context=8192,
                  epsilon=decoder_weights.EPSILON, scale=problem.head_dim ** -0.5, interleaved=not problem.is_gemma,
                  windows=tuple(problem.windows()), ropes=(Rope(decoder_weights.THETA, None),) * problem.layers, norm_offset=0.0,
                  embedding_scale=problem.width ** 0.5 if problem.is_gemma else 1.0)


def fill(cache, keys, values):
    """Appends K and V [sequences, kv_heads, tokens, size] to a cache."""
    call = Call(cache.context)
    inputs = {"key": cache.context.array(keys), "value": cache.context.array(values)}
    described = {role: describe(call.take(role, array), role) for role, array in inputs.items()}
    desc = _abi.CacheAppendDesc(cache=cache.handle.raw, **described)
    plans = cache.plans.setdefault("fill", collections.OrderedDict())
    call.run("vkattn_cache_append_plan", desc, plans=plans)


def compute(decoder, problem):
    """(what decoder_weights.tell takes, the program's report or None)"""
    tokens, before = problem.token_ids.tolist(), decoder_weights.dispatches_so_far()
    if problem.vocabulary:
        logits = decoder.logits(tokens)[None]
        return logits, (before, decoder_weights.dispatches_so_far()), None
    hidden = decoder.context.array(problem.hidden_states[None])
    with vkattn.record(decoder.context) as program:
        result = decoder.layers(hidden)
    before = decoder_weights.dispatches_so_far()
    program.replay()
    counted = before, decoder_weights.dispatches_so_far()
    added = result.numpy()[0].astype("f8") - problem.hidden_states
    return added[problem.samples()], counted, program.report


def main():
    problem = decoder_weights.Problem(json.loads(sys.argv[1]))
    context = vkattn.Context(traits=os.environ.get("VKATTN_DEVICE_TRAITS", ""))  # the lab's: no self-test among what is counted
    decoder = Decoder(Source(problem), config_of(problem), context, capacity=problem.capacity, kv_type="f16",
                      progress=Silent())
    if problem.past:
        for i, cache in enumerate(decoder.caches):
            fill(cache, *(problem.past_rows(i, part)[None] for part in "kv"))
    got, counted, report = compute(decoder, problem)
    if report:
        print(f"program: {report.dispatches} dispatches, {report.barriers} barriers", flush=True)
    decoder_weights.tell(got, problem, counted)


if __name__ == "__main__":
    main()
