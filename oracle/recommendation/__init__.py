"""Which static draft length to set: from traces, or from acceptance by position and step times alone."""
