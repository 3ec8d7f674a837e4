//! `hivewright send`: says one thing and prints the answer.

use std::{
    cell::RefCell,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use hivewright_actors::{
    frame::{ProgressKind, Response},
    ids::MAIN,
    task::outcome::Ending,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    api::{
        files::NewFile,
        messages::{MessageReply, MessageRow},
    },
    cli::{
        blocking::blocking,
        channel_state::{Incoming, Words, message_id},
        chat_output::ChatOutput,
        client::Service,
        connection::{Connection, Event, with_retries},
        context::Context,
        delegated::{Delegated, goes_on, interrupted},
        earlier::Which,
        failure::{Exit, Failure},
        message_tracker::Heard,
        team_message::TeamMessage,
        transcript::{Print, Sent},
    },
};

/// Say one thing to a team, and print the answer and the results of the work that it leads to
///
/// It stays until all of that has ended, or with `--no-follow` until the answer. Work that fails is exit
/// code 1. Under `--json` the message is the first line, and each piece of further work one more, in the forms of
/// `GET /api/v1/messages/{id}` and `GET /api/v1/tasks/{id}`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright send \"What is new?\"\n  \
    hivewright send \"What have you found?\" --team research\n  \
    hivewright send \"And before that?\" --continue\n  \
    hivewright send \"What is in it?\" --file report.pdf\n  \
    git log -5 | hivewright send - --wait 60")]
pub(super) struct Arguments {
    /// What to say; `-` reads it from standard input
    pub(super) text: String,
    /// The team to say it to [default: main]
    #[arg(long)]
    pub(super) team: Option<String>,
    #[command(flatten)]
    pub(super) which: Which,
    /// A file to send with it; may be given several times
    #[arg(long = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Give up waiting after so many seconds; the work goes on
    #[arg(long, value_name = "SECONDS")]
    pub(super) wait: Option<u64>,
    /// Do not wait for the work that the answer leads to
    #[arg(long)]
    pub(super) no_follow: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let Arguments { text, team, which, files, wait, no_follow } = arguments;
    let team = team.filter(|team| team != MAIN);
    if team.is_some() && which != Which::default() {
        let message = "only the main team has conversations to go on with; leave `--continue` and `--topic` out";
        return Err(Failure::usage(message));
    }
    let content = words(text).await?;
    // The task that the message became, for whoever stops waiting.
    let task = RefCell::new(None);
    let answering = async {
        let files = upload(&files, context).await?;
        let earlier = which.find(context).await?;
        let mut connection = Connection::open(context, earlier.as_ref()).await?;
        let sent = match team {
            Some(team) => say_to(&team, content, files, &connection, context).await?,
            None => {
                let topic = earlier.map(|earlier| earlier.topic.to_string());
                let words = Words { id: message_id()?, content, topic, files };
                let sent = Sent::new(&words, context.screen);
                connection.say(words);
                Some(sent)
            }
        };
        match sent {
            Some(sent) => answer(sent, &mut connection, !no_follow, &task, context).await,
            None => Ok(()),
        }
    };
    let limited = async {
        match wait {
            None => answering.await,
            Some(seconds) => timeout(Duration::from_secs(seconds), answering)
                .await
                .unwrap_or_else(|_| Err(too_late(seconds, task.borrow().as_deref(), context))),
        }
    };
    tokio::select! {
        ended = limited => ended,
        _ = tokio::signal::ctrl_c() => Err(interrupted(task.borrow().as_deref(), context)),
    }
}

/// Says something to another team than the main one; what comes of it is heard on the connection. None if it was answered
/// at once.
async fn say_to(
    team: &str,
    content: String,
    files: Vec<String>,
    connection: &Connection,
    context: &Context,
) -> Result<Option<Sent>, Failure> {
    let screen = context.screen;
    let message = TeamMessage::new(team, content, files)?;
    let said = with_retries(async || {
        message.say(connection.channel.as_ref(), &Service::find(context)?).await
    });
    let row = said.await?;
    if let Some(reply) = &row.reply {
        if screen.json {
            screen.document(&json!({"data": row}))?;
        } else {
            screen.say(&screen.harmless(&reply.text));
        }
        return Ok(None);
    }
    if let Some(id) = &row.task_id {
        screen.remark(&format!("· {id} of `{team}`"));
    }
    Ok(Some(Sent::to_team(team, row, screen)))
}

