"""Runs that can be killed: a folder with one output a shard, gone on with where an earlier run stopped."""

from oracle.shards.folder import ShardFolder, is_shards
from oracle.shards.keeping import ALPHA_PATH, STABILITY, STUDY

__all__ = ["ALPHA_PATH", "STABILITY", "STUDY", "ShardFolder", "is_shards"]
