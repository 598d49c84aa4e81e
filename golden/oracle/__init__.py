"""The references that the goldens rest on: a Llama in float64, and speculative sampling. NumPy only."""
