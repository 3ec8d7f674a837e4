//! `hivewright completions`: what a shell needs to complete commands, flags and names.

use clap::Args;
use hivewright_actors::words;

use crate::{api::flags, cli::screen::Screen};

words! {
    /// Shells that are completed for.
    pub(super) enum Shell {
        Bash = "bash",
        Zsh = "zsh",
        Fish = "fish",
    }
}

/// Print completions for a shell
///
/// They know teams, tasks and what else has a name, as long as the service runs.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    echo 'source <(hivewright completions bash)' >> ~/.bashrc\n  \
    echo 'source <(hivewright completions zsh)' >> ~/.zshrc\n  \
    echo 'hivewright completions fish | source' >> ~/.config/fish/config.fish")]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_parser = flags::words::<Shell>())]
    pub(super) shell: Shell,
}

pub(super) fn print(arguments: &Arguments, screen: Screen) {
    screen.write(match arguments.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
    });
}

// Where nothing is found, files are completed.
const BASH: &str = r#"_hivewright() {
    local IFS=$'\n'
    COMPREPLY=($("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _hivewright hivewright
"#;

const ZSH: &str = r#"#compdef hivewright
_hivewright() {
    local -a found
    local line
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n "$line" ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#found )); then _describe hivewright found; else _files; fi
}
if [ "$funcstack[1]" = "_hivewright" ]; then
    _hivewright "$@"
else
    (( $+functions[compdef] )) || { autoload -U compinit && compinit; }
    compdef _hivewright hivewright
fi
"#;

const FISH: &str = r#"function __hivewright_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found ($words[1] complete -- $words[2..] "$word" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path "$word"
    end
end
complete -c hivewright -f -a '(__hivewright_complete)'
"#;
