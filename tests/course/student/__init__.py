"""What an assignment contains: the tools of a student who does it. Imports nothing of the other packages."""
import sys
from pathlib import Path

# What every tool of the project needs, tool.py and terminal.py, is beside the programs.
sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "stages/programs"))
