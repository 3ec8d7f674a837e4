//! `hivewright questions`: what teams want to know.

use clap::Subcommand;
use hivewright_actors::approvals::question::{AnswerKind, QuestionStatus};
use zeroize::Zeroizing;

use crate::{
    api::{endpoint::ById, questions::*},
    cli::{
        client::Service,
        context::Context,
        failure::{Exit, Failure},
        prompt,
        screen::printable,
        table::{self, columns, date},
        watch::Watched,
    },
};

/// See and answer what teams ask
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright questions list\n  \
    hivewright questions answer qst-61c8864680b583eb --text \"the blue one\"\n  \
    hivewright questions answer qst-61c8864680b583eb < key.txt")]
pub(super) enum Action {
    /// List what waits for an answer, oldest first
    #[command(after_help = "Example:\n  hivewright questions list --json")]
    List(Watched<QuestionFilter>),
    /// Show a question whole, with its options and its answer
    #[command(after_help = "Example:\n  hivewright questions show qst-61c8864680b583eb")]
    Show {
        /// The id of the question
        id: String,
    },
    /// Answer a question; a secret is asked for, or read from standard input
    #[command(after_help = "Examples:\n  \
        hivewright questions answer qst-61c8864680b583eb --select red --select blue\n  \
        hivewright questions answer qst-61c8864680b583eb --text \"neither\"\n  \
        hivewright questions answer qst-61c8864680b583eb < key.txt")]
    Answer {
        /// The id of the question
        id: String,
        /// One of its options; may be repeated
        #[arg(long = "select", value_name = "OPTION")]
        selected: Vec<String>,
        /// Words
        #[arg(long)]
        text: Option<String>,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(list) => list.show_all(&LIST_QUESTIONS, context).await,
        Action::Show { id } => {
            service.at(&SHOW_QUESTION, &ById { id }).await?.show(screen, |row| shown(&row))
        }
        Action::Answer { id, selected, text } => {
            let path = ById { id };
            let text = match (is_secret(&service, &path).await?, text) {
                (true, Some(_)) => {
                    let message = "it asks for a secret, which must not stand on the command line; \
                        leave `--text` out";
                    return Err(Failure::usage(message));
                }
                (true, None) => {
                    let secret = prompt::secret("Secret: ")?;
                    let text = std::str::from_utf8(&secret);
                    let text = text.map_err(|_| Failure::usage("the secret is no text"))?;
                    Zeroizing::new(text.to_owned())
                }
                (false, text) => Zeroizing::new(text.unwrap_or_default()),
            };
            let answer = QuestionAnswer { selected, text: text.to_string() };
            let answered = service.send(&ANSWER_QUESTION, &path, &answer).await?;
            answered.tell(screen, |_| format!("answered {}", path.id))
        }
    }
}

/// Whether an open question asks for a secret. Why one that is not there cannot be answered, its answer is told.
async fn is_secret(service: &Service, path: &ById) -> Result<bool, Failure> {
    let question = match service.at(&SHOW_QUESTION, path).await {
        Err(failure) if failure.exit == Exit::NotFound => return Ok(false),
        found => found?.data()?,
    };
    Ok(question.status == QuestionStatus::Open && question.kind == AnswerKind::Secret)
}

columns!(QuestionRow {
    "ID" => |row| row.id.clone(),
    "STATUS" => |row| row.status.to_string(),
    "TEAM" => |row| row.team.clone(),
    "KIND" => |row| row.kind.to_string(),
    "UNTIL" => |row| date(&row.expires_at),
    "QUESTION" => |row| match row.options.as_slice() {
        [] => row.question.clone(),
        options => format!("{} [{}]", row.question, options.join(" | ")),
    },
});

fn shown(row: &QuestionRow) -> String {
    let mut lines = vec![
        ("id", row.id.clone()),
        ("status", row.status.to_string()),
        ("team", row.team.clone()),
        ("task", row.task_id.clone()),
        ("kind", row.kind.to_string()),
        ("question", row.question.clone()),
    ];
    lines.extend(row.options.iter().map(|option| ("option", option.clone())));
    lines.push(("asked", date(&row.created_at)));
    lines.push(("until", date(&row.expires_at)));
    if let Some(answer) = &row.answer {
        let words = answer.selected.iter().chain([&answer.text]);
        let words: Vec<&str> = words.map(String::as_str).filter(|text| !text.is_empty()).collect();
        lines.push(("answer", words.join(", ")));
    }
    lines.extend(row.by.iter().map(|by| ("by", by.clone())));
    printable(&table::fields(10, lines))
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-84
    #[test]
    fn questions_are_listed_with_their_options() {
        let rows: Vec<QuestionRow> = serde_json::from_value(json!([{
            "id": "qst-1", "team": "main", "kind": "text", "question": "Which\ncolour?",
            "options": ["red", "blue"], "status": "open", "expires_at": null,
            "generation": 1, "lane": {"team": "main", "topic": null}, "task_id": "task-1",
            "multi": false, "key": null, "answer": null, "by": null, "created_at": null,
            "answered_at": null,
        }]))
        .unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID     STATUS  TEAM  KIND  UNTIL  QUESTION\n\
             qst-1  open    main  text         Which colour? [red | blue]\n"
        );
        let whole = shown(&rows[0]);
        assert!(
            whole.contains("question  Which\ncolour?\noption    red\noption    blue\n"),
            "{whole}"
        );
    }
}
