"""The command line: options in, library calls, tables out. Only this package prints."""
