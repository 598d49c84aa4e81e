"""What an assignment contains: the tools of a student who does it. Imports nothing of the other packages."""
