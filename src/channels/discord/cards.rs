//! Cards: approvals and questions as messages with buttons, and what a press means.

use hivewright_actors::{
    approvals::{
        question::{AnswerKind, Question},
        record::{Approval, Choice},
    },
    excerpt,
    router::card_buttons::Button,
};
use serde_json::Value;
use serenity::{
    builder::{
        CreateActionRow, CreateButton, CreateSelectMenu, CreateSelectMenuKind,
        CreateSelectMenuOption,
    },
    model::application::{ButtonStyle, ComponentInteractionData, ComponentInteractionDataKind},
};

/// A call of more characters is not shown whole, and so cannot be approved by a press.
const MOST_SHOWN: usize = 6_000;
/// The longest text on a button, and in a menu, in characters.
const LONGEST_LABEL: usize = 80;
const ROW: usize = 5;

/// A card: its text, and what can be pressed below it.
pub(super) struct Card {
    pub(super) text: String,
    pub(super) rows: Vec<CreateActionRow>,
}

/// A request, with the exact call.
pub(super) fn approval(approval: &Approval) -> Card {
    let tool = approval.tool.as_deref().unwrap_or(approval.kind.as_str());
    let (team, name) = (&approval.team.name, &approval.short_id);
    let (language, call) = match &approval.diff {
        Some(diff) => ("diff", shown(diff)),
        None => ("json", exact(&approval.arguments)),
    };
    let (part, missing) = excerpt::split(&call, MOST_SHOWN);
    let mut lines = vec![
        format!(
            "**[{}] wants to use `{}`.** {}",
            plain(team.as_str()),
            code(tool),
            plain(&approval.summary)
        ),
        format!("```{language}\n{part}\n```"),
    ];
    if missing > 0 {
        lines.push(format!(
            "{missing} more characters do not fit here: `hivewright approvals show {name}` shows and decides it."
        ));
    }
    lines.extend(approval.warnings().map(str::to_owned));
    let digest = excerpt::split(&approval.digest, 8).0;
    lines.push(format!(
        "`{name}`, digest `{digest}`. /approve {name} and /deny {name} <why> work too."
    ));
    let button = |choice: Choice, word: &str, style: ButtonStyle| {
        let id = format!("{choice}:{}:{}", approval.id, approval.digest);
        CreateButton::new(id).label(word).style(style)
    };
    let deny = button(Choice::Deny, "Deny", ButtonStyle::Danger);
    let buttons = if missing > 0 {
        vec![deny]
    } else {
        vec![button(Choice::Approve, "Approve once", ButtonStyle::Success), deny]
    };
    Card { text: lines.join("\n"), rows: vec![CreateActionRow::Buttons(buttons)] }
}

/// A question, with its options. A secret is not asked for in a chat.
pub(super) fn question(question: &Question, text: String) -> Card {
    let options = &question.options;
    if question.kind == AnswerKind::Secret || options.is_empty() {
        return Card { text, rows: Vec::new() };
    }
    let labels = options.iter().map(|option| excerpt::line(option.trim(), LONGEST_LABEL));
    let rows = if question.multi {
        let options = labels
            .enumerate()
            .map(|(place, label)| CreateSelectMenuOption::new(label, place.to_string()));
        let kind = CreateSelectMenuKind::String { options: options.collect() };
        let most = u8::try_from(question.options.len()).unwrap_or(u8::MAX);
        let menu = CreateSelectMenu::new(format!("{ANSWER}:{}", question.id), kind);
        vec![CreateActionRow::SelectMenu(menu.min_values(1).max_values(most))]
    } else {
        let buttons: Vec<_> = labels
            .enumerate()
            .map(|(place, label)| {
                let id = format!("{ANSWER}:{}:{place}", question.id);
                CreateButton::new(id).label(label).style(ButtonStyle::Secondary)
            })
            .collect();
        let rows = buttons.chunks(ROW).map(|row| CreateActionRow::Buttons(row.to_vec()));
        rows.collect()
    };
    Card { text, rows }
}

const ANSWER: &str = "answer";

/// What was pressed, as far as the press itself tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Decision(Button),
    /// Options of a question, by their places.
    Options {
        question: String,
        places: Vec<usize>,
    },
}

