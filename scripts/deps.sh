#!/bin/sh
# Installs what is missing from the distribution, when it may; otherwise says exactly what to install.
#   deps.sh venv   what `make run` needs beyond Python, Rust, make and a C compiler (Debian splits venv off)
#   deps.sh test   what the tests drive: real servers, load tools, a browser
#   deps.sh host-nginx | host-apache   what a demo host of docker-compose.yml is made of
set -eu

# program (or path) : Debian package
TEST="nginx:nginx /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream apache2:apache2 ab:apache2-utils sshd:openssh-server ssh-keygen:openssh-client h2load:nghttp2-client
/usr/share/wordpress/wp-load.php:wordpress mariadbd:mariadb-server-core /usr/lib/php/20220829/mysqli.so:php8.2-mysql
/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css:wordpress-theme-twentytwentythree php:php8.2-cli
/usr/share/doc/php/copyright:php /usr/share/doc/php-cli/copyright:php-cli /usr/share/doc/php-fpm/copyright:php-fpm
/usr/share/doc/php-mysql/copyright:php-mysql
wrk:wrk siege:siege hey:hey php-fpm8.2:php8.2-fpm redis-server:redis-server chromium-headless-shell:chromium-headless-shell curl:curl jq:jq ip:iproute2 openssl:openssl
docker-compose:docker-compose git:git /usr/lib/postgresql/15/bin/postgres:postgresql-15
/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core mkfs.ext4:e2fsprogs mount:mount setpriv:util-linux
mmdebstrap:mmdebstrap systemd-nspawn:systemd-container
memcached:memcached uwsgi:uwsgi-core /usr/lib/uwsgi/plugins/python3_plugin.so:uwsgi-plugin-python3
/usr/share/doc/libseccomp2/copyright:libseccomp2 keepalived:keepalived pgrep:procps certutil:libnss3-tools
named:bind9 nsupdate:bind9-dnsutils knotd:knot pdns_server:pdns-server visudo:sudo
/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql:pdns-backend-sqlite3"
# A certificate authority for the tests, from the Go module proxy: module@version and its programs.
PEBBLE=github.com/letsencrypt/pebble/v2/cmd
PEBBLE_VERSION=v2.10.1
TOOLS=${PADDOCK_TEST_TOOLS:-${HOME:-/root}/.cache/paddock-test-tools}
HOST="sshd:openssh-server python3:python3 curl:curl"

have() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing() {
    for pair in $*; do
        have "${pair%%:*}" || printf '%s ' "${pair#*:}"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# Packages of servers start them when they are installed; the tests start their own, on private ports.
POLICY=/usr/sbin/policy-rc.d
install_quietly() {
    made=
    if [ ! -e $POLICY ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $POLICY >/dev/null
        as_root chmod 755 $POLICY
        made=yes
        trap 'as_root rm -f $POLICY' EXIT INT TERM
    fi
    echo "==> installing from the distribution: $*"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    [ -z "$made" ] || { as_root rm -f $POLICY; trap - EXIT INT TERM; }
}

need() {
    packages=$(missing "$@")
    [ -n "$packages" ] || return 0
    if may_install; then
        # shellcheck disable=SC2086 # a list of package names
        install_quietly $packages
        left=$(missing "$@")
        [ -z "$left" ] || { echo "deps: still missing after installing: $left" >&2; exit 1; }
    else
        echo "deps: missing, and this account may not install: $packages" >&2
        echo "deps: as root, run: apt-get install $packages" >&2
        exit 1
    fi
}

# Debian 12 has only an older Pebble, without renewal information and profiles.
need_pebble() {
    [ -x "$TOOLS/pebble-$PEBBLE_VERSION" ] && return 0
    command -v go >/dev/null 2>&1 || {
        echo "deps: Go 1.21 or newer is needed to build the tests' certificate authority: https://go.dev/dl/" >&2
        exit 1
    }
    mkdir -p "$TOOLS"
    for name in pebble pebble-challtestsrv; do
        GOBIN="$TOOLS" go install "$PEBBLE/$name@$PEBBLE_VERSION"
    done
    cp "$TOOLS/pebble" "$TOOLS/pebble-$PEBBLE_VERSION"
}

case ${1:-} in
venv)
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "deps: Python 3.11 or newer is needed" >&2; exit 1; }
    # Debian keeps the module that venv needs in a package of its own.
    python3 -c 'import venv, ensurepip' 2>/dev/null || need "$(python3 -c 'import sys; print("/usr/lib/python3.%d/ensurepip:python3.%d-venv" % (sys.version_info[1], sys.version_info[1]))')"
    ;;
test)
    need $TEST
    need_pebble
    ;;
host-nginx) need $HOST nginx:nginx ;;
host-apache) need $HOST apache2:apache2 ;;
*) sed -n '2,6p' "$0" | cut -c3-; exit 2 ;;
esac