/// Gives files to the service, for a message to name.
async fn upload(files: &[PathBuf], context: &Context) -> Result<Vec<String>, Failure> {
    let mut ids = Vec::new();
    if files.is_empty() {
        return Ok(ids);
    }
    let service = Service::find(context)?;
    for path in files {
        let unreadable = Failure::unreadable(path);
        let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
        let found = file.metadata().await.map_err(unreadable)?;
        if !found.is_file() {
            return Err(Failure::usage(format!("`{}` is not a file", path.display())));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = service.upload(&NewFile { name: Some(name) }, file, found.len()).await?;
        ids.push(kept.data()?.id.to_string());
    }
    Ok(ids)
}

fn too_late(seconds: u64, task: Option<&str>, context: &Context) -> Failure {
    let message =
        format!("no answer within {seconds} s, or not all of it; {}", goes_on(task, context));
    Failure::new(Exit::TimedOut, message)
}

/// An argument that may stand on standard input.
pub(super) async fn text(argument: String) -> Result<String, Failure> {
    if argument == "-" { blocking(read_input).await } else { Ok(argument) }
}

/// What to say, which may stand on standard input.
pub(super) async fn words(argument: String) -> Result<String, Failure> {
    let words = text(argument).await?;
    if words.trim().is_empty() { Err(Failure::usage("there is nothing to say")) } else { Ok(words) }
}

/// All of standard input. Blocks.
fn read_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::system("standard input cannot be read", error))?;
    Ok(text)
}

async fn answer(
    mut sent: Sent,
    connection: &mut Connection,
    follows: bool,
    task: &RefCell<Option<String>>,
    context: &Context,
) -> Result<(), Failure> {
    let screen = context.screen;
    let mut paper = ChatOutput::new(screen, None);
    let mut delegated = Delegated::new(context);
    // Whatever comes of a message beside its answer comes of a tool.
    let mut used_tools = false;
    let mut is_named = false;
    let mut failure = None;
    let remember = |sent: &Sent| {
        if let Some(id) = sent.exchange.task() {
            *task.borrow_mut() = Some(id.to_string());
        }
    };
    remember(&sent);
    while !sent.exchange.is_over() {
        let frame = match connection.next().await? {
            Event::Frame(frame, _) => frame,
            Event::Renewed if sent.exchange.is_accepted() => return Err(forgotten()),
            Event::Lost => {
                screen.remark("· connection lost; trying again");
                continue;
            }
            Event::Back | Event::Renewed => {
                screen.remark("· connected again");
                continue;
            }
        };
        let Some((heard, prints)) = sent.hear(&frame) else {
            paper.end_line();
            delegated.hear(&frame).await;
            continue;
        };
        remember(&sent);
        if let (false, Some(id), Some(topic)) = (is_named, sent.exchange.task(), &frame.topic_id) {
            is_named = true;
            let name = frame.topic_name.as_deref().unwrap_or_default();
            screen.remark(&format!("· {id} in topic {topic} ({name})"));
        }
        match &heard {
            Heard::Progress(progress) => used_tools |= progress.kind == ProgressKind::ToolCall,
            Heard::Answer(response) => {
                used_tools |= response.joined_task_id.is_some();
                let task = response.joined_task_id.as_ref().or(response.task_id.as_ref());
                task.into_iter().for_each(|task| delegated.below(task));
                if response.status == Ending::Cancelled.as_str() {
                    failure = Some(Failure::failed("it was stopped before it had ended"));
                }
                if screen.json {
                    screen.document(&json!({"data": row(&frame, response)?}))?;
                }
            }
            Heard::Error(error) => error.task_id.iter().for_each(|task| delegated.below(task)),
            Heard::Accepted(_) | Heard::Forgotten(_) => {}
        }
        for print in prints {
            match print {
                Print::Error(line) => failure = Some(Failure::failed(line)),
                print => paper.print(print),
            }
        }
    }
    paper.end_line();
    let further = match (used_tools, follows) {
        (true, true) => delegated.finish(connection).await,
        _ => Ok(()),
    };
    failure.map_or(further, Err)
}

/// An answer in the form of the API.
fn row(frame: &Incoming, response: &Response) -> Result<MessageRow, Failure> {
    let status = response.status.parse::<Ending>();
    let status =
        status.map_err(|_| Failure::failed(format!("it ended as `{}`", response.status)))?;
    Ok(MessageRow {
        message_id: response.message_id.clone(),
        channel_id: Some(frame.channel_id.clone()),
        task_id: response.task_id.clone(),
        topic_id: frame.topic_id.clone(),
        state: status.into(),
        placement: None,
        wait_reason: None,
        reply: Some(MessageReply { text: response.content.clone(), status, code: None }),
    })
}

/// An accepted message whose channel is gone.
pub(super) fn forgotten() -> Failure {
    Failure::failed(
        "the service no longer knows this conversation; what was accepted goes on, its answer will be in the history",
    )
}
