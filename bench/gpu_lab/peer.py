"""ggml's Vulkan attention on a GPU of the lab: what the driver's compiler makes of it, without a GPU. test-backend-ops of
Debian's llama.cpp-tests asks for the pipelines of a shape under the statistics layer, which writes them down."""
import dataclasses
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import ggml_attention  # noqa: E402
import lab  # noqa: E402
from shapes import Shape  # noqa: E402

# The specialisation constants of ggml's flash_attn shaders, by their ids (flash_attn_base.glsl).
TILE = ("workgroup_size", "rows", "keys", "head_dim", "v_head_dim", "clamps", "d_split", "row_split", "subgroup_size",
        "stages_in_shared_memory", "flags", "occupancy_limit")


@dataclasses.dataclass
class Peer:
    """Of a shape on a GPU. pipelines: the layer's records (pipeline_record.hpp) of attention proper, each also with tile,
    path (scalar, coopmat1 or coopmat2) and multiply_adds. reason: why there are none."""
    pipelines: list
    reason: str = ""


def why_not(shape):
    """What ggml's attention cannot do at all; "" for a shape that it may take."""
    if not isinstance(shape, Shape):
        return "not a shape of attention"
    if shape.page_size:
        return "ggml has no paged K and V"
    if shape.key_list or shape.variant or shape.backward:
        return "ggml has no lists of keys, no functions of one's own, no gradients of attention"
    if shape.kv_type not in ggml_attention.TYPES:
        return f"ggml has no K and V of {shape.kv_type}"
    if shape.head_dim % 8 or shape.v_head_dim % 8:
        return "ggml takes head sizes of multiples of 8 only"
    return ""


def compile_attention(shape, gpu):
    """Runs ggml on the GPU and reads what it compiles. Its names for pipelines come with debug markers."""
    reason = why_not(shape)
    if reason:
        return Peer([], reason)
    with ggml_attention.case_file(shape, lab.BUILD) as cases:
        ran, records = lab.run_under_layer(gpu, "GGML_VK_DEBUG_MARKERS=1",
                                           *ggml_attention.command(str(lab.ROOT / "scripts/modern-root"), "run"),
                                           "--test-file", cases)
    pipelines = [with_tile(record) for record in records if is_attention(record)]
    return Peer(pipelines) if pipelines else Peer([], explain(ran))


def is_attention(record):
    """Not the masks' blocks, the join of parts, copies."""
    return (record["module"] or "").startswith("flash_attn")


def explain(run):
    """A line on a run that compiled no attention."""
    output = run.stdout + run.stderr
    if "not supported" in output:
        return "ggml's Vulkan backend does not support the shape on this GPU"
    lines = output.strip().splitlines()
    return f"test-backend-ops compiled no attention, status {run.returncode}" + (f": {lines[-1]}" if lines else "")


def with_tile(record):
    tile = {name: record["constants"].get(str(id)) for id, name in enumerate(TILE)}
    path = next((path for ending, path in (("_cm1", "coopmat1"), ("_cm2", "coopmat2")) if record["module"].endswith(ending)),
                "scalar")
    return record | {"tile": tile, "path": path, "multiply_adds": multiply_adds(tile, path)}


def multiply_adds(tile, path):
    """In a iteration of the loop over keys: of an invocation, or matrix instructions (16 x 16 x 16) of a subgroup; None where the
    driver shares out the matrices."""
    products = tile["rows"] * tile["keys"] * (tile["head_dim"] + tile["v_head_dim"])
    if path == "scalar":
        return products / tile["workgroup_size"]
    return products / 16 ** 3 * tile["subgroup_size"] / tile["workgroup_size"] if path == "coopmat1" else None
