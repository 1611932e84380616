#!/usr/bin/env bash
# Checks that clang-format would leave every tracked C++ and .proto file as it is. Prints the files that it would
# change, and the command that does so.
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format=$(command -v clang-format-14 || command -v clang-format) || {
  echo "format_check: there is no clang-format; run tools/install_dependencies.sh" >&2
  exit 1
}

files=()
while IFS= read -r -d '' file; do
  [[ ! -f $file ]] || files+=("$file")  # It may be removed, and that not committed yet.
done < <(git ls-files -z -- '*.h' '*.cc' '*.cu' '*.proto')

if complaints=$("$clang_format" --dry-run -Werror "${files[@]}" 2>&1); then
  echo "format_check: ${#files[@]} files are formatted."
  exit 0
fi

# A complaint starts with FILE:LINE:COLUMN.
mapfile -t unformatted < <(sed -nE 's/^([^:]+):[0-9]+:[0-9]+: error: .*/\1/p' <<<"$complaints" | sort -u)
{
  if [[ ${#unformatted[@]} -eq 0 ]]; then
    echo "format_check: clang-format failed:"
    echo "$complaints"
  else
    echo "format_check: ${#unformatted[@]} files are not formatted:"
    printf '  %s\n' "${unformatted[@]}"
    echo "Format them with: $(basename "$clang_format") -i ${unformatted[*]}"
  fi
} >&2
exit 1
