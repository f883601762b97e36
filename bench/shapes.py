"""Shapes of attention and of linear layers, and how `vkattn bench` times one: what the benchmarks here share."""
import dataclasses
import json
import subprocess


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    v_head_dim: int
    causal: bool
    kv_type: str
    batch: int = 1
    query_type: str = "f32"
    page_size: int = 0  # positions; 0: K and V are not in pages
    key_list: int = 0  # keys that each query's list names; 0: there are no lists
    variant: str = ""  # a file of functions; "": none
    kv_scales: str = "none"  # tensor, head, row
    backward: bool = False  # the gradients in place of attention

    def flops(self):
        """Of the query-key pairs that the mask leaves."""
        pairs = self.q_len * self.kv_len
        if self.causal:
            pairs -= self.q_len * (self.q_len - 1) / 2
        return 2 * self.batch * self.heads * pairs * (self.head_dim + self.v_head_dim)


    def options(self):
        """Of `vkattn bench`."""
        options = ["--batch", self.batch, "--heads", self.heads, "--kv-heads", self.kv_heads, "--q-len", self.q_len,
                   "--kv-len", self.kv_len, "--head-dim", self.head_dim, "--v-head-dim", self.v_head_dim,
                   "--dtype", self.query_type, "--kv-dtype", self.kv_type]
        options += ["--causal"] if self.causal else []
        options += ["--page-size", self.page_size] if self.page_size else []
        options += ["--key-list", self.key_list] if self.key_list else []
        options += ["--variant", self.variant] if self.variant else []
        options += ["--kv-scales", self.kv_scales] if self.kv_scales != "none" else []
        options += ["--backward"] if self.backward else []
        return options + (["--value-in-key"] if self.head_dim != self.v_head_dim else [])


@dataclasses.dataclass(frozen=True)
class IndexShape:
    """The choice of chosen keys for each query."""
    name: str
    heads: int
    q_len: int
    kv_len: int
    head_dim: int
    kv_type: str
    chosen: int

    def options(self):
        """Of `vkattn bench`."""
        return ["--index", self.chosen, "--heads", self.heads, "--q-len", self.q_len, "--kv-len", self.kv_len, "--head-dim",
                self.head_dim, "--kv-dtype", self.kv_type]


@dataclasses.dataclass(frozen=True)
class LinearShape:
    name: str
    rows: int
    in_features: int
    out_features: int
    kind: str
    input_norm: bool = False
    weight_type: str = ""  # "": kind
    backward: bool = False  # the gradients in place of the product

    def options(self):
        """Of `vkattn bench`."""
        options = ["--op", "linear", "--rows", self.rows, "--in-features", self.in_features, "--out-features", self.out_features,
                   "--dtype", self.kind]
        options += ["--weight-dtype", self.weight_type] if self.weight_type else []
        options += ["--backward"] if self.backward else []
        return options + (["--input-norm"] if self.input_norm else [])


@dataclasses.dataclass(frozen=True)
class WholeShape:
    """Decoder layers with caches of K and V in f16, as language models have them: tokens after `past` others.

    weights     of matrices: f16, q4_1, or q4_K, where what no super-block divides is q5_0
    layers      one behind the other
    vocabulary  rows of the embedding, which is the output's matrix, too: q8_0, or f16 as the others are; 0: the layers alone,
                from hidden states to hidden states
    family      llama: Llama's layer; gemma3: with norms of heads, norms after attention and feed-forward, and GELU
    """
    name: str
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    weights: str
    tokens: int
    past: int
    layers: int = 1
    vocabulary: int = 0
    family: str = "llama"


@dataclasses.dataclass(frozen=True)
class ServingShape:
    """Attention of a server's step, over pages of K and V in f16: a prompt that has nothing before it beside decodes, a token each
    after `past` others."""
    name: str
    prompt: int
    decodes: int
    past: int
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 128


def time_vkattn(program, shape, *arguments):
    """What `vkattn bench --json` says of the shape, with one set of inputs."""
    command = [program, "bench", *shape.options(), "--input-sets", 1, "--json", *arguments]
    return json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
