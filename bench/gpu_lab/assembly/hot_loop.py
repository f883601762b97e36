"""What a kernel's hot loops issue in one iteration.

The fast path. A kernel's loop over keys has side paths: masks, limits, a new maximum. Of the ways through one iteration the one
counts that is worth most: products of blocks that are made of them are worth far more than what surrounds them, so every such
block lies on it that can; a load from global memory is worth some arithmetic by its size, so that the staging of keys and
values counts though a limit is asked first, but not the reading of a mask, whose loads are small; anything else only costs, so
the way is the cheapest left. Both arms of a divergent branch may run: this says what a subgroup issues that needs one.

Product loops. Of loops in each other those that hold products themselves are reported one by one, since machine code does not
say how often they run: a loop around others counts as one of them where its own products are at least half of what a loop in
it has, else it is `outside`: what one iteration issues around the product loops. A loop without products on the way is counted for
one iteration (`counted_once` says how many such there are).

Efficiency. Cycles that the products need at full rate, over the cycles that the busiest unit needs for the whole iteration, both
of one subgroup and by the rates that the ISA's file states: no latency, no bank conflict, no cache miss, and shared memory as
if no two lanes read the same. `arithmetic_efficiency` is the same without shared and global memory. Of several loops it is
that of as many products in each, since the two products of attention are of a size: the harmonic mean. A caller that knows
the tile has better: `iteration`, all of one iteration of the key loop, the product loops as often as its multiply-adds take."""
import collections
import dataclasses

from .program import KINDS

PRODUCT_WORTH = 16  # a multiply-add, in issue slots, in a block that is made of products
MATRIX_WORTH = 1000
BYTE_WORTH = 4  # a byte of a lane, loaded from global memory
BLOCK_SHARE = 8  # a block is made of products if it has at least this part of the program's richest block, or
FEWEST_OF_SMALL_BLOCK = 2  # so many, which are at least half of what it issues
FEWEST_PRODUCTS = 8  # of a product loop, in multiply-adds; a matrix instruction is enough


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
    multiply_adds: float  # of a lane, or matrix instructions
    product_share: float  # of the issue slots that products compete for
    cycles: dict  # of one subgroup and iteration, by unit
    product_cycles: float
    busiest_unit: str
    efficiency: float
    arithmetic_efficiency: float
    counted_once: int = 0


@dataclasses.dataclass
class HotLoop:
    kind: str  # product or matrix
    counts: dict  # of one iteration of each product loop
    issued: int
    multiply_adds: float
    product_share: float
    busiest_unit: str  # of the loop that is least efficient
    efficiency: float
    arithmetic_efficiency: float
    loops: list  # LoopFigures of every product loop
    outside: LoopFigures | None = None  # of the loop around the product loops, without them
    iteration: LoopFigures | None = None  # of a whole iteration, where the tile is known

    def as_dict(self):
        return dataclasses.asdict(self)


def find(program, vector_kinds, tile_multiply_adds=None):
    """The hot loop and "", or None and the reason why there is none. vector_kinds: those whose instructions compete with
    the products for issue slots. tile_multiply_adds: those of both products in a iteration of the key loop, of a lane, or
    matrix instructions of a subgroup."""
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
    return summary(kind, path, found, vector_kinds, tile_multiply_adds), ""


