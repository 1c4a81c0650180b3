"""The same work on other machines: batches read and worked on elsewhere, results in the order of one process."""
