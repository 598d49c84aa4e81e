"""Mutants: the classic bugs of speculative decoding, each with the check that must catch it."""


def load(root):
    """All mutants of the tree."""
    return []


def survivors(prover, mutant):
    """Yields what is wrong with how a mutant is caught; nothing where it is caught as it should."""
    return iter(())
