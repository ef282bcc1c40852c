"""The commands of the laboratory, which the registries of the command line name."""