impl Pressed {
    /// None if it is no button of ours.
    pub(super) fn read(data: &ComponentInteractionData) -> Option<Self> {
        let values: &[String] = match &data.kind {
            ComponentInteractionDataKind::Button => &[],
            ComponentInteractionDataKind::StringSelect { values } => values,
            _ => return None,
        };
        Self::parse(&data.custom_id, values)
    }

    fn parse(id: &str, values: &[String]) -> Option<Self> {
        let mut parts = id.split(':');
        let (word, of, last) = (parts.next()?, parts.next()?, parts.next());
        if parts.next().is_some() {
            return None;
        }
        if let Ok(choice) = word.parse::<Choice>() {
            return Some(Self::Decision(Button::Decide {
                approval: of.into(),
                digest: last?.to_owned(),
                choice,
            }));
        }
        let places = match last {
            Some(place) => vec![place.parse().ok()?],
            None => values.iter().map(|value| value.parse().ok()).collect::<Option<_>>()?,
        };
        (word == ANSWER).then(|| Self::Options { question: of.to_owned(), places })
    }
}

/// Options of a question by their places; none if there is no such place.
pub(super) fn chosen(question: &Question, places: &[usize]) -> Option<Vec<String>> {
    places.iter().map(|place| question.options.get(*place).cloned()).collect()
}

/// JSON that is the same value however Discord shows it: nothing in it ends the fence around it, and nothing is
/// invisible or turns the direction of what follows.
fn exact(arguments: &Value) -> String {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '`' || is_unseen(letter) {
            let mut units = [0; 2];
            safe.extend(
                letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")),
            );
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// A text in which what cannot be seen is written out.
fn shown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '`' {
            // Not to be told from a backtick, but it ends no fence.
            safe.push('ˋ');
        } else if is_unseen(letter) {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Takes no place, or turns the direction of what follows.
fn is_unseen(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(
            letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A text without formatting, in one line.
fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_whitespace() => safe.push(' '),
            letter if is_unseen(letter) => {}
            letter if letter.is_ascii_punctuation() && !",.;:()'\"!?/=".contains(letter) => {
                safe.extend(['\\', letter]);
            }
            letter => safe.push(letter),
        }
    }
    safe
}

/// A name between backticks.
fn code(name: &str) -> String {
    name.chars().filter(|letter| *letter != '`' && !is_unseen(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// PL-101
    #[test]
    fn the_call_that_is_shown_is_the_call_whatever_is_in_it() {
        let calls = [
            json!({"command": "echo ```\n**bold** ||hidden|| ```sh"}),
            json!({"command": "rm \u{202e}txt.elif\u{202c}"}),
            json!({"command": "a\u{200b}b\u{0}c", "more": ["`", {"deep": "👍🏽"}]}),
        ];
        for call in calls {
            let shown = exact(&call);

            assert!(!shown.contains('`'), "{shown}");
            assert!(!shown.chars().any(is_unseen), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), call);
        }
    }

    #[test]
    fn formatting_in_words_of_others_is_shown_and_not_obeyed() {
        assert_eq!(plain("a *b*\n[c](d) @everyone"), "a \\*b\\* \\[c\\](d) \\@everyone");
        assert_eq!(shown("+ ```\u{202e}"), "+ ˋˋˋ\\u{202e}");
        assert_eq!(code("ba`sh"), "bash");
    }

    /// PL-101
    #[test]
    fn a_press_is_read_back_and_what_is_not_ours_is_nothing() {
        let decision = Pressed::parse("approve:apr-1:abc", &[]);
        let button = Button::Decide {
            approval: "apr-1".into(),
            digest: "abc".to_owned(),
            choice: Choice::Approve,
        };
        assert_eq!(decision, Some(Pressed::Decision(button)));
        let options = |places| Some(Pressed::Options { question: "qst-1".to_owned(), places });
        assert_eq!(Pressed::parse("answer:qst-1:2", &[]), options(vec![2]));
        let values = ["0".to_owned(), "3".to_owned()];
        assert_eq!(Pressed::parse("answer:qst-1", &values), options(vec![0, 3]));
        for id in ["", "approve", "approve:apr-1", "deny:a:b:c", "answer:q:x", "other:a:b"] {
            assert_eq!(Pressed::parse(id, &[]), None, "{id}");
        }
    }
}
