"""What commands share: options, output, progress, the table of commands."""
