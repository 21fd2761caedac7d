"""The commands. The only room that imports Hydra; nothing of the library imports this room."""
