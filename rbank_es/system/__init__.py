"""What the program finds on the machine: files, which may come from anybody, and packages that add to ours."""
