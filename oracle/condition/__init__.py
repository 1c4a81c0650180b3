"""The source's necessary condition: one more draft token pays only where ΔC is small against ΔE[A]."""
