"""One module a topic: each function writes one section from the material, or says why it is left out."""
