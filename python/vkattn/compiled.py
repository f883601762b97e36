"""torch.compile: what it leaves to Python."""
import functools
import sys

_REASON = "vkattn computes outside of PyTorch's graphs, which are cut around its calls: compile without fullgraph=True"


def outside_graphs(function):
    """A function that torch.compile calls as it is, between two graphs, because its compiler cannot look into the library.
    Nothing of PyTorch is imported for it: who compiles has done so."""
    disabled = None

    @functools.wraps(function)
    def entrance(*arguments, **named):
        nonlocal disabled
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:
            return function(*arguments, **named)
        if disabled is None:
            disabled = disable(function)
        return disabled(*arguments, **named)

    entrance._torchdynamo_disable = True  # what torch.compiler.disable sets, too
    entrance._torchdynamo_disable_msg = _REASON
    return entrance
