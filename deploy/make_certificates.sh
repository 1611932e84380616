#!/usr/bin/env bash
# Makes certificates for a cluster, for those who have no authority of their own:
#
#   deploy/make_certificates.sh DIR NAME HOST...
#
# DIR/NAME.pem and DIR/NAME.key are a certificate and its key for a machine that is dialled as HOST:
# names and IP addresses. The first run makes the authority as well, DIR/ca.pem and DIR/ca.key. Every
# machine needs ca.pem and its own two files; ca.key stays where it was made, and whoever has it can
# join the cluster. A certificate lasts for MILLRACE_CERTIFICATE_DAYS (825), the authority for ten
# years. Making a certificate again replaces its files at once, and processes take them up.
set -euo pipefail

if [[ $# -lt 3 ]]; then
  echo "usage: deploy/make_certificates.sh DIR NAME HOST..." >&2
  exit 2
fi
directory=$1
name=$2
shift 2
if [[ $name == ca || $name == */* ]]; then
  echo "make_certificates: NAME: '$name'; must be a file's name, and not ca" >&2
  exit 2
fi
command -v openssl >/dev/null || {
  echo "make_certificates: there is no openssl; install the package of that name" >&2
  exit 1
}
umask 077
mkdir -p "$directory"

new_key() {
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

if [[ ! -f $directory/ca.pem ]]; then
  new_key "$directory/ca.key"
  openssl req -x509 -new -key "$directory/ca.key" -days 3650 -subj "/CN=Millrace authority" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -out "$directory/ca.pem"
fi

names=()
for host in "$@"; do
  if [[ $host == *:* || $host =~ ^[0-9.]+$ ]]; then names+=("IP:$host"); else names+=("DNS:$host"); fi
done
work=$(mktemp -d "$directory/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/extensions" <<EXTENSIONS
subjectAltName=$(IFS=,; echo "${names[*]}")
extendedKeyUsage=serverAuth,clientAuth
keyUsage=critical,digitalSignature
basicConstraints=critical,CA:FALSE
EXTENSIONS
new_key "$work/key"
openssl req -new -key "$work/key" -subj "/CN=$name" -out "$work/request"
openssl x509 -req -in "$work/request" -CA "$directory/ca.pem" -CAkey "$directory/ca.key" \
  -days "${MILLRACE_CERTIFICATE_DAYS:-825}" -extfile "$work/extensions" -out "$work/pem" 2>/dev/null
mv "$work/key" "$directory/$name.key"
mv "$work/pem" "$directory/$name.pem"
echo "make_certificates: $directory/$name.pem is for ${names[*]}"
