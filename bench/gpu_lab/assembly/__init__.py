"""Reads the machine code that drivers give of a compute shader, and says what its hot loop issues."""
from . import adreno, amd, apple, arm, hot_loop, intel, nvidia

READERS = {"amd": amd, "nvidia": nvidia, "intel": intel, "apple": apple, "qualcomm": adreno, "arm": arm}


def analyse(vendor, statistics, texts, subgroup_size, gpu="", tile_multiply_adds=None):
    """What the hot loop issues (hot_loop.HotLoop) and "", or None and the reason why that cannot be said.

    vendor: amd, nvidia, intel, apple, qualcomm or arm. statistics, texts: by the names that the driver gives them
    (VK_KHR_pipeline_executable_properties). gpu: the lab's name of the GPU (amd-navi31, nvidia-ampere), or one that says the
    chip. tile_multiply_adds, where known: those of both products in one iteration of the key loop, of a lane, or matrix
    instructions of a subgroup; the figures of a whole iteration then are among the answer."""
    reader = READERS.get(vendor)
    if reader is None:
        return None, f"no reader for the machine code of {vendor!r}, expected one of {', '.join(READERS)}"
    text = next((texts[name] for name in reader.NAMES if texts.get(name)), None)
    if text is None:
        return None, f"the driver gives no machine code, expected a text {' or '.join(reader.NAMES)}"
    program = reader.parse(text, gpu, int(subgroup_size or 0))
    if isinstance(program, str):
        return None, program
    return hot_loop.find(program, reader.VECTOR_KINDS, tile_multiply_adds)