class Finder:
    def __init__(self, program, kind):
        self.program, self.kind = program, kind
        richest = max(self.products(block) for block in program.blocks.values())
        self.fewest = 1 if kind == "matrix" else max(FEWEST_PRODUCTS // 2, richest / BLOCK_SHARE)

    def products(self, block):
        return sum(i.multiply_adds for i in block.instructions if i.kind == self.kind)

    def worth(self, block):
        products = self.products(block)
        issued = sum(i.issued for i in block.instructions if i.kind != "wait")
        is_made_of_them = products >= self.fewest or products >= max(FEWEST_OF_SMALL_BLOCK, issued / 2)
        each = MATRIX_WORTH if self.kind == "matrix" else PRODUCT_WORTH
        return (each * products if is_made_of_them else 0) + \
            sum((BYTE_WORTH * i.bytes if i.loads else 0) - i.issued for i in block.instructions)

    def fast_path(self, loop):
        """Through one iteration, from the loop's first block to one that goes back there; None: no way (a loop of two entries)."""
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
    return weighted(path.loop.header, [(1, instructions, True)], kind, vector_kinds, counted_once)


def weighted(name, parts, kind, vector_kinds, counted_once):
    """Of (times, instructions, whether their products are those of attention)."""
    counts, cycles = collections.Counter(), collections.Counter()
    multiply_adds = product_cycles = 0
    for times, instructions, multiplies in parts:
        for i in instructions:
            counts["vector" if i.kind == kind and not multiplies else i.kind] += times * i.issued
            for unit, amount in i.cycles.items():
                cycles[unit] += times * amount
            if i.kind == kind and multiplies:
                multiply_adds += times * i.multiply_adds
                product_cycles += times * i.product_cycles
    busiest = max(cycles, key=cycles.get, default="")
    arithmetic = max((c for unit, c in cycles.items() if unit not in ("shared", "memory")), default=0)
    vector = sum(counts[k] for k in vector_kinds)
    return LoopFigures(name, {k: counts[k] for k in KINDS}, sum(counts.values()) - counts["wait"], multiply_adds,
                       ratio(counts[kind], vector), dict(cycles), product_cycles, busiest,
                       ratio(product_cycles, cycles[busiest]), ratio(product_cycles, arithmetic), counted_once)


def ratio(part, whole):
    return part / whole if whole else 0


def summary(kind, path, found, vector_kinds, tile_multiply_adds):
    loops = [figures(each, found, kind, vector_kinds) for each in found]
    counts = {k: sum(loop.counts[k] for loop in loops) for k in KINDS}
    around = smallest_around(path, found)
    return HotLoop(kind, counts, sum(loop.issued for loop in loops), sum(loop.multiply_adds for loop in loops),
                   ratio(counts[kind], sum(counts[k] for k in vector_kinds)),
                   min(loops, key=lambda loop: loop.efficiency).busiest_unit,
                   harmonic_mean([loop.efficiency for loop in loops]),
                   harmonic_mean([loop.arithmetic_efficiency for loop in loops]), loops,
                   figures(around, found, kind, vector_kinds) if around and not any(around is p for p in found) else None,
                   whole_iteration(around or path, found, kind, vector_kinds, tile_multiply_adds) if tile_multiply_adds else None)


def harmonic_mean(values):
    return ratio(len(values), sum(1 / value for value in values)) if all(values) else 0


def whole_iteration(around, found, kind, vector_kinds, tile_multiply_adds):
    """The key loop and those in it, which share equally what it does not multiply itself. It is the one around the product
    loops, or one that has nearly all products of the tile."""
    around = next((each for each in found if each.products(kind) > 0.75 * tile_multiply_adds), around)
    if not all(each is around or is_within(each, around) for each in found):
        return None
    instructions, counted_once = without(around, found)
    inner = [(each, without(each, found)[0]) for each in found if each is not around]
    multiplies = any(around is each for each in found)
    left = tile_multiply_adds - (around.products(kind) if multiplies else 0)
    parts = [(1, instructions, multiplies)]
    for each, own in inner:
        parts.append((max(1, left / len(inner) / sum(i.multiply_adds for i in own if i.kind == kind)), own, True))
    return weighted(around.loop.header, parts, kind, vector_kinds, counted_once)


def smallest_around(path, found):
    """The innermost loop on the path that holds all product loops (and may be one of them, if there are others); None where
    no loop is around them."""
    def holds(each):
        return all(is_within(one, each) or one is each and len(found) > 1 for one in found)

    if not holds(path):
        return None
    return next((smallest_around(each, found) for each in path.inner if holds(each)), path)


def is_within(path, around):
    return any(path is each or is_within(path, each) for each in around.inner)
