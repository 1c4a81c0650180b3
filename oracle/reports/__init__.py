"""Reports: tables and figures gathered into files that people keep and send."""
