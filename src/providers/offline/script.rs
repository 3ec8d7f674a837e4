//! The grammar of demo scripts.

use std::{ops::Range, time::Duration};

use serde_json::Value;

use super::LONGEST_WAIT;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Say(String),
    Think(String),
    Wait(Duration),
    Call { tool: String, args: Value },
}

/// A line that cannot be played.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct ScriptError {
    line: usize,
    reason: String,
}

/// Steps that end in calls, and what is done after the last of them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Script {
    steps: Vec<Vec<Action>>,
    end: Vec<Action>,
    reply: Option<String>,
}

impl Script {
    /// The script in a message; none if no line of it is a directive.
    pub(super) fn parse(message: &str) -> Result<Option<Self>, ScriptError> {
        let mut script = None;
        let quoted = quotation(message);
        for (number, line) in message.lines().enumerate() {
            if quoted.contains(&number) {
                continue;
            }
            let directive = line
                .trim()
                .strip_prefix('#')
                // A heading is none.
                .filter(|rest| rest.starts_with(char::is_alphabetic));
            if let Some(directive) = directive {
                script
                    .get_or_insert_with(Self::default)
                    .directive(directive)
                    .map_err(|reason| ScriptError { line: number + 1, reason })?;
            }
        }
        Ok(script.map(Self::finished))
    }

    /// What to do after so many steps with these results.
    pub(super) fn step(&self, played: usize, results: &[&str]) -> Vec<Action> {
        if let Some(step) = self.steps.get(played) {
            return step.clone();
        }
        let reply = match &self.reply {
            Some(reply) => fill(reply, results),
            None => {
                let firsts = results.iter().filter_map(|result| result.lines().next());
                ["Done."].into_iter().chain(firsts).collect::<Vec<_>>().join("\n")
            }
        };
        let mut actions = self.end.clone();
        actions.push(Action::Say(reply));
        actions
    }

    fn directive(&mut self, directive: &str) -> Result<(), String> {
        let (name, rest) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let rest = rest.trim();
        let action = match name {
            "say" => Action::Say(rest.to_owned()),
            "think" => Action::Think(rest.to_owned()),
            "wait" => Action::Wait(pause(rest)?),
            "call" => call(rest)?,
            "then" => {
                self.close_step();
                return Ok(());
            }
            "reply" => {
                self.close_step();
                self.reply = Some(rest.to_owned());
                return Ok(());
            }
            _ => return Err(format!("there is no directive `#{name}`; type `help`")),
        };
        if !matches!(action, Action::Call { .. }) {
            self.close_step();
        }
        self.end.push(action);
        Ok(())
    }

    /// A step ends where calls end: without a call the turn would be over.
    fn close_step(&mut self) {
        if matches!(self.end.last(), Some(Action::Call { .. })) {
            self.steps.push(std::mem::take(&mut self.end));
        }
    }

    fn finished(mut self) -> Self {
        self.close_step();
        self
    }
}

/// The lines that are quoted: the words of others are not for us to obey.
fn quotation(message: &str) -> Range<usize> {
    let at = |mark: &'static str| move |line: &str| line.trim() == mark;
    let lines: Vec<_> = message.lines().collect();
    let first = lines.iter().position(|line| at("<<<")(line));
    let last = lines.iter().rposition(|line| at(">>>")(line));
    match (first, last) {
        (Some(first), Some(last)) => first..last,
        _ => 0..0,
    }
}

fn pause(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .map(Duration::from_millis)
        .filter(|pause| *pause <= LONGEST_WAIT)
        .ok_or_else(|| format!("`#wait` takes 0 to {} ms", LONGEST_WAIT.as_millis()))
}

fn call(text: &str) -> Result<Action, String> {
    let (tool, args) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if tool.is_empty() {
        return Err("`#call` needs the name of a tool".to_owned());
    }
    let args = match args.trim() {
        "" => Value::Object(serde_json::Map::new()),
        args => serde_json::from_str(args)
            .map_err(|error| format!("the arguments are not JSON: {error}"))?,
    };
    Ok(Action::Call { tool: tool.to_owned(), args })
}

/// Puts results into a reply. A placeholder without a result stays.
fn fill(reply: &str, results: &[&str]) -> String {
    let mut filled = String::new();
    let mut rest = reply;
    while let Some(at) = rest.find("{result") {
        let (before, placeholder) = rest.split_at(at);
        filled.push_str(before);
        let end = placeholder.find('}').map_or(placeholder.len(), |end| end + 1);
        let (placeholder, after) = placeholder.split_at(end);
        let result = match placeholder {
            "{result}" => results.last(),
            _ => placeholder
                .strip_prefix("{result:")
                .and_then(|number| number.strip_suffix('}')?.parse::<usize>().ok())
                .and_then(|number| results.get(number.checked_sub(1)?)),
        };
        filled.push_str(result.copied().unwrap_or(placeholder));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {

    use super::*;

    fn call(tool: &str) -> Action {
        Action::Call { tool: tool.into(), args: serde_json::json!({}) }
    }

    /// SE-119
    #[test]
    fn neighbouring_calls_are_one_step_and_then_parts_them() {
        let script = Script::parse("#call a\n#call b\n#then\n#call c\n#say x\n#then\n#call d")
            .unwrap()
            .unwrap();

        assert_eq!(
            script,
            Script {
                steps: vec![
                    vec![call("a"), call("b")],
                    vec![call("c")],
                    vec![Action::Say("x".into()), call("d")],
                ],
                end: Vec::new(),
                reply: None,
            }
        );
    }

    #[test]
    fn a_message_without_directives_is_no_script() {
        assert_eq!(Script::parse("# Hello\nyou\n## and more"), Ok(None));
    }

    #[test]
    fn a_faulty_line_is_named() {
        let reasons = ["#dance", "#wait 60001", "#wait soon", "#call"]
            .map(|line| Script::parse(&format!("do:\n{line}")).unwrap_err().to_string());

        assert_eq!(
            reasons,
            [
                "line 2: there is no directive `#dance`; type `help`",
                "line 2: `#wait` takes 0 to 60000 ms",
                "line 2: `#wait` takes 0 to 60000 ms",
                "line 2: `#call` needs the name of a tool",
            ]
        );
    }
}
