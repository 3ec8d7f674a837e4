//! A shell command as a list of words, if it is one simple command.

/// Programs that run another one: what they are given is not what is run.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "busybox", "builtin", "chroot", "command", "csh", "dash", "doas", "env", "eval",
    "exec", "fish", "flock", "ionice", "ksh", "nice", "nohup", "parallel", "setsid", "sh", "ssh",
    "stdbuf", "su", "sudo", "tcsh", "time", "timeout", "unshare", "watch", "xargs", "zsh",
];

/// The words of a command that does one thing: no pipe, list, substitution, redirection, assignment,
/// expansion or wrapper. Anything else has no words, since what it would run cannot be seen.
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.trim().chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        end if end == next => break,
                        '$' | '`' | '\\' | '!' if next == '"' => return None,
                        other => word.push(other),
                    }
                }
            }
            plain if plain.is_alphanumeric() || "_-./:,@%+=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    let program = words.first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_plain = !program.contains('=') && !name.is_empty() && !WRAPPERS.contains(&name);
    is_plain.then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_simple_command_has_words() {
        assert_eq!(
            words(" git commit -m 'two words; no list' --author=\"a b\" "),
            Some(
                ["git", "commit", "-m", "two words; no list", "--author=a b"]
                    .map(str::to_owned)
                    .to_vec()
            )
        );
    }

    /// What is hidden in a command must not pass for what stands at its beginning.
    #[test]
    fn anything_else_has_none() {
        let hidden = [
            "",
            "git log | sh",
            "git log; rm x",
            "git log && rm x",
            "git log &",
            "git log\nrm x",
            "git $(rm x)",
            "git `rm x`",
            "git \"$(rm x)\"",
            "git \"`rm x`\"",
            "git > x",
            "git < x",
            "A=1 git log",
            "env git log",
            "/usr/bin/env git log",
            "sh -c 'git log'",
            "xargs git",
            "git {a,b}",
            "git *",
            "git ~",
            "git \\; rm",
            "git 'open",
            "(git log)",
            "git # log",
            "! git log",
        ];

        let seen: Vec<_> = hidden
            .into_iter()
            .filter(|text| words(text).is_some())
            .collect();

        assert_eq!(seen, Vec::<&str>::new());
    }
}
