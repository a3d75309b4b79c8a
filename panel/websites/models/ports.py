"""Validators of ports."""

from django.core.validators import MaxValueValidator, MinValueValidator

PORT = [MinValueValidator(1), MaxValueValidator(65535)]
