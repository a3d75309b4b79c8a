"""Validators for port numbers, 1 to 65535."""

from django.core.validators import MaxValueValidator, MinValueValidator

PORT = [MinValueValidator(1), MaxValueValidator(65535)]
