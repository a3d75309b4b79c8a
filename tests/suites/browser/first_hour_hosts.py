"""Content of the hosts of the first hour before Paddock: WordPress with its database, and sites of nginx and Apache."""

from __future__ import annotations

from tests.support.debian_hosts import DebianHost

EXISTING = "existing site"
# WordPress as its handbook installs it, from the package's files; MariaDB listens on a socket. Both survive a reboot.
WORDPRESS = r"""
set -e
mkdir -p /srv/www /var/lib/first-hour && chown www-data /var/lib/first-hour
cp --recursive --dereference /usr/share/wordpress /srv/www/blog
rm -f /srv/www/blog/wp-config.php /srv/www/blog/.htaccess
mkdir -p /srv/www/blog/wp-content/uploads
echo '<?php echo "this must not run";' > /srv/www/blog/wp-content/uploads/picture.php
cat > /srv/www/blog/wp-config.php <<'END'
<?php
define('DB_NAME', 'blog');
define('DB_USER', 'blog');
define('DB_PASSWORD', 'blog');
define('DB_HOST', 'localhost:/run/first-hour/mariadb.sock');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'http://blog.example');
define('WP_SITEURL', WP_HOME);
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
END
cat > /var/lib/first-hour/init.sql <<'END'
CREATE DATABASE IF NOT EXISTS blog CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS 'blog'@'localhost' IDENTIFIED BY 'blog';
GRANT ALL ON blog.* TO 'blog'@'localhost';
END
mariadb-install-db --no-defaults --user=www-data --datadir=/var/lib/first-hour/data --skip-test-db > /dev/null
cat > /etc/systemd/system/mariadb.service <<'END'
[Unit]
Before=php8.2-fpm.service
[Service]
User=www-data
RuntimeDirectory=first-hour
ExecStart=/usr/sbin/mariadbd --no-defaults --datadir=/var/lib/first-hour/data --skip-networking \
    --socket=/run/first-hour/mariadb.sock --init-file=/var/lib/first-hour/init.sql --innodb-flush-log-at-trx-commit=2
[Install]
WantedBy=multi-user.target
END
systemctl enable --quiet --now mariadb
sql='mariadb --no-defaults --socket=/run/first-hour/mariadb.sock -u blog -pblog blog'
until $sql -e 'SELECT 1' > /dev/null 2>&1; do sleep 0.2; done
cat > /var/lib/first-hour/install.php <<'END'
<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'blog.example';
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = '/wp-admin/install.php';
function wp_mail() {
    return true;
}
function wp_new_blog_notification() {
}
require '/srv/www/blog/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Our blog', 'editor', 'editor@blog.example', true, '', 'slow clock over the door');
echo 'installed';
END
php -d sendmail_path=/bin/true /var/lib/first-hour/install.php
"""
NGINX_SITE = """\
server {
    listen 80;
    server_name old-shop.example;
    root /var/www/old-shop;
    location /cart { return 302 /; }
    location ~ /\\. { deny all; }
}
"""
APACHE_SITE = """\
<VirtualHost *:80>
    ServerName old-club.example
    ServerAlias www.old-club.example
    DocumentRoot /var/www/old-club
    <Directory /var/www/old-club>
        AllowOverride None
        Require all granted
    </Directory>
    Redirect permanent /news /index.html
</VirtualHost>
"""


def wordpress(host: DebianHost) -> None:
    assert host.shell(WORDPRESS).endswith("installed")


def existing_site(host: DebianHost, server: str) -> None:
    """A site that the host's web server serves already, as its administrator wrote it."""
    name, text = {"nginx": ("old-shop", NGINX_SITE), "apache2": ("old-club", APACHE_SITE)}[server]
    place = f"/etc/{server}/sites-available/{name}.conf"
    host.shell(f"mkdir -p /var/www/{name} && echo '{EXISTING}' > /var/www/{name}/index.html")
    host.shell(
        f"cat > {place} <<'END'\n{text}END\nln -s {place} /etc/{server}/sites-enabled/ && systemctl reload {server}"
    )
