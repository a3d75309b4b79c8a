"""Raw directives of a site, server block or location."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models

from panel.core.models import BaseModel
from panel.hosts.models import Engine
from panel.websites import rules, shared, validators
from panel.websites.models.locations import Location
from panel.websites.models.server_blocks import ServerBlock
from panel.websites.models.shared_settings import DirectiveSet
from panel.websites.models.sites import Site


class RawSnippet(BaseModel):
    """Raw directives, which only administrators write. Paddock checks them against an allow-list; the web server tests
    them, too.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="snippets")
    engine = models.CharField(max_length=16, choices=Engine.choices)
    block = models.ForeignKey(ServerBlock, null=True, blank=True, on_delete=models.CASCADE, related_name="snippets")
    location = models.ForeignKey(Location, null=True, blank=True, on_delete=models.CASCADE, related_name="snippets")
    text = models.TextField(validators=[validators.validate_text])
    # The text with the lines of directive sets in place of their names: what is rendered, and judged. Set by `save()`.
    expanded = models.TextField(default="", blank=True, editable=False, db_default="")

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"raw directives for {self.get_engine_display()} of {self.site.name}"

    def clean(self) -> None:
        rules.check_snippet(self)

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        self.expanded = shared.directives_expanded(self.text, self.directive_sets())
        super().save(*args, update_fields=update_fields and {*update_fields, "expanded"}, **kwargs)

    def directive_sets(self) -> dict[str, str]:
        """Return {name: text} of the directive sets that these raw directives can use; {} if they use none.

        These are the sets of the site's team for the same kind of web server.
        """
        if not shared.directive_sets_named(self.text):
            return {}
        rows = DirectiveSet.objects.filter(team=self.site.team_id, engine=self.engine)
        return dict(rows.values_list("name", "text"))
