"""What the program takes from the machine: files from anybody, processes that fork, packages that add to ours."""
