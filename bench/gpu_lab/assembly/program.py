"""A compute shader's machine code as blocks of instructions, and the loops that they make."""
import collections
import dataclasses

# What an instruction is, whichever vendor's: product (multiply-adds in lanes), matrix (of a subgroup), vector (other
# arithmetic in lanes), transcendental, convert, move, shared (memory of the workgroup), memory (global, through any kind of
# descriptor), scratch (spills and arrays that are no registers), scalar (once a subgroup), branch, wait (and nop).
KINDS = ("product", "matrix", "vector", "transcendental", "convert", "move", "shared", "memory", "scratch", "scalar", "branch",
         "wait")

@dataclasses.dataclass(slots=True)
class Instruction:
    text: str
    kind: str
    issued: int = 1  # issue slots; several for one that repeats
    multiply_adds: int = 0  # of a lane; 1 of a matrix instruction, whatever its shape
    bytes: int = 0  # of a lane, that it loads or stores
    loads: bool = False  # from global memory
    cycles: dict = dataclasses.field(default_factory=dict)  # of one subgroup, by unit
    product_cycles: float = 0  # those that a product needs at full rate


@dataclasses.dataclass(slots=True)
class Block:
    name: str
    instructions: list = dataclasses.field(default_factory=list)
    successors: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Loop:
    header: str
    blocks: set
    latches: set
    inner: list = dataclasses.field(default_factory=list)


class Program:
    """Blocks, of which the first is entered; those that nothing reaches are dropped."""

    def __init__(self, blocks):
        by_name = {block.name: block for block in blocks}
        self.blocks = {name: by_name[name] for name in reverse_postorder(by_name, blocks[0].name)} if blocks else {}
        self.order = {name: position for position, name in enumerate(self.blocks)}
        for block in self.blocks.values():
            block.successors = [name for name in dict.fromkeys(block.successors) if name in self.blocks]
        self.loops = self.find_loops()

    def find_loops(self):
        """The outermost natural loops, each with those inside it."""
        dominators = self.dominators()
        predecessors = collections.defaultdict(list)
        for block in self.blocks.values():
            for name in block.successors:
                predecessors[name].append(block.name)
        loops = {}
        for block in self.blocks.values():
            for header in block.successors:
                if header in dominators[block.name]:
                    loop = loops.setdefault(header, Loop(header, {header}, set()))
                    loop.latches.add(block.name)
                    collect(loop.blocks, block.name, predecessors)
        outermost = []
        for loop in sorted(loops.values(), key=lambda loop: len(loop.blocks)):
            around = [other for other in loops.values() if other is not loop and loop.header in other.blocks]
            if around:
                min(around, key=lambda other: len(other.blocks)).inner.append(loop)
            else:
                outermost.append(loop)
        return outermost

    def dominators(self):
        """Of every block those that each way to it passes, itself too."""
        predecessors = collections.defaultdict(list)
        for block in self.blocks.values():
            for name in block.successors:
                predecessors[name].append(block.name)
        found, changed = {}, True
        while changed:
            changed = False
            for name in self.blocks:
                before = [found[p] for p in predecessors[name] if p in found]
                new = frozenset.intersection(*before) | {name} if before and self.order[name] else frozenset({name})
                if found.get(name) != new:
                    found[name], changed = new, True
        return found


def reverse_postorder(blocks, entry):
    order, seen, stack = [], {entry}, [(entry, iter(blocks[entry].successors))]
    while stack:
        name, successors = stack[-1]
        following = next((s for s in successors if s not in seen and s in blocks), None)
        if following is None:
            order.append(stack.pop()[0])
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].successors)))
    return order[::-1]


def collect(found, name, predecessors):
    stack = [name]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += predecessors[name]
