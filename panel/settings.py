"""Django settings of the panel; all differences between installations come from environment variables.

Embedded mode (the default) keeps everything below PADDOCK_HOME: SQLite, the Celery queue as files, secrets.
PADDOCK_DATABASE_URL and PADDOCK_REDIS_URL select cluster mode. docs/guide/production.md lists every variable.
"""

from __future__ import annotations

from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from environs import validate

from panel import env
from panel.core.keys import read_or_create_secret

BASE_DIR = Path(__file__).resolve().parent.parent
env.refuse_double_settings()
HOME = env.folder("PADDOCK_HOME", BASE_DIR / ".paddock")

DEBUG = env.read.bool("PADDOCK_DEBUG", False)
# Served over HTTPS behind a proxy: cookies become Secure and HSTS is sent.
HTTPS = env.read.bool("PADDOCK_HTTPS", False)
TRUSTED_PROXIES = env.words("PADDOCK_TRUSTED_PROXIES")
ALLOWED_HOSTS = env.words("PADDOCK_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("PADDOCK_ORIGINS")

SECRET_KEY = env.read.str("PADDOCK_SECRET_KEY", "") or read_or_create_secret(HOME / "secrets" / "secret_key")
# The first key encrypts, all of them decrypt: to rotate, add a new key in front, then run `manage.py rotate_secrets`.
ENCRYPTION_KEYS = env.words("PADDOCK_ENCRYPTION_KEYS") or [
    line for line in read_or_create_secret(HOME / "secrets" / "encryption_keys", fernet=True).split("\n") if line
]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_filters",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "panel.core",
    "panel.accounts",
    "panel.audit",
    "panel.hosts",
    "panel.websites",
    "panel.deployments",
    "panel.rollouts",
    "panel.previews",
    "panel.placements",
    "panel.failover",
    "panel.fpm",
    "panel.enrollments",
    "panel.publishing",
    "panel.imports",
    "panel.benchmarks",
    "panel.comparisons",
    "panel.certificates",
    "panel.reports",
    "panel.alerts",
    "panel.api",
]
MIGRATION_MODULES = {
    label: f"migrations.{label}"
    for label in (
        *("accounts", "api", "audit", "benchmarks", "certificates", "deployments", "hosts", "imports"),
        *("alerts", "reports", "comparisons", "core", "rollouts", "previews", "placements", "failover", "fpm"),
        *("enrollments", "publishing", "websites"),
    )
}

MIDDLEWARE = [
    "panel.core.middleware.RequestIdMiddleware",
    "panel.api.middleware.ProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "panel.core.middleware.NoStoreMiddleware",
    "panel.api.bodies.BodyLimitMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "panel.core.middleware.FinalSlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "panel.accounts.middleware.CallerMiddleware",
    "panel.accounts.middleware.GuessLimitMiddleware",
    "panel.core.middleware.NullCharacterMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "panel.core.middleware.FormAddressMiddleware",
]
APPEND_SLASH = False  # FinalSlashMiddleware handles both directions
ROOT_URLCONF = "panel.urls"
ASGI_APPLICATION = "panel.asgi.application"
WSGI_APPLICATION = "panel.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "panel.core.templating.Loader",
                    ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "panel.core.context.shell",
            ],
        },
    }
]
FORM_RENDERER = "panel.core.form_renderer.Renderer"

