"""What an assignment contains: the tools of somebody who does it. Imports nothing of the other packages."""
