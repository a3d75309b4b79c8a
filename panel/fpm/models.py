"""Models of PHP-FPM pools that Paddock creates on hosts."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel
from panel.fpm import rules
from panel.hosts.models import Host
from panel.rendering import fpm
from panel.websites.models import Site


def _whole(pattern: str, message: object) -> RegexValidator:
    return RegexValidator(rf"\A(?:{pattern})\Z", message)  # type: ignore[arg-type] # a lazy text


class FpmPool(BaseModel):
    """The PHP-FPM pool of one site on one host, a file that Paddock writes.

    A site uses the pool on the host of its web server. After a move to another host, the old host still has its pool
    until an administrator removes it.

    `text` is the file as Paddock last wrote it, "" before the first time. `owner` and `group` are user and group of the
    host's web server at that time. `seen` is the host's last report on the pool (`reading.cleaned`).
    """

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="fpm_pools")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="fpm_pools", editable=False)
    name = models.CharField(max_length=71, editable=False)  # paddock-SITE, as the site was named at creation
    php_version = models.CharField(
        max_length=5, validators=[_whole(fpm.VERSION.pattern, _("Enter a PHP version, for example 8.2."))]
    )
    account = models.CharField(
        max_length=32,
        validators=[
            _whole(
                fpm.ACCOUNT.pattern,
                _("Enter the name of an account of the host: letters a-z, digits, - and _."),
            )
        ],
    )
    folder = models.CharField(
        max_length=200,
        validators=[
            _whole(fpm.FOLDER.pattern, _("Enter an absolute path of letters, digits, and ._-, such as /srv/www/shop."))
        ],
    )
    max_children = models.PositiveIntegerField(default=5, validators=[MinValueValidator(1), MaxValueValidator(500)])
    memory_mb = models.PositiveIntegerField(default=128, validators=[MinValueValidator(16), MaxValueValidator(8192)])
    upload_mb = models.PositiveIntegerField(default=8, validators=[MinValueValidator(1), MaxValueValidator(8192)])
    owner = models.CharField(max_length=32, blank=True, default="", editable=False)
    group = models.CharField(max_length=32, blank=True, default="", editable=False)
    text = models.TextField(blank=True, default="", editable=False)
    seen = models.JSONField(default=dict, blank=True, editable=False)
    seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    problem = models.TextField(blank=True, default="", editable=False)

    class Meta:
        verbose_name = _("PHP-FPM pool")
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["host", "name"], name="fpm_one_pool_per_name")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        rules.check_pool(self)

    @property
    def socket(self) -> str:
        return fpm.socket_of(self.name)

    @property
    def path(self) -> str:
        return f"/etc/php/{self.php_version}/fpm/pool.d/{self.name}.conf"
