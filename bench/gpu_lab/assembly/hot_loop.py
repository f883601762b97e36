"""What a kernel's hot loops issue in one trip.

The fast path. A kernel's loop over keys has side paths: masks, limits, a new maximum. Of the ways through one trip the one
counts that is worth most: products of blocks that are made of them are worth far more than what surrounds them, so every such
block lies on it that can; a load from global memory is worth some arithmetic by its size, so that the staging of keys and
values counts though a limit is asked first, but not the reading of a mask, whose loads are small; anything else only costs, so
the way is the cheapest left. Both arms of a divergent branch may run: this says what a subgroup issues that needs one.

Product loops. Of loops in each other those that hold products themselves are reported one by one, since machine code does not
say how often they run: a loop around others counts as one of them where its own products are at least half of what a loop in
it has, else it is `outside`: what one trip issues around the product loops. A loop without products on the way is counted for
one trip (`counted_once` says how many such there are). The figures of the whole are the sum of one trip of each product loop,
the efficiency its mean weighted by multiply-adds.

Efficiency. Cycles that the products need at full rate, over the cycles that the busiest unit needs for the whole trip,
both of one subgroup and by the rates that the ISA's file states: no latency, no bank conflict, no cache miss."""
import collections
import dataclasses

from .program import KINDS

PRODUCT_WORTH = 16  # a multiply-add, in issue slots, in a block that is made of products
MATRIX_WORTH = 1000
BYTE_WORTH = 4  # a byte of a lane, loaded from global memory
BLOCK_SHARE = 8  # a block is made of products if it has at least this part of the program's richest block
FEWEST_PRODUCTS = 16  # of a product loop, in multiply-adds; a matrix instruction is enough


@dataclasses.dataclass
class Path:
    worth: float
    instructions: list
    inner: list  # paths of the loops on it
    loop: object = None

    def products(self, kind):
        return sum(i.multiply_adds for i in self.instructions if i.kind == kind)


@dataclasses.dataclass
class LoopFigures:
    name: str  # of the block that it begins with, in the driver's text
    counts: dict  # issued instructions by kind
    issued: int  # all but waits
    multiply_adds: int  # of a lane, or matrix instructions
    product_share: float  # of the issue slots that products compete for
    cycles: dict  # of one subgroup and trip, by unit
    product_cycles: float
    busiest_unit: str
    efficiency: float
    counted_once: int = 0


@dataclasses.dataclass
class HotLoop:
    kind: str  # product or matrix
    counts: dict
    issued: int
    multiply_adds: int
    product_share: float
    busiest_unit: str  # of the loop with the most products
    efficiency: float
    loops: list  # LoopFigures of every product loop
    outside: LoopFigures | None = None  # of the loop around several product loops

    def as_dict(self):
        return dataclasses.asdict(self)


def find(program, vector_kinds):
    """The hot loop and "", or None and the reason why there is none. vector_kinds: those whose instructions compete with
    the products for issue slots."""
    everything = [i for block in program.blocks.values() for i in block.instructions]
    if not program.loops:
        return None, "the program has no loop"
    kind = "matrix" if any(i.kind == "matrix" for i in everything) else "product"
    finder = Finder(program, kind)
    best = None
    for loop in program.loops:
        path = finder.fast_path(loop)
        found = finder.product_loops(path) if path else []
        total = sum(p.products(kind) for p in found)
        if found and (best is None or total > best[0]):
            best = total, path, found
    if best is None:
        return None, "no loop has products"
    _, path, found = best
    return summary(kind, path, found, vector_kinds), ""


