"""Keeps the course and its pages true: tables, code blocks, links, commands, and proofs of the checks."""