_WORKER_THREADS = env.read.int("PADDOCK_WORKER_THREADS", 16, validate=validate.Range(1, 256))
DATABASES = {
    "default": env.database(
        env.read.str("PADDOCK_DATABASE_URL", f"sqlite:///{HOME / 'paddock.sqlite3'}"),
        at_once=max(20, _WORKER_THREADS + 4),  # per process; heartbeats are short
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Tests use a file too: in-memory SQLite supports neither WAL nor a second process.
    DATABASES["default"]["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.read.str("PADDOCK_REDIS_URL", "")
_REDIS_TIMEOUTS: dict[str, object] = {"socket_timeout": 3, "socket_connect_timeout": 2}  # seconds
CACHES = {
    "default": (
        {"BACKEND": "panel.core.cache.OptionalRedisCache", "LOCATION": REDIS_URL}
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    )
}

# --- Celery: database rows hold the state, a message only wakes a worker (docs/decisions/0002) ---
CELERY_BROKER_URL = REDIS_URL or "folder://localhost/"
CELERY_BROKER_TRANSPORT = None if REDIS_URL else "panel.core.queue:Transport"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = (
    _REDIS_TIMEOUTS if REDIS_URL else {"folder": str(HOME / "queue"), "polling_interval": 0.1}
)
# A message that cannot be sent is not needed: the next sweep finds the row that it was about.
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2}
CELERY_TASK_IGNORE_RESULT, CELERY_TASK_ACKS_LATE = True, False
CELERY_WORKER_POOL = "threads"  # one process holds the pooled SSH connections
CELERY_WORKER_CONCURRENCY = _WORKER_THREADS
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULER = "panel.core.scheduling:DatabaseScheduler"  # several of them may run
CELERY_BEAT_SCHEDULE_FILENAME = str(HOME / "beat-schedule")  # its time tells that the scheduler runs
# A periodic task replaces the previous one, so messages that no worker took in time are not needed.
_STALE, _HOURLY = {"expires": 300}, {"expires": 3600}
CELERY_BEAT_SCHEDULE = {
    "sweep-deployments": {"task": "panel.deployments.tasks.sweep", "schedule": 4.0, "options": _STALE},
    "sweep-rollouts": {"task": "panel.rollouts.tasks.sweep", "schedule": 2.0, "options": _STALE},
    "sweep-publications": {"task": "panel.publishing.tasks.sweep", "schedule": 4.0, "options": _STALE},
    "sweep-previews": {"task": "panel.previews.tasks.sweep", "schedule": 4.0, "options": _STALE},
    "sweep-jobs": {"task": "panel.hosts.tasks.sweep", "schedule": 4.0, "options": _STALE},
    "sweep-runs": {"task": "panel.benchmarks.tasks.sweep", "schedule": 15.0, "options": _STALE},
    "sweep-certificates": {"task": "panel.certificates.tasks.sweep", "schedule": 5.0, "options": _STALE},
    "read-host-certificates": {"task": "panel.certificates.tasks.read_host_files", "schedule": 3600.0},
    "watch-certificates": {"task": "panel.certificates.tasks.watch_listeners", "schedule": 3600.0, "options": _HOURLY},
    "watch-certificates-again": {"task": "panel.certificates.tasks.watch_listeners_again", "schedule": 60.0},
    "sweep-comparisons": {"task": "panel.comparisons.tasks.sweep", "schedule": 15.0, "options": _STALE},
    "sweep-schedules": {"task": "panel.reports.tasks.sweep", "schedule": 15.0, "options": _STALE},
    "forget-deployments": {"task": "panel.deployments.tasks.forget", "schedule": 600.0},
    "forget-jobs": {"task": "panel.hosts.tasks.forget", "schedule": 600.0},
    "forget-audit": {"task": "panel.audit.tasks.forget", "schedule": 600.0},
    "watch-hosts": {"task": "panel.deployments.tasks.watch", "schedule": 30.0, "options": {"expires": 30}},
    "follow-hosts": {"task": "panel.deployments.tasks.follow_hosts", "schedule": 30.0, "options": {"expires": 30}},
    "watch-names": {"task": "panel.deployments.tasks.watch_names", "schedule": 3600.0, "options": _HOURLY},
    "send-alerts": {"task": "panel.alerts.tasks.send", "schedule": 60.0},
    "check-drift": {"task": "panel.deployments.tasks.check_drift", "schedule": 600.0},
}
CELERY_TIMEZONE = "UTC"

# --- Accounts ---
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "dashboard"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "paddock_session"
CSRF_COOKIE_NAME = "paddock_csrf"
CSRF_FAILURE_VIEW = "panel.core.views.pages.csrf_failure"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
# Time during which a repeated password (and code) permits sensitive actions: tokens, raw directives, key material.
SUDO_SECONDS = 900

# --- Transport ---
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = (
    env.read.int("PADDOCK_HSTS_SECONDS", 31_536_000, validate=validate.Range(0, 63_072_000)) if HTTPS else 0
)
# Both affect names beyond the panel's: other hosts of its domain, and browsers' built-in lists. So they must be set
# explicitly.
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS and env.read.bool("PADDOCK_HSTS_SUBDOMAINS", False)
SECURE_HSTS_PRELOAD = HTTPS and env.read.bool("PADDOCK_HSTS_PRELOAD", False)
if SECURE_HSTS_PRELOAD and not (SECURE_HSTS_INCLUDE_SUBDOMAINS and SECURE_HSTS_SECONDS >= 31_536_000):
    raise ImproperlyConfigured(
        "PADDOCK_HSTS_PRELOAD needs PADDOCK_HSTS_SUBDOMAINS=1 and PADDOCK_HSTS_SECONDS of at least 31536000: browsers' "
        "preload lists accept no other sites."
    )
# `check --deploy` warns about both; they are deliberate choices here.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if HTTPS and TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

# Limit for all requests; panel/api/bodies.py limits each URL before the body is read.
DATA_UPLOAD_MAX_MEMORY_SIZE = 24 * 1024 * 1024

# --- API ---
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "panel.api.authentication.BearerAuthentication",
        "panel.api.authentication.PanelSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["panel.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "panel.api.schema.Schema",
    "EXCEPTION_HANDLER": "panel.api.problems.exception_handler",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Paddock API",
    "DESCRIPTION": (
        "The API covers everything that the panel's pages do.\n\n- **Authentication**: send "
        "`Authorization: Bearer pdk_…` with one of your tokens. This page uses your session.\n- "
        "**Lists** are paginated by `limit`; follow `next`. Unknown parameters are rejected.\n- "
        "**Long-running calls** return 202; `Location` is the URL of the job.\n- **Errors** are problem "
        "details that name the field: [all kinds](/api/v1/problems/).\n- **`dry_run=true`** validates a "
        "call without changes, **`Idempotency-Key`** makes it safe to repeat, and **`If-Match`** "
        "protects changes by others."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False},
    "REDOC_DIST": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        "AllowanceKindEnum": "panel.websites.models.AllowanceKind",
        "AcmeAccountStatusEnum": "panel.certificates.choices.AccountStatus",
        "ChangeWindowKindEnum": "panel.deployments.change_windows.ChangeWindow.Kind",
        "DeploymentKindEnum": "panel.deployments.models.DeploymentKind",
        "SuiteApplicationEnum": "panel.benchmarks.serializers.APPLICATIONS",
        "HostJobKindEnum": "panel.hosts.models.HostJobKind",
        "SshAuthorityKindEnum": "panel.hosts.models.AuthorityKind",
        "DnsKindEnum": "panel.certificates.dns.providers.DnsKind",
        "DeploymentStatusEnum": "panel.deployments.models.DeploymentStatus",
        "OccurrenceStatusEnum": "panel.reports.choices.OccurrenceStatus",
        "RunStatusEnum": "panel.benchmarks.models.RunStatus",
        "GzipEnum": "panel.websites.models.Gzip",  # for gzip and Brotli
        "HostStatusEnum": "panel.hosts.models.HostStatus",
        "JobStatusEnum": "panel.core.jobs.JobStatus",
        "StepStatusEnum": "panel.deployments.models.StepStatus",
        "CertificateSourceEnum": "panel.websites.models.CertificateSource",
        "ReleaseSourceEnum": "panel.publishing.models.Source",
        "ImportSourceEnum": "panel.imports.models.ImportSource",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "panel.api.schema.add_problems",
        "panel.api.schema.add_summaries",
    ],
}

