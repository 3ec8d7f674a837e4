//! Completion of a chat line: the commands, teams and waiting decisions that a chat knows while it is written.

use hivewright_actors::router::commands::COMMANDS;

/// Commands of the chat itself, in the form of the service's.
pub(in crate::cli) const OWN: [(&str, &str); 2] = [
    ("/team [name]", "says to whom you talk; without a name, to the main team again."),
    ("/exit", "leaves; what was accepted goes on."),
];

/// Something that waits for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Waiting {
    pub(in crate::cli) id: String,
    /// The id that people write, which may be shorter.
    pub(in crate::cli) name: String,
    /// What it is about, in a few words.
    pub(in crate::cli) about: String,
    pub(in crate::cli) is_question: bool,
    /// What can be chosen, of a question.
    pub(in crate::cli) options: Vec<String>,
    pub(in crate::cli) is_secret: bool,
}

impl Waiting {
    fn is(&self, name: &str) -> bool {
        self.name == name || self.id == name
    }

    /// What can be chosen, with the number of each.
    pub(in crate::cli) fn numbered(&self) -> String {
        let options = self.options.iter().enumerate();
        let numbered = options.map(|(place, option)| format!("{} {option}", place + 1));
        numbered.collect::<Vec<_>>().join(", ")
    }

    /// The words that an answer means: a number is that of an option. None if no option has it.
    pub(in crate::cli) fn meant<'a>(&'a self, words: &'a str) -> Option<&'a str> {
        let Ok(number) = words.parse::<usize>() else { return Some(words) };
        let option = number.checked_sub(1).and_then(|place| self.options.get(place));
        // Where numbers are asked for, any is an answer.
        let asks_for_one = || self.options.iter().all(|option| option.parse::<usize>().is_ok());
        option.map(String::as_str).or_else(|| asks_for_one().then_some(words))
    }
}

/// What completion and hints are made from.
#[derive(Debug, Default)]
pub(in crate::cli) struct Known {
    pub(in crate::cli) teams: Vec<String>,
    /// Oldest first.
    pub(in crate::cli) waiting: Vec<Waiting>,
    /// What stands on the line.
    pub(in crate::cli) typed: String,
    /// What the line decides, as the hint behind it says.
    pub(in crate::cli) aim: Option<String>,
}

/// What a line does to something that waits.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Reply {
    Approve,
    Deny(String),
    /// With these words; none are a secret that is asked for.
    Answer(String),
}

impl Known {
    /// The line is being written: what to remark behind it.
    pub(in crate::cli) fn typing(&mut self, line: &str) -> Option<String> {
        line.clone_into(&mut self.typed);
        let aimed = self.reply(line).map(|(waiting, reply)| {
            let does = match reply {
                Reply::Approve => "approves",
                Reply::Deny(_) => "denies",
                Reply::Answer(_) => "answers",
            };
            (waiting.id.clone(), format!("({does} {}: {})", waiting.name, waiting.about))
        });
        self.aim = aimed.as_ref().map(|(id, _)| id.clone());
        aimed.map(|(_, hint)| hint).or_else(|| {
            let about = |(form, does): &(&str, &str)| {
                (form.split(' ').next() == Some(line)).then(|| match form.split_once(' ') {
                    Some((_, arguments)) => format!("{arguments}: {does}"),
                    None => (*does).to_owned(),
                })
            };
            OWN.iter().chain(COMMANDS.iter()).find_map(about)
        })
    }

    /// What a line does to which of those that wait: the one that it names, or the only one.
    pub(in crate::cli) fn reply(&self, line: &str) -> Option<(&Waiting, Reply)> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (is_question, rest) = match (word, rest.trim()) {
            ("y" | "yes" | "n" | "no", rest) => (false, rest),
            ("/approve" | "/deny", rest) => (false, rest),
            ("/answer", rest) => (true, rest),
            _ => return None,
        };
        let (first, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let mut those = self.waiting.iter().filter(|waiting| waiting.is_question == is_question);
        let (waiting, words) = match those.clone().find(|waiting| waiting.is(first)) {
            Some(named) => (named, words.trim()),
            None => match (those.next(), those.next()) {
                (Some(only), None) => (only, rest),
                _ => return None,
            },
        };
        let reply = match word {
            "y" | "yes" | "/approve" if words.is_empty() => Reply::Approve,
            "n" | "no" | "/deny" => {
                Reply::Deny(if words.is_empty() { "no" } else { words }.to_owned())
            }
            "/answer" if waiting.is_secret == words.is_empty() => Reply::Answer(words.to_owned()),
            _ => return None,
        };
        Some((waiting, reply))
    }

