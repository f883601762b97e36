"""ggml's attention on its Vulkan backend: Debian's llama.cpp-tests, and the lines that tell it a shape. What the
comparisons of times and of machine code share."""
import contextlib
import functools
import struct
import subprocess
import tempfile

# number, bytes and elements of a block
TYPES = {"f32": (0, 4, 1), "f16": (1, 2, 1), "q4_0": (2, 18, 32), "q8_0": (8, 34, 32), "q4_K": (12, 144, 256), "q6_K": (14, 210, 256),
         "bf16": (30, 2, 1)}


def strides(kind, ne):
    _, size, block = TYPES[kind]
    nb = [size, size * ne[0] // block]
    return nb + [nb[1] * ne[1], nb[1] * ne[1] * ne[2]]


def source(kind, ne, nb=None):
    return " ".join(map(str, [TYPES[kind][0], *ne, *(nb or strides(kind, ne))]))


PRECISION_DEFAULT, PRECISION_F32 = 0, 10  # by default ggml sums in f16 where the device has it


def case(shape):
    """A line of test-backend-ops' --test-file: op, type, ne, parameters, sources with their sizes and strides. A causal
    shape has the only mask that ggml knows, a dense tensor of f16; values that are part of the keys have their strides."""
    keys = [shape.head_dim, shape.kv_len, shape.kv_heads, shape.batch]
    value_strides = strides(shape.kv_type, keys) if shape.v_head_dim != shape.head_dim else None
    scale = struct.unpack("<i", struct.pack("<f", shape.head_dim ** -0.5))[0]
    sources = [source("f32", [shape.head_dim, shape.q_len, shape.heads, shape.batch]),
               source(shape.kv_type, keys),
               source(shape.kv_type, [shape.v_head_dim, *keys[1:]], value_strides)]
    if shape.causal:
        sources.append(source("f16", [shape.kv_len, shape.q_len, 1, 1]))
    return " ".join(map(str, [74, 0, shape.v_head_dim, shape.heads, shape.q_len, shape.batch, 4, scale, 0, 0, PRECISION_F32,
                              len(sources), *sources, "case"]))


@contextlib.contextmanager
def case_file(shape, folder=None):
    """The name of a file that holds the shape's case."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=folder) as cases:
        cases.write(case(shape) + "\n")
        cases.flush()
        yield cases.name


@functools.cache
def command(*root, program=None):
    """Measures FLASH_ATTN_EXT on the first Vulkan device; --test-file FILE or -p PATTERN says what of it. root: how to run a
    command where ggml is, if it is elsewhere. program: test-backend-ops; None: that of Debian's llama.cpp-tests."""
    if program is None:
        files = subprocess.run([*root, "dpkg", "-L", "llama.cpp-tests"], check=True, capture_output=True, text=True).stdout.split()
        program = next(file for file in files if file.endswith("/test-backend-ops"))
    return [program, "perf", "-o", "FLASH_ATTN_EXT", "-b", "Vulkan0"]
