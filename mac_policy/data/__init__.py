"""Demonstrations: read from Minari and D4RL files, collected, split, summarised.

>>> from mac_policy.data import read_minari
>>> train, held_out = read_minari("D4RL/pen/human-v2").split(0.9, seed=0)
"""

from mac_policy.data.d4rl import read_d4rl
from mac_policy.data.demonstrations import Demonstrations
from mac_policy.data.episode import Episode, Source
from mac_policy.data.minari_read import read_minari
from mac_policy.data.minari_write import Card, write_minari
from mac_policy.data.tasks import OfficialFile, Scripted, TaskData

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
