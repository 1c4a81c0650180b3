"""The HBM of a deployment as a budget: what weights, drafts, experts and tenants take, and what a speed-up is worth.

A speed-up that takes memory takes it from the KV pool, hence from tenants. Bytes and tenants are exact; times are those
of a stated cost model unless they were measured: see `oracle.pool.times`.
"""
