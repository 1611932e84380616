#!/usr/bin/env bash
# Makes certificates for a cluster, for those who have no authority of their own:
#
#   deploy/make_certificates.sh DIR NAME HOST...
#
# DIR/NAME.pem and DIR/NAME.key are a certificate and its key for a machine that is dialled as HOST:
# names and IP addresses, without ports. The first run makes the authority as well, DIR/ca.pem and
# DIR/ca.key. Every machine needs ca.pem and its own two files; ca.key stays where it was made, and
# whoever has it can join the cluster. A certificate lasts for MILLRACE_CERTIFICATE_DAYS (825), the
# authority for ten years. Made again, a certificate replaces its files, and processes take them up.
set -euo pipefail

fail() {
  echo "make_certificates: $1" >&2
  exit "${2:-1}"
}

[[ $# -ge 3 ]] || fail "usage: deploy/make_certificates.sh DIR NAME HOST..." 2
directory=$1
name=$2
shift 2
[[ $directory != -* ]] || fail "DIR: '$directory'; must not begin with '-'" 2
[[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]*$ && $name != ca ]] ||
  fail "NAME: '$name'; must be a file's name of letters, digits, '_', '.' and '-', and not ca" 2
days=${MILLRACE_CERTIFICATE_DAYS:-825}
[[ $days =~ ^[1-9][0-9]{0,4}$ ]] || fail "MILLRACE_CERTIFICATE_DAYS: '$days'; must be a number of days" 2
names=()
for host in "$@"; do
  if [[ $host =~ ^[0-9.]+$ || $host =~ ^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$ ]]; then
    names+=("IP:$host")
  elif [[ $host =~ ^[A-Za-z0-9*_]([A-Za-z0-9_.-]*)$ ]]; then
    names+=("DNS:$host")
  else
    fail "HOST: '$host'; must be a name or an IP address, without a port or brackets" 2
  fi
done
command -v openssl >/dev/null || fail "there is no openssl; install the package of that name"

umask 077
mkdir -p "$directory"
exec 9<"$directory"
flock 9 # One at a time: the first makes the authority.
work=$(mktemp -d "$directory/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What openssl says is told where it fails.
openssl_or_fail() {
  openssl "$@" >"$work/said" 2>&1 || fail "openssl $1: $(cat "$work/said")"
}
new_key() {
  openssl_or_fail genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

if [[ ! -e $directory/ca.pem && ! -e $directory/ca.key ]]; then
  new_key "$work/ca.key"
  openssl_or_fail req -x509 -new -key "$work/ca.key" -days 3650 -subj "/CN=Millrace authority" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -out "$work/ca.pem"
  chmod 644 "$work/ca.pem"
  mv "$work/ca.key" "$work/ca.pem" "$directory/"
fi
for file in ca.pem ca.key; do
  [[ -s $directory/$file ]] ||
    fail "$directory/$file is missing or empty, and the authority's other file is there: put it back, or take another DIR for a new authority"
done

cat >"$work/extensions" <<EXTENSIONS
subjectAltName=$(IFS=,; echo "${names[*]}")
extendedKeyUsage=serverAuth,clientAuth
keyUsage=critical,digitalSignature
basicConstraints=critical,CA:FALSE
authorityKeyIdentifier=keyid
EXTENSIONS
new_key "$work/key"
openssl_or_fail req -new -key "$work/key" -subj "/CN=$name" -out "$work/request"
openssl_or_fail x509 -req -in "$work/request" -CA "$directory/ca.pem" -CAkey "$directory/ca.key" \
  -CAserial "$work/serial" -CAcreateserial -days "$days" -extfile "$work/extensions" -out "$work/pem"
chmod 644 "$work/pem"
mv -f "$work/key" "$directory/$name.key"
mv -f "$work/pem" "$directory/$name.pem"
echo "make_certificates: $directory/$name.pem is for ${names[*]}"
