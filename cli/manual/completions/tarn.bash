# SPDX-License-Identifier: MIT
# bash completion of tarn
_tarn() {
  local IFS=$'\n' current=${COMP_WORDS[COMP_CWORD]}
  local word tarn=${COMP_WORDS[0]/#~\//$HOME/}
  local -a words=("${COMP_WORDS[@]:1:COMP_CWORD-1}") answer
  # bash splits --name=value at "=".
  [[ $current == = ]] && { words+=("="); current=; }
  COMPREPLY=()
  mapfile -t answer < <("$tarn" __complete "${words[@]}" "$current" 2>/dev/null)
  case ${answer[0]} in
    words) # not by compgen -W, which would run what the words contain
      for word in "${answer[@]:1}"; do
        word=${word%%$'\t'*}
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
      done
      ;;
    folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current")) ;;
    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")) ;;
    files\ *)
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -X "!*${answer[0]#files }" -- "$current") $(compgen -d -- "$current"))
      ;;
    program\ *) _tarn_program "${answer[0]#program }" ;;
  esac
}

# The program begins at word $1: its own completion, or a command's name and then files.
_tarn_program() {
  local IFS=$' \t\n'
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  else
    IFS=$'\n'
    compopt -o filenames 2>/dev/null
    if ((COMP_CWORD == $1)) && [[ $current != */* ]]; then
      COMPREPLY=($(compgen -c -- "$current") $(compgen -d -- "$current"))
    else
      COMPREPLY=($(compgen -f -- "$current"))
    fi
  fi
}

complete -F _tarn tarn
