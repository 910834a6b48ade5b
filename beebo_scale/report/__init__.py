"""What a training run learned, as one HTML page."""

from .page import write_report as write_report
