"""Who was told of what by mail."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Notices(models.Model):
    """Of one user: when a mail was tried and went out last, and why the last one did not."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    tried_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)  # in vain, since the last that went out

    class Meta:
        verbose_name = verbose_name_plural = _("alerts")

    def __str__(self) -> str:
        return f"alerts to {self.user}"


class Told(models.Model):
    """A trouble that stands in a mail that went out; it goes once the trouble is over and that was told too."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=300)  # Concern.key
    words = models.TextField()  # as the mail had them
    told_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="notices_told_once")]

    def __str__(self) -> str:
        return self.words
