"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.core.fields
import panel.core.tags
import panel.websites.shapes
import panel.websites.validators


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("websites", "0001_initial"),
        ("websites", "0002_server_name_index"),
        ("websites", "0003_log_format_brotli_header_limit"),
        ("websites", "0004_caching_rewrites"),
        ("websites", "0005_tags"),
        ("websites", "0006_allowances"),
        ("websites", "0007_list_services_in_use"),
        ("websites", "0008_answers_challenges"),
        ("websites", "0009_web_server"),
        ("websites", "0010_site_version"),
    ]

    dependencies = [
        ("accounts", "0001_squashed"),
        ("hosts", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PhpPool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("name", models.SlugField(max_length=63, validators=[panel.websites.validators.validate_slug])),
                (
                    "address",
                    models.CharField(max_length=300, validators=[panel.websites.validators.validate_upstream_address]),
                ),
                (
                    "settings",
                    models.JSONField(
                        blank=True, default=dict, validators=[panel.websites.shapes.validate_php_settings]
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Certificate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.SlugField(max_length=63, unique=True, validators=[panel.websites.validators.validate_slug]),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("uploaded", "Uploaded"),
                            ("self_signed", "Self-signed"),
                            ("acme", "Automatic (ACME)"),
                        ],
                        max_length=12,
                    ),
                ),
                ("certificate_pem", models.TextField()),
                ("private_key_pem", panel.core.fields.EncryptedTextField()),
                ("names", models.JSONField(default=list)),
                ("issuer", models.CharField(max_length=300)),
                ("fingerprint", models.CharField(max_length=64)),
                ("not_before", models.DateTimeField()),
                ("not_after", models.DateTimeField(db_index=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="certificates", to="accounts.team"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ServerBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "root",
                    models.CharField(blank=True, max_length=500, validators=[panel.websites.validators.validate_path]),
                ),
                (
                    "index",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_index]),
                ),
                (
                    "try_files",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_try_files]),
                ),
                ("autoindex", models.BooleanField(default=False)),
                (
                    "rewrites",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_rewrites]),
                ),
                (
                    "error_pages",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_error_pages]),
                ),
                (
                    "headers",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_headers]),
                ),
                (
                    "access_log",
                    models.CharField(
                        blank=True, max_length=500, validators=[panel.websites.validators.validate_log_path]
                    ),
                ),
                (
                    "access_log_format",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Combined"),
                            ("common", "Common"),
                            ("timed", "Combined, with response time"),
                            ("json", "JSON, one object per line"),
                        ],
                        default="",
                        max_length=8,
                    ),
                ),
                (
                    "error_log",
                    models.CharField(
                        blank=True, max_length=500, validators=[panel.websites.validators.validate_log_path]
                    ),
                ),
                (
                    "error_log_level",
                    models.CharField(
                        choices=[
                            ("debug", "Debug"),
                            ("info", "Info"),
                            ("notice", "Notice"),
                            ("warn", "Warn"),
                            ("error", "Error"),
                            ("crit", "Crit"),
                        ],
                        default="error",
                        max_length=8,
                    ),
                ),
                (
                    "gzip",
                    models.CharField(
                        blank=True,
                        choices=[("", "Web server default"), ("on", "On"), ("off", "Off")],
                        default="",
                        max_length=3,
                    ),
                ),
                (
                    "gzip_types",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_gzip_types]),
                ),
                (
                    "brotli",
                    models.CharField(
                        blank=True,
                        choices=[("", "Web server default"), ("on", "On"), ("off", "Off")],
                        default="",
                        max_length=3,
                    ),
                ),
                (
                    "client_max_body_mb",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MaxValueValidator(102400)]
                    ),
                ),
                (
                    "client_max_header_kb",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1024),
                        ],
                    ),
                ),
                ("redirect_to_https", models.BooleanField(default=False)),
                ("hsts_max_age_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "certificate",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="blocks",
                        to="websites.certificate",
                    ),
                ),
            ],
            options={
                "ordering": ["position", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Location",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "match",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("=", "= exact path"),
                            ("^~", "^~ path prefix, before regular expressions"),
                            ("~", "~ regular expression"),
                            ("~*", "~* regular expression, case-insensitive"),
                            ("", "path prefix"),
                        ],
                        default="",
                        max_length=2,
                    ),
                ),
                ("pattern", models.CharField(max_length=500, validators=[panel.websites.validators.validate_line])),
                (
                    "handler",
                    models.CharField(
                        choices=[
                            ("static", "Files"),
                            ("php", "PHP / FastCGI"),
                            ("proxy", "Proxy"),
                            ("return", "Redirect or fixed response"),
                            ("deny", "Deny"),
                        ],
                        default="static",
                        max_length=8,
                    ),
                ),
                (
                    "rewrites",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_rewrites]),
                ),
                (
                    "root",
                    models.CharField(blank=True, max_length=500, validators=[panel.websites.validators.validate_path]),
                ),
                (
                    "alias",
                    models.CharField(blank=True, max_length=500, validators=[panel.websites.validators.validate_path]),
                ),
                (
                    "index",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_index]),
                ),
                (
                    "try_files",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_try_files]),
                ),
                ("autoindex", models.BooleanField(blank=True, null=True)),
                ("split_path_info", models.BooleanField(default=False)),
                ("upstream_tls", models.BooleanField(default=False)),
                (
                    "proxy_uri",
                    models.CharField(
                        blank=True, max_length=500, validators=[panel.websites.validators.validate_uri_path]
                    ),
                ),
                ("websocket", models.BooleanField(default=False)),
                (
                    "request_headers",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_headers]),
                ),
                (
                    "connect_timeout_s",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MaxValueValidator(600)]
                    ),
                ),
                (
                    "read_timeout_s",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MaxValueValidator(86400)]
                    ),
                ),
                (
                    "cache_times",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_cache_times]),
                ),
                (
                    "cache_skip_cookies",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_cookies]),
                ),
                ("cache_skip_queries", models.BooleanField(default=False)),
                ("cache_stale", models.BooleanField(default=True)),
                ("cache_header", models.BooleanField(default=False)),
                (
                    "cache_key",
                    models.CharField(blank=True, max_length=300, validators=[panel.websites.validators.validate_line]),
                ),
                (
                    "return_code",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(200),
                            django.core.validators.MaxValueValidator(599),
                        ],
                    ),
                ),
                (
                    "return_value",
                    models.CharField(blank=True, max_length=1000, validators=[panel.websites.validators.validate_line]),
                ),
                (
                    "headers",
                    models.JSONField(blank=True, default=list, validators=[panel.websites.shapes.validate_headers]),
                ),
                (
                    "expires",
                    models.CharField(
                        blank=True, max_length=32, validators=[panel.websites.validators.validate_expires]
                    ),
                ),
                (
                    "access_rules",
                    models.JSONField(
                        blank=True, default=list, validators=[panel.websites.shapes.validate_access_rules]
                    ),
                ),
                (
                    "basic_auth_realm",
                    models.CharField(blank=True, max_length=120, validators=[panel.websites.validators.validate_realm]),
                ),
                (
                    "basic_auth_users",
                    models.JSONField(
                        blank=True, default=dict, validators=[panel.websites.shapes.validate_basic_auth_users]
                    ),
                ),
                (
                    "rate_limit_rps",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("rate_limit_burst", models.PositiveIntegerField(default=0)),
                (
                    "connection_limit",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                (
                    "client_max_body_mb",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MaxValueValidator(102400)]
                    ),
                ),
                (
                    "gzip",
                    models.CharField(
                        blank=True,
                        choices=[("", "Web server default"), ("on", "On"), ("off", "Off")],
                        default="",
                        max_length=3,
                    ),
                ),
                (
                    "php_pool",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="locations",
                        to="websites.phppool",
                    ),
                ),
                (
                    "block",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="locations", to="websites.serverblock"
                    ),
                ),
            ],
            options={
                "ordering": ["position", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Site",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.SlugField(max_length=63, unique=True, validators=[panel.websites.validators.validate_slug]),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "health_path",
                    models.CharField(
                        default="/", max_length=300, validators=[panel.websites.validators.validate_uri_path]
                    ),
                ),
                (
                    "cache_mb",
                    models.PositiveIntegerField(
                        default=100,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1048576),
                        ],
                    ),
                ),
                ("answers_challenges", models.BooleanField(default=False, editable=False)),
                ("notes", models.TextField(blank=True, validators=[panel.websites.validators.validate_text])),
                ("tags", panel.core.tags.TagsField()),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="sites", to="accounts.team"
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sites",
                        to="hosts.webserver",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="serverblock",
            name="site",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="blocks", to="websites.site"
            ),
        ),
        migrations.CreateModel(
            name="RawSnippet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "engine",
                    models.CharField(
                        choices=[
                            ("nginx", "nginx"),
                            ("apache", "Apache httpd"),
                            ("openlitespeed", "OpenLiteSpeed"),
                            ("native", "gallop"),
                        ],
                        max_length=16,
                    ),
                ),
                ("text", models.TextField(validators=[panel.websites.validators.validate_text])),
                (
                    "location",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snippets",
                        to="websites.location",
                    ),
                ),
                (
                    "block",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snippets",
                        to="websites.serverblock",
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="snippets", to="websites.site"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.AddField(
            model_name="phppool",
            name="site",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="php_pools", to="websites.site"
            ),
        ),
        migrations.CreateModel(
            name="Upstream",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("name", models.SlugField(max_length=63, validators=[panel.websites.validators.validate_slug])),
                (
                    "balancing",
                    models.CharField(
                        choices=[
                            ("round_robin", "Round robin"),
                            ("least_conn", "Least connections"),
                            ("ip_hash", "Client address"),
                        ],
                        default="round_robin",
                        max_length=12,
                    ),
                ),
                (
                    "keepalive",
                    models.PositiveIntegerField(
                        default=16, validators=[django.core.validators.MaxValueValidator(1024)]
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="upstreams", to="websites.site"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="location",
            name="upstream",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="locations",
                to="websites.upstream",
            ),
        ),
        migrations.CreateModel(
            name="UpstreamServer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "address",
                    models.CharField(max_length=300, validators=[panel.websites.validators.validate_upstream_address]),
                ),
                (
                    "weight",
                    models.PositiveIntegerField(
                        default=1,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                (
                    "max_fails",
                    models.PositiveIntegerField(default=1, validators=[django.core.validators.MaxValueValidator(100)]),
                ),
                (
                    "fail_timeout_s",
                    models.PositiveIntegerField(
                        default=10, validators=[django.core.validators.MaxValueValidator(3600)]
                    ),
                ),
                ("backup", models.BooleanField(default=False)),
                ("down", models.BooleanField(default=False)),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "upstream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="servers", to="websites.upstream"
                    ),
                ),
            ],
            options={
                "ordering": ["position", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Allowance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("name", "Name"),
                            ("address", "Address"),
                            ("default", "Default server"),
                            ("service", "Local service"),
                        ],
                        max_length=8,
                    ),
                ),
                ("value", models.CharField(max_length=300, validators=[panel.websites.validators.validate_line])),
                (
                    "note",
                    models.CharField(blank=True, max_length=300, validators=[panel.websites.validators.validate_line]),
                ),
                ("needs_review", models.BooleanField(default=False, editable=False)),
                (
                    "granted_by",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allowances",
                        to="hosts.host",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allowances",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "ordering": ["kind", "value", "pk"],
                "indexes": [models.Index(fields=["value"], name="websites_allowance_value")],
            },
        ),
        migrations.CreateModel(
            name="Listen",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "address",
                    models.CharField(
                        blank=True, max_length=45, validators=[panel.websites.validators.validate_listen_address]
                    ),
                ),
                (
                    "port",
                    models.PositiveIntegerField(
                        default=80,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(65535),
                        ],
                    ),
                ),
                ("tls", models.BooleanField(default=False)),
                ("http2", models.BooleanField(default=False)),
                ("http3", models.BooleanField(default=False)),
                ("default_server", models.BooleanField(default=False)),
                (
                    "block",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="listens", to="websites.serverblock"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("block", "address", "port"), name="websites_listen_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerName",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=253, validators=[panel.websites.validators.validate_server_name])),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "block",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="names", to="websites.serverblock"
                    ),
                ),
            ],
            options={
                "ordering": ["position", "pk"],
                "indexes": [models.Index(fields=["name"], name="websites_server_name")],
                "constraints": [models.UniqueConstraint(fields=("block", "name"), name="websites_server_name_once")],
            },
        ),
        migrations.AddConstraint(
            model_name="phppool",
            constraint=models.UniqueConstraint(fields=("site", "name"), name="websites_php_pool_name"),
        ),
        migrations.AddConstraint(
            model_name="upstream",
            constraint=models.UniqueConstraint(fields=("site", "name"), name="websites_upstream_name"),
        ),
        migrations.AddConstraint(
            model_name="location",
            constraint=models.UniqueConstraint(fields=("block", "match", "pattern"), name="websites_location_once"),
        ),
    ]
