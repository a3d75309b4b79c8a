"""Models of the alerts sent by mail, and of the state of each user's mails."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class AlertMail(models.Model):
    """State of a user's alert mails: the last attempt, the last success, and the last error."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="alert_mail")
    tried_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)  # number of failures since the last success

    class Meta:
        verbose_name = verbose_name_plural = _("alerts")

    def __str__(self) -> str:
        return f"alerts to {self.user}"


class SentAlert(models.Model):
    """An alert that was mailed to a user. After the alert was resolved and a mail has reported this, the row is
    deleted.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=300)  # Alert.key
    words = models.TextField()  # text of the mail
    sent_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="alerts_sent_once")]

    def __str__(self) -> str:
        return self.words
