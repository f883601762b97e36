"""Serves sequences that come and go, in Python: an attention layer of a made-up model, a pool of pages for its keys and values.

Every step packs what there is to do, whole prompts of new sequences beside one token of each older one, and computes it at
once: projections, an append to the pages, attention over them. A sequence leaves when it is done, and its pages serve the
next. At the end each sequence is computed once more by NumPy, alone.
"""
import numpy
import vkattn

HEADS, KV_HEADS, HEAD_DIM, WIDTH, PAGE = 8, 2, 32, 128, 16
random = numpy.random.default_rng(1)
PROMPTS = [random.standard_normal((length, WIDTH)).astype("float32") for length in (5, 40, 17, 3, 29)]
NEW_TOKENS = [12, 4, 9, 15, 6]
WEIGHTS = {name: (random.standard_normal((rows, columns)) / columns ** 0.5).astype("float32") for name, rows, columns in (
    ("query", HEADS * HEAD_DIM, WIDTH), ("key", KV_HEADS * HEAD_DIM, WIDTH), ("value", KV_HEADS * HEAD_DIM, WIDTH),
    ("output", WIDTH, HEADS * HEAD_DIM))}


class Server:
    """Prompts that wait, and sequences that run: [number of the prompt, sequence of the cache, hidden states to compute]."""

    def __init__(self, context, most_sequences, pages):
        self.weights = {name: context.array(weight, "float16") for name, weight in WEIGHTS.items()}  # uploaded once
        self.cache = context.kv_cache(KV_HEADS, HEAD_DIM, pages=pages, page_size=PAGE, key_dtype="float32")
        self.most_sequences = most_sequences
        self.waiting, self.running = list(range(len(PROMPTS))), []
        self.results = [[] for _ in PROMPTS]

    def admit(self):
        """Takes in prompts while there is room for all that they will grow to."""
        def pages(prompt):
            return -(-(len(PROMPTS[prompt]) + NEW_TOKENS[prompt]) // PAGE)
        reserved = sum(pages(prompt) for prompt, _, _ in self.running)
        while self.waiting and len(self.running) < self.most_sequences:
            reserved += pages(self.waiting[0])
            if reserved > self.cache.keys.shape[0]:
                return
            prompt = self.waiting.pop(0)
            self.running.append([prompt, self.cache.add(), PROMPTS[prompt]])

    def heads(self, hidden, name, heads):
        """A projection on the device, [total,width] to [1,heads,total,head size]: a view, nothing is moved for it."""
        return vkattn.linear(hidden, self.weights[name]).reshape(1, -1, heads, HEAD_DIM).transpose(0, 2, 1, 3)

    def step(self):
        """Computes what every running sequence has to compute, and returns how many tokens that were."""
        self.admit()
        bounds = numpy.concatenate([[0], numpy.cumsum([len(hidden) for _, _, hidden in self.running])])
        sequences = [sequence for _, sequence, _ in self.running]
        hidden = self.cache.context.array(numpy.concatenate([hidden for _, _, hidden in self.running]))
        self.cache.append(sequences, self.heads(hidden, "key", KV_HEADS), self.heads(hidden, "value", KV_HEADS), bounds)
        attended = self.cache.attend(self.heads(hidden, "query", HEADS), sequences, bounds)
        attended = attended.transpose(0, 2, 1, 3).contiguous().reshape(-1, HEADS * HEAD_DIM)
        output = vkattn.linear(attended, self.weights["output"], residual=hidden).numpy()
        for entry, last in zip(list(self.running), bounds[1:] - 1):
            prompt, sequence, _ = entry
            self.results[prompt].append(output[last])
            entry[2] = output[last:last + 1]  # the next token, where a model would sample one
            if len(self.results[prompt]) == NEW_TOKENS[prompt]:
                self.cache.remove(sequence)
                self.running.remove(entry)
        return bounds[-1]


def computed_alone(prompt):
    """What the model makes of a prompt, by NumPy."""
    weights = {name: weight.astype("float16").astype("float64") for name, weight in WEIGHTS.items()}
    hidden, results = PROMPTS[prompt].astype("float64"), []
    while len(results) < NEW_TOKENS[prompt]:
        query, key, value = (numpy.moveaxis((hidden @ weights[name].T).reshape(len(hidden), -1, HEAD_DIM), 1, 0)
                             for name in ("query", "key", "value"))
        key, value = (array.repeat(HEADS // KV_HEADS, axis=0) for array in (key, value))
        scores = numpy.einsum("hd,hkd->hk", query[:, -1], key) / HEAD_DIM ** 0.5
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        attended = numpy.einsum("hk,hkd->hd", scores / scores.sum(axis=1, keepdims=True), value)
        results.append(attended.ravel() @ weights["output"].T + hidden[-1])
        hidden = numpy.concatenate([hidden, results[-1:]])
    return numpy.array(results)


def main():
    context = vkattn.default_context()
    server = Server(context, most_sequences=3, pages=8)
    print(f"{context.facts['name']}: a pool of {server.cache.free_pages} pages, {server.cache.nbytes} bytes")
    steps = []
    while server.waiting or server.running:
        steps.append(int(server.step()))
    print(f"{len(PROMPTS)} sequences in {len(steps)} steps of {steps} tokens")
    error = max(((numpy.array(results) - computed_alone(prompt)) ** 2).sum() / (computed_alone(prompt) ** 2).sum()
                for prompt, results in enumerate(server.results))
    print(f"each is what it is alone: normalised mean squared error {error:.1e}")
    assert error < 1e-9 and server.cache.free_pages == 8


if __name__ == "__main__":
    main()
