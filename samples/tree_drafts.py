"""Tokens in fewer steps, in Python: several guesses of what comes next, as a tree, are verified in one call of a layer with a
tree_mask, and of the path that was right the cache keeps keys and values.

The model is made up, one layer without RoPE; a layer with it takes each draft's position, the tokens held and its depth, as `positions`.
What guesses is a lookup of what followed the same token before.
"""
import numpy
import vkattn

WIDTH, HEADS, KV_HEADS, VOCABULARY, DRAFT, TOKENS = 64, 4, 2, 12, 8, 64
random = numpy.random.default_rng(3)
EMBEDDING, HEAD = random.standard_normal((2, VOCABULARY, WIDTH)).astype("float32")
LAYER = vkattn.Layer("mha", {f"{name}.weight": 0.3 * random.standard_normal((rows, WIDTH)).astype("float32") for name, rows in (
    ("q_proj", WIDTH), ("k_proj", WIDTH // 2), ("v_proj", WIDTH // 2), ("out_proj", WIDTH))},
    embed_dim=WIDTH, num_heads=HEADS, num_kv_heads=KV_HEADS)


def draft(text):
    """Nodes [token, the node that it follows], the text's last token first: what followed it where it stood before."""
    nodes = [[text[-1], -1]]
    for at in reversed(range(len(text) - 1)):
        if text[at] == text[-1]:
            node = 0
            for token in text[at + 1:at + 5]:
                if [token, node] not in nodes and len(nodes) < DRAFT:
                    nodes.append([token, node])
                if [token, node] not in nodes:
                    break
                node = nodes.index([token, node])
    return nodes


def generate(drafts):
    """A text of TOKENS, and how many calls it took: one of each token, or one of each tree."""
    cache, text, calls = LAYER.cache(TOKENS + DRAFT, key_type="f32"), [1], 0
    while len(text) < TOKENS:
        nodes = draft(text) if drafts else [[text[-1], -1]]
        hidden = EMBEDDING[[token for token, _ in nodes]][None]
        output = LAYER(hidden, cache=cache, residual=hidden, tree_mask=vkattn.tree_mask([[parent for _, parent in nodes]]))
        following = (output[0] @ HEAD.T).argmax(-1).tolist()
        held, accepted, node = len(text) - 1, [], 0  # of the last token the cache holds nothing yet
        while node is not None:
            accepted.append(held + node)
            text.append(following[node])
            child = [following[node], node]
            node = nodes.index(child) if child in nodes else None
        cache.keep(0, held, accepted)
        calls += 1
    return text[:TOKENS], calls


expected, calls = generate(False)
text, calls_of_trees = generate(True)
print(f"{TOKENS - 1} tokens in {calls} calls, with trees of drafts in {calls_of_trees}: "
      f"{'the same tokens' if text == expected else 'other tokens'}")
assert text == expected and calls_of_trees < calls
