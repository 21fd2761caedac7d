"""Demonstrations: read from Minari and D4RL files, collected, split, summarised.

>>> from mac_policy.demonstrations import read_minari
>>> train, held_out = read_minari("D4RL/pen/human-v2").split(0.9, seed=0)   # doctest: +SKIP
"""

from mac_policy.demonstrations.d4rl import read_d4rl
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Episode, Source
from mac_policy.demonstrations.minari_read import read_minari
from mac_policy.demonstrations.minari_write import Card, write_minari
from mac_policy.demonstrations.task_data import OfficialFile, Scripted, TaskData

__all__ = [
    "Card",
    "Demonstrations",
    "Episode",
    "OfficialFile",
    "Scripted",
    "Source",
    "TaskData",
    "read_d4rl",
    "read_minari",
    "write_minari",
]
