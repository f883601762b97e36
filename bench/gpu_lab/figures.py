"""A driver's statistics of a pipeline under names that all vendors share."""
import dataclasses

# Names that the drivers of Mesa 25 and 26 give; several are added. Bytes but for code of Adreno, which comes in words of four.
STATISTICS = {
    "amd": {"registers": ["VGPRs"], "spills": ["Spilled SGPRs", "Spilled VGPRs"], "scratch_bytes": ["Scratch size"],
            "occupancy": ["Subgroups per SIMD"], "shared_bytes": ["LDS size"], "code_bytes": ["Code size"],
            "instructions": ["Instructions"], "cycles": ["Inverse Throughput"]},
    "nvidia": {"registers": ["Number of GPRs"], "spills": ["Spills to memory", "Fills from memory"],
               "scratch_bytes": ["SLM size"], "occupancy": ["Max warps/SM"], "code_bytes": ["Code size"],
               "instructions": ["Instruction count"], "cycles": ["Static cycle count"]},
    "intel": {"registers": ["Max live registers"], "spills": ["Spills", "Fills"], "scratch_bytes": ["Scratch Memory Size"],
              "shared_bytes": ["Workgroup Memory Size"], "code_bytes": ["Code size"], "instructions": ["Instructions"],
              "cycles": ["Cycles"]},
    "apple": {"registers": ["GPRs"], "spills": ["Spills", "Fills"], "scratch_bytes": ["Scratch"], "occupancy": ["Threads"],
              "code_bytes": ["Code size"], "instructions": ["Instructions"]},
    "qualcomm": {"registers": ["Registers used"], "spills": ["STP Count", "LDP Count"], "occupancy": ["Max Waves Per Core"],
                 "code_bytes": ["Code size"], "instructions": ["Instruction Count"]},
    "arm": {"registers": ["Registers used"], "spills": ["Spills", "Fills"], "occupancy": ["Threads"],
            "code_bytes": ["Code size"], "instructions": ["Instructions"], "cycles": ["Cycles"]},
}
# What occupancy counts, and out of how many; Intel's shaders say how wide they run instead.
OCCUPANCY = {"amd": "subgroups a SIMD of 16 (GCN 10)", "nvidia": "warps an SM of 48 (Turing 32)", "intel": "SIMD width",
             "apple": "threads of 1024", "qualcomm": "waves a core of 16", "arm": "halves of a core's threads, of 2: both up to 32 registers"}


@dataclasses.dataclass
class Figures:
    module: str
    workgroup: int
    subgroup: int
    registers: int | None = None
    occupancy: int | None = None
    spills: int | None = None  # of registers, to memory and from there
    scratch_bytes: int | None = None
    shared_bytes: int | None = None
    code_bytes: int | None = None
    instructions: int | None = None
    cycles: int | None = None  # the driver's own static estimate: compares shaders of one GPU, no more
    spirv_bytes: int | None = None  # of the module that the driver was given
    compile_ms: float | None = None  # in two digits: machines differ, and are shared


def figures_of(vendor, shader):
    """Figures of a shader as `vkattn shaders --json` and the statistics layer describe it."""
    known = {name.lower(): value for name, value in shader["statistics"].items()}
    found = Figures(shader["module"] or "", shader.get("workgroup_size") or 0, shader.get("subgroup_size") or 0)
    for name, sources in STATISTICS[vendor].items():
        values = [known[source.lower()] for source in sources if source.lower() in known]
        if values:
            setattr(found, name, int(sum(values)))
    if vendor == "qualcomm" and found.code_bytes is not None:
        found.code_bytes *= 4
    if vendor == "intel":
        found.occupancy = found.subgroup
    found.spirv_bytes = shader.get("spirv_bytes")
    found.compile_ms = two_digits(shader["compile_ms"])
    return found


def two_digits(number):
    rounded = float(f"{number:.2g}")
    return int(rounded) if rounded >= 10 else rounded
