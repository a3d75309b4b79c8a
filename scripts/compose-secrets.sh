#!/bin/sh
# Makes the secrets that docker-compose.yml reads, in ./secrets, once; never overwrites one.
set -eu
cd "$(dirname "$0")/.."
umask 077
mkdir -p secrets/demo
random() { python3 -c 'import secrets; print(secrets.token_urlsafe(36))'; }
[ -e secrets/secret_key ] || random >secrets/secret_key
[ -e secrets/postgres_password ] || random >secrets/postgres_password
[ -e secrets/encryption_keys ] ||
    python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())' >secrets/encryption_keys
[ -e secrets/database_url ] ||
    printf 'postgres://paddock:%s@postgres:5432/paddock\n' "$(cat secrets/postgres_password)" >secrets/database_url
for key in demo_key demo_host_key; do
    [ -e "secrets/demo/$key" ] || ssh-keygen -q -t ed25519 -N "" -C "$key" -f "secrets/demo/$key"
done
# The account in the containers is not the one that made the files; the folder keeps others on this machine out.
chmod 700 secrets
chmod 755 secrets/demo
chmod 644 secrets/secret_key secrets/postgres_password secrets/encryption_keys secrets/database_url secrets/demo/*
echo "secrets are in ./secrets; keep them out of backups that others can read"
