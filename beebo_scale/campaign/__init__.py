"""Campaigns: round after round of experiments in one folder of plain files."""

from .campaign import Campaign as Campaign
from .settings import Settings as Settings
