"""Models and commands of the tests of vkattn_lm."""
import io

import pytest
from tested_packages import known


@pytest.fixture(scope="session")
def inner():
    known("tokenizers")
    import lm_models
    return lm_models.byte_level()


@pytest.fixture(scope="session")
def llama(tmp_path_factory, inner):
    """(a GGUF file, its weights)"""
    import lm_models
    path = tmp_path_factory.mktemp("lm") / "llama.gguf"
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    return path, lm_models.write_gguf(path, weights, lm_models.SIZES)


@pytest.fixture
def run(capsys, monkeypatch):
    """A command's exit status, output and lines of errors."""
    from vkattn_lm import command

    def of(*words, given="", stdin=None):
        monkeypatch.setattr("sys.stdin", stdin or io.StringIO(given))
        capsys.readouterr()
        status = command.main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err.splitlines()
    return of
