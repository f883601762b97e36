"""The next token, chosen of logits."""
import numpy

from .errors import ModelError


class Sampler:
    """temperature 0: the most likely token; top_k 0: of all; top_p 1: of all. seed None: another every time."""

    def __init__(self, temperature, top_k, top_p, seed):
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._random = numpy.random.default_rng(seed)

    @property
    def is_greedy(self):
        """Whether it takes the most likely token, whose place is all that it needs."""
        return self.temperature == 0

    @staticmethod
    def checked(token, logit):
        """The token, where its logit, the greatest, is a finite number."""
        if not numpy.isfinite(logit):
            raise ModelError("the model's logits are not finite numbers, expected a model with finite weights")
        return token

    def __call__(self, logits):
        place = int(logits.argmax())  # of the first that is no number, if there is one
        most_likely = self.checked(place, logits[place])
        if self.is_greedy:
            return most_likely
        kept = numpy.arange(len(logits))
        if 0 < self.top_k < len(logits):
            kept = numpy.argpartition(-logits, self.top_k - 1)[:self.top_k]
        kept = kept[numpy.argsort(-logits[kept], kind="stable")]
        wide = logits[kept].astype("f8")
        with numpy.errstate(over="ignore"):  # of a temperature near 0, by which all but the greatest are out of reach
            shares = numpy.exp((wide - wide.max()) / self.temperature)
        chances = shares / shares.sum()
        count = int(numpy.searchsorted(numpy.cumsum(chances), self.top_p)) + 1
        chances = chances[:count] / chances[:count].sum()
        return int(kept[self._random.choice(len(chances), p=chances)])


def log_likelihoods(logits, tokens):
    """The logarithms of the probabilities that rows of logits give to tokens, in float64."""
    wide = logits.astype("f8")
    most = wide.max(axis=1)
    Sampler.checked(None, most.sum())
    sums = numpy.log(numpy.exp(wide - most[:, None]).sum(axis=1)) + most
    return wide[numpy.arange(len(tokens)), tokens] - sums
