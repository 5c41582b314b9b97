# SPDX-License-Identifier: MIT
# ./dev release: makes, describes, signs and checks what users download. Sourced by ./dev.
# shellcheck shell=bash
#
# Each folder of packaging/ has an executable make_artefact: `make_artefact OUTDIR` puts its files into OUTDIR, or ends with
# status 77 and a last line that says what is missing here. A folder may have try_artefact, for packaging/check_artefacts.py.

artefacts=build/artefacts
release_roots=${TARN_ROOTS:-build/roots}

dev_release() {
  local key='' names=() folder started
  started=$(date +%s)
  if [ "${1:-}" = --check ]; then
    shift
    release_check "$@"
    return
  fi
  while [ $# -gt 0 ]; do
    case $1 in
      --key)
        [ $# -ge 2 ] || fail_usage "--key takes the name of a GPG key"
        key=$2
        shift
        ;;
      -*) fail_usage "release does not know '$1'" ;;
      *)
        [ -d "packaging/$1" ] || fail_usage "there is no packaging/$1; there are: $(release_names | paste -sd' ')"
        names+=("$1")
        ;;
    esac
    shift
  done
  [ ${#names[@]} -gt 0 ] || mapfile -t names < <(release_names)
  for folder in "${names[@]}"; do
    [ -x "packaging/$folder/make_artefact" ] ||
      fail 1 "packaging/$folder has no executable make_artefact" "Add one, as packaging/source has; it gets the folder for its files."
  done
  [ -z "$key" ] || gpg --list-secret-keys "$key" >/dev/null 2>&1 ||
    fail 2 "gpg has no secret key '$key'" "gpg --list-secret-keys shows which there are."
  [ -z "$key" ] || [[ $(release_commit) =~ ^[0-9a-f]+$ ]] ||
    fail 2 "a signed release says from which commit it is made, and this folder differs from its commit" "git status shows how."
  need "$needs_build" "$wants_build$wants_release"
  release_make "${names[@]}"
  release_state "$key" "$started"
  release_sum "$key"
}

# The commit, with + behind it where a file differs from it; nothing outside of git.
release_commit() {
  git rev-parse HEAD 2>/dev/null && [ -z "$(git status --porcelain)" ] || echo +
}

release_names() {
  find packaging -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort
}

release_make() {
  local name log status commit not_made=() broken=()
  for name in "$@"; do
    log=build/log/release-$name.log
    status=0
    commit=$(release_commit)
    rm -rf "build/packages/$name.out"
    mkdir -p "build/packages/$name.out"
    release_step "$name" "$log" "build/packages/$name.out" || status=$?
    case $status in
      0) ;;
      77) not_made+=("$name: $(tail -n 1 "$log")") ;;
      *) broken+=("$name") ;;
    esac
    [ "$status" -eq 0 ] || rm -rf "build/packages/$name.out"
    [ "$(release_commit)" = "$commit" ] || commit+=+ # a file was changed, or another commit checked out, meanwhile
    echo "$commit" >"build/packages/$name.commit"
  done
  [ ${#not_made[@]} -eq 0 ] || printf 'Not made here: %s\n' "${not_made[@]}"
  [ ${#broken[@]} -eq 0 ] || fail 1 "could not make: ${broken[*]}" "Read the messages above; ./dev release NAME repeats one."
  # What was made before and not now stays.
  rm -rf "$artefacts"
  mkdir -p "$artefacts"
  for name in $(release_names); do
    [ ! -d "build/packages/$name.out" ] || cp -r "build/packages/$name.out"/. "$artefacts/"
  done
}

# Status 77 is no failure, so it must not be shown as one.
release_step() {
  local status_file=build/packages/$1.status
  step "Making $1" "$2" bash -c '"$1" "$2"; echo $? >"$3"; [ "$(cat "$3")" -eq 0 ] || [ "$(cat "$3")" -eq 77 ]' - \
    "packaging/$1/make_artefact" "$3" "$status_file"
  return "$(cat "$status_file")"
}

# release_state KEY STARTED: the apt repository, the list of others' parts, and where everything comes from, if KEY is not empty.
release_state() {
  local key=$1 version signer name
  version=$(sed -nE 's/^project\(tarn VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
  export SOURCE_DATE_EPOCH
  if compgen -G "$artefacts/*.deb" >/dev/null; then
    mkdir -p "$artefacts/apt/pool"
    ln "$artefacts"/*.deb "$artefacts/apt/pool"
    step "Making the apt repository" build/log/release-apt.log packaging/debian/make_repository "$artefacts/apt" "$key" ||
      fail 1 "there is no apt repository" "Read the messages above."
  fi
  step "Listing others' parts" build/log/release-sbom.log python3 packaging/statements.py sbom "$artefacts" "$version" ||
    fail 1 "there is no list of others' parts" "Read the messages above."
  [ -n "$key" ] || return 0
  for name in $(release_names); do
    [ ! -d "build/packages/$name.out" ] || [ "$(cat "build/packages/$name.commit")" = "$(release_commit)" ] ||
      fail 1 "$name was made from another commit" "Make it again: ./dev release --key KEY $name"
  done
  signer=$(gpg --with-colons --list-secret-keys "$key" | awk -F: '$1 == "fpr" { print $10; exit }')
  python3 packaging/statements.py provenance "$artefacts" "$version" "$(release_commit)" "$signer" "$2" &&
    release_sign "$key" "$artefacts/tarn-$version.intoto.json"
}

# release_sign KEY FILE
release_sign() {
  gpg --batch --yes --armor --local-user "$1" --detach-sign "$2" ||
    fail 1 "gpg cannot sign with the key '$1'" "Read its message above; ./dev release --key KEY repeats it."
}

# release_sum KEY: SHA256SUMS of what was made, signed if KEY is not empty; and the table of it.
release_sum() {
  local key=$1
  (cd "$artefacts" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs -r -d '\n' sha256sum >SHA256SUMS)
  [ -s "$artefacts/SHA256SUMS" ] || fail 1 "nothing was made" "Read the messages above."
  printf '\n%s:\n' "$artefacts"
  (cd "$artefacts" && find . -type f ! -name 'SHA256SUMS*' ! -path './apt/pool/*' -printf '  %9s bytes  %P\n' | LC_ALL=C sort -k 3)
  if [ -z "$key" ]; then
    echo "Nothing is signed, and nothing says what it was made from: no key was given (./dev release --key KEY)."
  else
    release_sign "$key" "$artefacts/SHA256SUMS"
    echo "SHA256SUMS, tarn-*.intoto.json and the apt repository are signed by $key."
  fi
}

release_check() {
  [ -e "$artefacts/SHA256SUMS" ] || fail 2 "there are no artefacts in $artefacts" "Make them first: ./dev release"
  need '' "$wants_release_check"
  local status=0
  python3 packaging/check_artefacts.py "$artefacts" "$release_roots" "$@" || status=$?
  [ $status -eq 0 ] || fail $status "the check of the artefacts is not complete" "Read the lines above; build/check.log has all messages."
}
