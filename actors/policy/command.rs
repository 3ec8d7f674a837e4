//! A shell command as a list of words, if it is one simple command.

/// Programs and words of the shell that run another one: what they are given is not what is run.
const WRAPPERS: &str = "\
    . alias ash bash bind builtin busybox capsh chroot chrt command compgen complete \
    coproc csh dash doas entr env eval exec expect fakeroot fish flock gdb ionice ksh \
    logsave ltrace mapfile mksh nice nohup nsenter numactl parallel perf pkexec posh \
    prlimit rbash readarray run-parts runuser script setarch setpriv setsid sg sh source \
    ssh start-stop-daemon stdbuf strace su sudo systemd-run taskset tcsh time timeout \
    toybox trap unbuffer unshare valgrind watch xargs yash zsh";

/// Options of `find` behind which another command stands.
const RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// The words of a command that does one thing: no pipe, list, substitution, redirection, assignment,
/// expansion or wrapper. Anything else has no words, since what it would run cannot be seen: also what
/// is quoted but would be expanded by a shell's own commands (`test -v 'a[$(…)]'`).
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    // What else looks like space is a letter to the shell.
    let mut rest = command.trim_matches([' ', '\t', '\n']).chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        end if end == next => break,
                        '$' | '`' => return None,
                        '\\' | '!' if next == '"' => return None,
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
    let is_plain = !program.contains('=')
        && !name.is_empty()
        && !WRAPPERS.split(' ').any(|wrapper| wrapper == name);
    // The loader of programs, under its many names.
    let loads = name.starts_with("ld-") || name.starts_with("ld.so");
    let runs = words.iter().any(|word| RUNS.contains(&word.as_str()));
    (is_plain && !loads && !runs).then_some(words)
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
        // To the shell these are plain between single quotes.
        assert_eq!(words(r"printf 'a\n!'"), Some(vec!["printf".to_owned(), r"a\n!".to_owned()]));
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
            "git \"a\\b\"",
            "git \"a!b\"",
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
            "find . -name x -exec rm '{}' +",
            "test -v 'a[$(rm x)]'",
            "printf -v 'a[`rm x`]' y",
            "git log\r",
            "coproc rm x",
            "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
            ". ./script",
        ];

        let seen: Vec<_> = hidden.into_iter().filter(|text| words(text).is_some()).collect();

        assert_eq!(seen, Vec::<&str>::new());
    }
}
