"""The version, in a place that needs no installation."""

VERSION = "0.1.0"
