"""Attention shapes, and how `vkattn bench` times one: what the benchmarks here share."""
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

    def flops(self):
        """Of the query-key pairs that the mask leaves."""
        pairs = self.q_len * self.kv_len
        if self.causal:
            pairs -= self.q_len * (self.q_len - 1) / 2
        return 2 * self.batch * self.heads * pairs * (self.head_dim + self.v_head_dim)


def time_vkattn(program, shape, *arguments):
    """What `vkattn bench --json` says of the shape, with one set of inputs."""
    command = [program, "bench", "--batch", shape.batch, "--heads", shape.heads, "--kv-heads", shape.kv_heads,
               "--q-len", shape.q_len, "--kv-len", shape.kv_len, "--head-dim", shape.head_dim, "--v-head-dim", shape.v_head_dim,
               "--dtype", shape.query_type, "--kv-dtype", shape.kv_type, "--input-sets", 1, "--json", *arguments]
    command += ["--causal"] if shape.causal else []
    command += ["--value-in-key"] if shape.head_dim != shape.v_head_dim else []
    return json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
