"""Every setting: its variables, its bounds, its default and what it is for."""

from embedq.settings.addresses import without_passwords
from embedq.settings.fields import Settings
from embedq.settings.loading import load
from embedq.settings.reference import Row, table
from embedq.settings.variables import Variable, values

__all__ = ["Row", "Settings", "Variable", "load", "table", "values", "without_passwords"]
