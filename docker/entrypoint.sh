#!/bin/sh
# What a container of the panel runs: entrypoint.sh web | worker | beat
set -eu
cd "$(dirname "$0")/.."
python=${PADDOCK_PYTHON:-python}
case ${1:-} in
web)
    "$python" manage.py prepare
    [ ! -d "${PADDOCK_DEMO_DIR:-/nonexistent}" ] || "$python" manage.py register_demo_hosts "$PADDOCK_DEMO_DIR"
    exec "$python" manage.py web --address 0.0.0.0 --port "${PORT:-8000}"
    ;;
worker) # Each connected host has a thread; more memory pools of the C library cost memory and save no time.
    MALLOC_ARENA_MAX=2 exec "$python" -m celery -A panel worker --loglevel INFO ;;
beat) exec "$python" -m celery -A panel beat --loglevel INFO --pidfile "" ;;
*) echo "usage: entrypoint.sh web | worker | beat" >&2; exit 2 ;;
esac