    /// The names of those that a line could decide, if it does not say which.
    pub(in crate::cli) fn unclear(&self, line: &str) -> Option<String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let is_question = match (word, rest.trim()) {
            ("y" | "yes", "") | ("n" | "no", _) => false,
            ("/answer", _) => true,
            _ => return None,
        };
        let those = self.waiting.iter().filter(|waiting| waiting.is_question == is_question);
        let names: Vec<&str> = those.map(|waiting| waiting.name.as_str()).collect();
        (names.len() > 1 && self.reply(line).is_none()).then(|| names.join(", "))
    }

    /// Whether a line would tell a secret that is asked for without showing it.
    pub(in crate::cli) fn tells_secret(&self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("/answer ").map(str::trim) else { return false };
        let (first, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match self.waiting.iter().find(|waiting| waiting.is(first)) {
            Some(named) => named.is_secret && !words.is_empty(),
            None => !rest.is_empty() && self.waiting.iter().any(|waiting| waiting.is_secret),
        }
    }

    /// The question that a line answers, if it was asked elsewhere.
    pub(in crate::cli) fn unknown_question(&self, line: &str) -> Option<String> {
        let name = line.strip_prefix("/answer ")?.split_whitespace().next()?;
        let is_unknown = !self.waiting.iter().any(|waiting| waiting.is(name));
        (is_unknown && name.starts_with("qst-")).then(|| name.to_owned())
    }

    /// Whether a line may be remembered: nobody knows yet whether a question that was asked elsewhere is about a secret.
    pub(in crate::cli) fn may_keep(&self, line: &str) -> bool {
        !self.tells_secret(line) && self.unknown_question(line).is_none()
    }

    /// The words that could stand at the end of a line, and where they begin.
    pub(in crate::cli) fn completions(&self, line: &str) -> (usize, Vec<String>) {
        let mut letters = line.char_indices();
        let space = letters.rfind(|(_, letter)| letter.is_whitespace());
        let start = space.map_or(0, |(place, letter)| place + letter.len_utf8());
        let (before, word) = line.split_at(start);
        let teams = || self.teams.iter().cloned();
        let ids = |is_question| {
            let those =
                self.waiting.iter().filter(move |waiting| waiting.is_question == is_question);
            those.map(|waiting| waiting.name.clone()).collect()
        };
        let all: Vec<String> = match before.trim_end() {
            "" if word.starts_with('/') => {
                let forms = OWN.iter().chain(COMMANDS.iter());
                let words = forms.filter_map(|(form, _)| form.split(' ').next());
                words.map(str::to_owned).collect()
            }
            "/team" => teams().collect(),
            "/approve" | "/deny" | "y" | "n" => ids(false),
            "/answer" => ids(true),
            _ if word.starts_with('@') => teams().map(|team| format!("@{team}")).collect(),
            _ => Vec::new(),
        };
        let fits = all.into_iter().filter(|candidate| candidate.starts_with(word));
        (start, fits.map(|word| format!("{word} ")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: &str, is_question: bool) -> Waiting {
        let (about, options) = ("bash".to_owned(), Vec::new());
        let name = id.to_owned();
        Waiting { id: format!("{id}-long"), name, about, is_question, options, is_secret: false }
    }

    fn known(waiting: impl IntoIterator<Item = Waiting>) -> Known {
        let teams = vec!["research".to_owned(), "main".to_owned()];
        Known { teams, waiting: waiting.into_iter().collect(), ..Known::default() }
    }

    /// OP-78: what waits is decided with a word, which says before what it will do.
    #[test]
    fn the_only_thing_that_waits_needs_no_name() {
        let mut one = known([waiting("apr-1", false), waiting("qst-1", true)]);
        let two = known([waiting("apr-1", false), waiting("apr-2", false)]);
        let reply = |known: &Known, line: &str| {
            known.reply(line).map(|(waiting, reply)| (waiting.name.clone(), reply))
        };
        let of = |id: &str, reply| Some((id.to_owned(), reply));

        assert_eq!(reply(&one, "y"), of("apr-1", Reply::Approve));
        assert_eq!(reply(&one, "n not today"), of("apr-1", Reply::Deny("not today".into())));
        assert_eq!(reply(&one, "/answer blue"), of("qst-1", Reply::Answer("blue".into())));
        assert_eq!(reply(&two, "y"), None);
        assert_eq!(reply(&two, "y apr-2"), of("apr-2", Reply::Approve));
        assert_eq!(reply(&two, "yesterday it rained"), None);
        assert_eq!(reply(&known([]), "y"), None);
        // More than the word is a message, not a decision.
        assert_eq!(reply(&one, "yes please do"), None);
        assert_eq!(one.typing("y").as_deref(), Some("(approves apr-1: bash)"));
        assert_eq!(one.aim.as_deref(), Some("apr-1-long"));
        // Words that could be about either are for neither, and not for a model.
        assert_eq!(two.unclear("y").as_deref(), Some("apr-1, apr-2"));
        assert_eq!(two.unclear("n not today").as_deref(), Some("apr-1, apr-2"));
        assert_eq!((two.unclear("n apr-2"), one.unclear("y")), (None, None));
        assert_eq!(two.unclear("yes please do"), None);
    }

    #[test]
    fn a_number_that_no_option_has_is_no_answer() {
        let of = |options: &[&str]| Waiting {
            options: options.iter().copied().map(str::to_owned).collect(),
            ..waiting("qst-1", true)
        };
        let (colours, sizes, any) = (of(&["red", "blue"]), of(&["10", "20"]), of(&[]));

        assert_eq!(colours.numbered(), "1 red, 2 blue");
        assert_eq!(
            ["2", "3", "0", "dark 3"].map(|words| colours.meant(words)),
            [Some("blue"), None, None, Some("dark 3")]
        );
        assert_eq!(["20", "2"].map(|words| sizes.meant(words)), [Some("20"), Some("20")]);
        assert_eq!(any.meant("3"), Some("3"));
    }

    /// MV-66: a secret stands on no line, and so in no history.
    #[test]
    fn a_secret_is_not_taken_from_the_line() {
        let secret = Waiting { is_secret: true, ..waiting("qst-9", true) };
        let both = known([secret, waiting("qst-1", true)]);
        let told = |line: &str| both.tells_secret(line);

        assert!(told("/answer hunter22") && told("/answer qst-9 hunter22"));
        assert!(!told("/answer qst-1 blue") && !told("/answer qst-9") && !told("/answer"));
        let kept = |line: &str| both.may_keep(line);
        assert!(kept("/answer qst-1 blue") && !kept("/answer hunter22"));
        assert!(!kept("/answer qst-of-another-chat hunter22"));
        assert_eq!(
            both.reply("/answer qst-9").map(|(_, reply)| reply),
            Some(Reply::Answer(String::new()))
        );
    }

    #[test]
    fn commands_teams_and_ids_are_completed() {
        let known = known([waiting("apr-1", false)]);

        assert_eq!(known.completions("/approva"), (0, vec!["/approvals ".to_owned()]));
        assert_eq!(known.completions("/team re"), (6, vec!["research ".to_owned()]));
        assert_eq!(known.completions("ask @re"), (4, vec!["@research ".to_owned()]));
        assert_eq!(known.completions("/deny "), (6, vec!["apr-1 ".to_owned()]));
        assert_eq!(known.completions("hello wor"), (6, vec![]));
        assert_eq!(known.completions("調べて\u{3000}@re"), (12, vec!["@research ".to_owned()]));
    }
}
