"""PHP pools of a site."""

from __future__ import annotations

from django.db import models

from panel.core.models import BaseModel
from panel.websites import shapes, validators
from panel.websites.models.sites import Site


class PhpPool(BaseModel):
    """An existing PHP process pool: php-fpm that listens on `address`. Web servers send requests to the pool over
    FastCGI.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="php_pools")
    name = models.SlugField(max_length=63, validators=[validators.validate_slug])
    address = models.CharField(  # host:port, [v6]:port or unix:/path
        max_length=300, validators=[validators.validate_upstream_address]
    )
    settings = models.JSONField(  # {"memory_limit": "256M"}, sent as PHP_VALUE
        default=dict, blank=True, validators=[shapes.validate_php_settings]
    )

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="websites_php_pool_name")]

    def __str__(self) -> str:
        return self.name