# --- Pages ---
STATIC_URL = "static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Hashed names need `collectstatic` first (`manage.py prepare` runs it); tests without a browser skip it.
STATIC_MANIFEST = env.read.bool("PADDOCK_STATIC_MANIFEST", True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "servestatic.storage.CompressedManifestStaticFilesStorage"
            if STATIC_MANIFEST
            else "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
    },
}
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N, USE_TZ = False, True  # texts are marked for translation, but there is one language: nothing to look up

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "panel.core.middleware.RequestIdFilter"},
        "database_away": {"()": "panel.core.database_messages.DatabaseAwayFilter"},
        "seldom": {"()": "panel.core.seldom.SeldomFilter", "seconds": 30},
    },
    "formatters": {"line": {"format": "{asctime} {levelname} {name} [{request_id}] {message}", "style": "{"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["database_away", "request_id"]},
    },
    # While the database is away, each attempt to connect is a warning of several lines.
    "loggers": {"psycopg.pool": {"filters": ["seldom"]}},
    "root": {"handlers": ["console"], "level": env.read.str("PADDOCK_LOG_LEVEL", "INFO")},
}

# --- Reports: mail and webhooks ---
EMAIL_HOST = env.read.str("PADDOCK_SMTP_HOST", "")
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_PORT = env.read.int("PADDOCK_SMTP_PORT", 587, validate=validate.Range(1, 65535))
EMAIL_HOST_USER = env.read.str("PADDOCK_SMTP_USER", "")
EMAIL_HOST_PASSWORD = env.read.str("PADDOCK_SMTP_PASSWORD", "")
_SMTP_TLS = env.read.str("PADDOCK_SMTP_TLS", "starttls", validate=validate.OneOf(["starttls", "tls", "none"]))
EMAIL_USE_TLS, EMAIL_USE_SSL = _SMTP_TLS == "starttls", _SMTP_TLS == "tls"
EMAIL_TIMEOUT = 30
DEFAULT_FROM_EMAIL = env.read.str("PADDOCK_MAIL_FROM", "paddock@localhost")
# The panel's own URL for links in mails: https://panel.example.com
PANEL_URL = env.read.str("PADDOCK_URL", "").rstrip("/")
# The command of management commands in texts for administrators; the Debian package sets it to `paddock`.
COMMAND = env.read.str("PADDOCK_COMMAND", "manage.py")
# Private networks that webhooks may reach.
WEBHOOK_NETWORKS = env.networks("PADDOCK_WEBHOOK_NETWORKS")
# For DNS-01: the resolvers (address or address:port; the panel's own host's if empty), the port of
# authoritative servers, and the folder of programs that may change records.
DNS_RESOLVERS = env.words("PADDOCK_DNS_RESOLVERS")
DNS_PORT = env.read.int("PADDOCK_DNS_PORT", 53, validate=validate.Range(1, 65535))
DNS_HOOKS = env.read.str("PADDOCK_DNS_HOOKS", "")
# Days for which finished deployments and jobs, and the audit log, are kept; 0 keeps them forever.
KEEP_DEPLOYMENTS_DAYS = env.read.int("PADDOCK_KEEP_DEPLOYMENTS_DAYS", 180, validate=validate.Range(0, 36_500))
KEEP_AUDIT_DAYS = env.read.int("PADDOCK_KEEP_AUDIT_DAYS", 400, validate=validate.Range(0, 36_500))

# --- Paddock ---
GALLOP_BINARY = Path(env.read.str("PADDOCK_GALLOP", str(BASE_DIR / "native" / "target" / "release" / "gallop")))
# Emulates links for suites with a network profile; built together with gallop.
NETEM_BINARY = Path(env.read.str("PADDOCK_NETEM", str(GALLOP_BINARY.with_name("paddock-netem"))))
# Generates HTTP/3 load where a host's h2load cannot; built together with gallop.
LOAD_BINARY = Path(env.read.str("PADDOCK_LOAD", str(GALLOP_BINARY.with_name("gallop-load"))))
# Folder on the panel's own machine for sites, logs and gallop's files in embedded mode.
LOCAL_HOST_ROOT = env.host_folder("PADDOCK_LOCAL_HOST_FOLDER", HOME)
# Whether the panel's own machine is a host too; false in a container.
LOCAL_HOST = env.read.bool("PADDOCK_LOCAL_HOST", True)
