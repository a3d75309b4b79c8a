#!/bin/sh
# Starts the web server as a daemon and sshd in the foreground. Keys come from secrets, never from the image.
set -eu
install -d -m 700 /root/.ssh
install -m 600 /run/secrets/demo_key_public /root/.ssh/authorized_keys
install -m 600 /run/secrets/demo_host_key /etc/ssh/demo_host_key
case $SERVER in
nginx) nginx ;;
apache) apachectl start ;;
esac
exec /usr/sbin/sshd -D -e -h /etc/ssh/demo_host_key -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password
