"""Runs that can be killed: a folder with one output a shard, gone on with where an earlier run stopped."""

from oracle.shards.folder import ShardFolder, is_shards

__all__ = ["ShardFolder", "is_shards"]
