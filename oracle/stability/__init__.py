"""Stability: which decisions and headline numbers hold when the cost coefficients move within their errors."""
