# SPDX-License-Identifier: MIT
# fish completion of tarn
function __tarn_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l command $tokens[1]
    set -e tokens[1]
    set -l answer ($command __complete $tokens "$current" 2>/dev/null)
    set -l value (string replace -r '^--[^=]*=' '' -- $current)
    set -l before (string sub -l (math (string length -- "$current") - (string length -- "$value")) -- "$current")
    switch "$answer[1]"
        case words
            printf '%s\n' $answer[2..]
        case files
            printf '%s\n' $before(__tarn_files "$value")
        case 'files *'
            set -l ending (string replace 'files ' '' -- $answer[1])
            printf '%s\n' $before(__tarn_files "$value" | string match -r '.*(?:\\'$ending'|/)$')
        case folders
            printf '%s\n' $before(__tarn_files "$value" | string match '*/')
        case 'program *'
            set -l words $command $tokens $current
            set words $words[(math (string replace 'program ' '' -- $answer[1]) + 1)..]
            if test (count $words) -gt 1; or not string match -q -- '-*' "$current"
                complete -C (string join ' ' -- (string escape -- $words[1..-2]) "$words[-1]")
            end
    end
end

function __tarn_files
    complete -C"tarn-file $argv[1]" | string replace -r '\t.*' ''
end

complete -c tarn -f -a '(__tarn_complete)'
