"""Makes assignments and graders, and marks submissions. Imports `student`, and nothing of `authoring`."""
