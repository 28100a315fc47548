"""The Kullback-Leibler distance of a distribution from a golden's position: over the top ids and
one bucket for the rest.
"""

import numpy as np


def kl(top_logprobs, rest_logprob, test_top_logprobs, test_rest_logprob):
    """Sum of p (log p - log q) in nats. Both tops: [top_k], of the same ids."""
    p = np.append(top_logprobs, rest_logprob).astype(np.float64)
    q = np.append(test_top_logprobs, test_rest_logprob).astype(np.float64)
    return float(np.sum(np.exp(p) * (p - q)))


def rest_of(test_logprobs, ids):
    """Log of the mass of a full row outside `ids`."""
    others = np.asarray(test_logprobs, dtype=np.float64).copy()
    others[ids] = -np.inf
    largest = others.max()
    return float(largest + np.log(np.exp(others - largest).sum()))
