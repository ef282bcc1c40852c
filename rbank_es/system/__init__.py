"""The machine as the program finds it: files, which may come from anybody, and packages that add to ours."""
