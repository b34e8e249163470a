# fish completion for rota
function __rota_complete
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l word (commandline -ct)
  for line in ($program complete fish -- $words "$word" 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path "$word"
      case :programs
        __fish_complete_command
      case '*'
        echo $line
    end
  end
end
complete -c rota -f -k -a "(__rota_complete)"