class Finder:
    def __init__(self, program, kind):
        self.program, self.kind = program, kind
        richest = max(self.products(block) for block in program.blocks.values())
        self.fewest = 1 if kind == "matrix" else max(FEWEST_PRODUCTS // 2, richest / BLOCK_SHARE)

    def products(self, block):
        return sum(i.multiply_adds for i in block.instructions if i.kind == self.kind)

    def worth(self, block):
        products = self.products(block)
        each = MATRIX_WORTH if self.kind == "matrix" else PRODUCT_WORTH
        return (each * products if products >= self.fewest else 0) + \
            sum((BYTE_WORTH * i.bytes if i.loads else 0) - i.issued for i in block.instructions)

    def fast_path(self, loop):
        """Through one trip, from the loop's first block to one that goes back there; None: no way (a loop of two entries)."""
        inner = {block: each for each in loop.inner for block in each.blocks}
        best = {}
        for name in sorted(loop.blocks, key=self.program.order.get, reverse=True):
            within = inner.get(name)
            if within is not None and within.header != name:
                continue
            nodes = within.blocks if within is not None else {name}
            own = self.fast_path(within) if within is not None else \
                Path(self.worth(self.program.blocks[name]), self.program.blocks[name].instructions, [])
            targets = {t for node in nodes for t in self.program.blocks[node].successors} - nodes
            after = [best[t] for t in targets if t in best and self.program.order[t] > self.program.order[name]]
            ways = after + ([Path(0, [], [])] if nodes & loop.latches else [])
            if own is None or not ways:
                continue
            way = max(ways, key=lambda w: w.worth)
            best[name] = Path(own.worth + way.worth, way.instructions, [own, *way.inner]) if within is not None else \
                Path(own.worth + way.worth, own.instructions + way.instructions, way.inner)
        if loop.header not in best:
            return None
        return dataclasses.replace(best[loop.header], loop=loop)

    def product_loops(self, path):
        inner = [found for each in path.inner for found in self.product_loops(each)]
        own = path.products(self.kind)
        enough = max([1 if self.kind == "matrix" else FEWEST_PRODUCTS, *(p.products(self.kind) / 2 for p in inner)])
        return inner + [path] if own >= enough else inner


def without(path, found):
    """The instructions of a path, those of loops on it once but for the product loops, and the number of such loops."""
    instructions, count = list(path.instructions), 0
    for each in path.inner:
        if not any(each is one for one in found):
            more, within = without(each, found)
            instructions, count = instructions + more, count + within + 1
    return instructions, count


def figures(path, found, kind, vector_kinds):
    instructions, counted_once = without(path, found)
    counts, cycles = collections.Counter(), collections.Counter()
    for i in instructions:
        counts[i.kind] += i.issued
        for unit, amount in i.cycles.items():
            cycles[unit] += amount
    products = [i for i in instructions if i.kind == kind]
    product_cycles = sum(i.product_cycles for i in products)
    busiest = max(cycles, key=cycles.get, default="")
    vector = sum(counts[k] for k in vector_kinds)
    return LoopFigures(path.loop.header, {k: counts[k] for k in KINDS}, sum(counts.values()) - counts["wait"],
                       sum(i.multiply_adds for i in products), counts[kind] / vector if vector else 0, dict(cycles),
                       product_cycles, busiest, product_cycles / cycles[busiest] if busiest else 0, counted_once)


def summary(kind, path, found, vector_kinds):
    loops = [figures(each, found, kind, vector_kinds) for each in found]
    counts = {k: sum(loop.counts[k] for loop in loops) for k in KINDS}
    multiply_adds = sum(loop.multiply_adds for loop in loops)
    vector = sum(counts[k] for k in vector_kinds)
    around = smallest_around(path, found)
    return HotLoop(kind, counts, sum(loop.issued for loop in loops), multiply_adds, counts[kind] / vector,
                   max(loops, key=lambda loop: loop.multiply_adds).busiest_unit,
                   sum(loop.efficiency * loop.multiply_adds for loop in loops) / multiply_adds, loops,
                   figures(around, found, kind, vector_kinds) if around else None)


def smallest_around(path, found):
    """The innermost loop on the path that holds all of several product loops, unless it is one of them."""
    if any(path is each for each in found) or not all(is_within(each, path) for each in found):
        return None
    for each in path.inner:
        if not any(each is one for one in found) and all(is_within(one, each) for one in found):
            return smallest_around(each, found)
    return path


def is_within(path, around):
    return any(path is each or is_within(path, each) for each in around.inner)
