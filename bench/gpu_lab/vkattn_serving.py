"""python3 vkattn_serving.py SHAPE packed|prompt|decodes: attention of a ServingShape (JSON) over a paged cache of the Python
package, of all rows in one packed batch, or of the prompt or the decodes alone, in the root of scripts/modern-root. Prints which dispatches
computed it, and "right" or "wrong" with the error."""
import json
import os
import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

import decoder_weights  # noqa: E402
import vkattn  # noqa: E402

PAGE = 16


class Step:
    """The rows that are asked for: lengths of sequences, and queries of each, [heads, queries, size]."""

    def __init__(self, shape, part):
        self.__dict__.update(shape)
        prompts, decodes = [(self.prompt, self.prompt)], [(1, self.past + 1)] * self.decodes
        rows = {"packed": prompts + decodes, "prompt": prompts, "decodes": decodes}[part]
        random = numpy.random.default_rng(7)
        self.counts, self.lengths = zip(*rows)
        self.queries = random.standard_normal((self.heads, sum(self.counts), self.head_dim), numpy.float32).astype("f2")
        self.keys, self.values = ([random.standard_normal((1, self.kv_heads, length, self.head_dim), numpy.float32).astype("f2")
                                   for length in self.lengths] for _ in "kv")

    def compute(self):
        """(the result [heads, rows, size], the dispatches that made it)"""
        context = vkattn.Context(traits=os.environ.get("VKATTN_DEVICE_TRAITS", ""))  # the lab's: no self-test among what is counted
        pages = sum(-(-length // PAGE) for length in self.lengths)
        cache = context.kv_cache(self.kv_heads, self.head_dim, pages=pages, page_size=PAGE)
        sequences = [cache.add() for _ in self.lengths]
        for sequence, keys, values in zip(sequences, self.keys, self.values):
            cache.append([sequence], context.array(keys), context.array(values))
        starts = numpy.cumsum([0, *self.counts]).astype("i4")
        queries, before = context.array(self.queries[None]), decoder_weights.dispatches_so_far()
        result = cache.attend(queries, sequences, starts)
        counted = before, decoder_weights.dispatches_so_far()
        return result.numpy()[0], counted

    def samples(self):
        """(sequence, its query, row): of the first, the middle and the last sequences some queries."""
        starts = numpy.cumsum([0, *self.counts])
        for sequence in sorted({0, len(self.counts) // 2, len(self.counts) - 1}):
            for query in sorted({0, self.counts[sequence] // 2, self.counts[sequence] - 1}):
                yield sequence, query, starts[sequence] + query

    def wanted(self):
        found = []
        for sequence, query, row in self.samples():
            visible = self.lengths[sequence] - self.counts[sequence] + query + 1
            for head in range(self.heads):
                of_kv = head * self.kv_heads // self.heads
                keys, values = (each[sequence][0, of_kv, :visible].astype("f8") for each in (self.keys, self.values))
                scores = keys @ self.queries[head, row].astype("f8") * self.head_dim ** -0.5
                weights = numpy.exp(scores - scores.max())
                found.append(weights @ values / weights.sum())
        return numpy.array(found)


def main():
    step = Step(json.loads(sys.argv[1]), sys.argv[2])
    result, counted = step.compute()
    rows = [row for _, _, row in step.samples()]
    decoder_weights.tell(result[:, rows].transpose(1, 0, 2).reshape(-1, step.head_dim).astype("f8"), step, counted)


if __name__ == "__main__":
    main()
