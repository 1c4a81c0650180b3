"""At which batch sizes speculation pays: unique experts measured on batches from traces, costs, intervals."""
