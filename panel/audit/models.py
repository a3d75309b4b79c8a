"""Model of the audit log: each change with its user and the values before and after. Rows are never edited."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Upper


class AuditEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True)
    # no index for the actor alone, because other indexes begin with it
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    actor_label = models.CharField(max_length=120)  # kept after the account is deleted; "system" for the panel itself
    token_prefix = models.CharField(max_length=16, blank=True)
    action = models.CharField(max_length=80, db_index=True)  # noun.verb: site.update, host.create
    object_type = models.CharField(max_length=80)
    object_id = models.CharField(max_length=64)
    object_label = models.CharField(max_length=200)
    # team of the object at that time; null for objects without a team, or with several (audit.teams)
    team = models.ForeignKey("accounts.Team", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    before = models.JSONField(null=True)  # secrets appear as "(secret)"
    after = models.JSONField(null=True)
    request_id = models.CharField(max_length=32, blank=True, db_index=True)
    address = models.GenericIPAddressField(null=True)

    class Meta:
        ordering = ["-at", "-pk"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["object_type", "object_id", "-at"]),
            models.Index(fields=["-at", "-id"], name="audit_newest"),
            models.Index(fields=["team", "-at", "-id"], name="audit_newest_of_team"),
            # For the filters of the page: members of a team see few of all entries, those of their teams and their own.
            models.Index(fields=["team", "action"], name="audit_action_of_team"),
            models.Index(fields=["actor", "action"], name="audit_action_of_actor"),
            models.Index("team", Upper("actor_label"), name="audit_user_of_team"),
            models.Index("actor", Upper("actor_label"), name="audit_user_of_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor_label} {self.action} {self.object_label}"
