"""A forked process: what its parent made is refused, and it makes a default context of its own. Each in an interpreter that is
ended if it hangs."""
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

PARENT = """
import gc, os, sys, threading
import numpy, vkattn
x = numpy.ones((1, 1, 2, 8), "f4")
context = vkattn.default_context()
array, cache = context.array(x), context.kv_cache(1, 8, pages=2)
weights = {f"{name}.weight": numpy.eye(8, dtype="f4") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
layer = vkattn.Layer("mha", weights, embed_dim=8, num_heads=1)
layer_cache = layer.cache(4)
vkattn.attention(x, x, x)

def refused(call):
    try:
        call()
    except vkattn.VkattnError as error:
        assert f"context: made in process {os.getppid()}" in str(error) and "after the fork" in str(error), error
    else:
        raise AssertionError("expected an error")

def child():
    CHILD

sys.stdout.flush()
number = os.fork()
if number == 0:
    status = 1
    try:
        child()
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)
status = os.waitpid(number, 0)[1]
assert (vkattn.attention(x, x, x) == 1).all()  # the parent's goes on
print("the child ended with", status)
"""


def run(child):
    said = subprocess.run([sys.executable, "-B", "-c", PARENT.replace("CHILD", child.replace("\n", "\n    "))], timeout=100,
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert said.stdout == "the child ended with 0\n", said.stdout + said.stderr


def test_the_default_context_is_made_anew():
    run("""assert (vkattn.attention(x, x, x) == 1).all()
assert vkattn.default_context() is not context""")


def test_what_the_parent_made_is_refused():
    run("""for call in (lambda: vkattn.attention(x, x, x, context=context), lambda: array.numpy(), lambda: context.array(x),
             lambda: context.facts, lambda: context.save(), lambda: context.self_test(), lambda: vkattn.norm(array, x[0, 0, 0]),
             lambda: layer(x[0]), lambda: layer(x[0], cache=layer_cache), lambda: layer_cache.lengths,
             lambda: layer_cache.rewind(0, 0), lambda: layer.cache(4), lambda: cache.add(), lambda: cache.keys.numpy(),
             lambda: array + array, lambda: vkattn.Layer("mha", weights, embed_dim=8, num_heads=1, context=context)):
    refused(call)""")


def test_what_the_parent_made_may_be_dropped():
    run("""global context, array, cache, layer, layer_cache
del context, array, cache, layer, layer_cache
gc.collect()
assert (vkattn.attention(x, x, x, context=vkattn.Context()) == 1).all()""")


def test_a_lock_that_another_thread_held_is_not_waited_for():
    held = """held, done = threading.Event(), threading.Event()
def hold():
    with context.lock:
        held.set()
        done.wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()"""
    # the thread holds the lock in the parent, while it forks
    parent = PARENT.replace("sys.stdout.flush()\n", held + "\nsys.stdout.flush()\n", 1)
    parent = parent.replace("assert (vkattn.attention(x, x, x) == 1).all()  #", "done.set()  #")
    child = "refused(lambda: vkattn.attention(x, x, x, context=context))\n    assert (vkattn.attention(x, x, x) == 1).all()"
    said = subprocess.run([sys.executable, "-B", "-c", parent.replace("CHILD", child)], timeout=100, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert said.stdout == "the child ended with 0\n", said.stdout + said.stderr
