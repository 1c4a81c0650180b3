"""Traffic as request logs show it: concurrency, prefix sharing and repetitiveness, the inputs of the serving levers."""
