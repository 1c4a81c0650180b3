"""The exact path of the optimum along a scale on the expert cost, and what a wrong scale changes."""
