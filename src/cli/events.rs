//! `hivewright events`, and the stream behind it: what happens in the service, as it happens. It comes back by itself
//! after a break.

use std::{collections::VecDeque, pin::Pin};

use actix_web::web::Bytes;
use clap::Args;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Context,
    failure::{Exit, Failure},
    link::{Patience, SILENCE, patiently},
    screen::printable,
    service::Service,
    table::{beginning, one_line, to_the_second},
};
use crate::{
    api::{
        endpoint::pairs,
        events::{EventFilter, WATCH_EVENTS},
    },
    providers::sse::Parser,
};

/// So many characters of an event are shown on its line.
const SHOWN: usize = 120;

/// Show what happens in the service, as it happens, until Ctrl-C
///
/// Under `--json` each event is a line with `event`, its type, and `data`; `begin` says that what there is has
/// to be read anew, at first and after something was missed.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright events\n  \
    hivewright events --team research --types task.changed,turn\n  \
    hivewright events --json | jq .data")]
pub(super) struct Arguments {
    #[command(flatten)]
    filter: EventFilter,
    /// As of `logs`: they are followed in any case
    #[arg(long, hide = true)]
    follow: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    until_stopped(show(arguments.filter, context)).await
}

async fn show(filter: EventFilter, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let team = filter.team.clone();
    let mut follower = Follower::open(context, filter).await?;
    if let Some(team) = team {
        follower.service().refuse_unknown(&team).await?;
    }
    loop {
        let line = match (follower.next().await?, screen.json) {
            (Step::Begin, true) => json!({"event": "begin"}).to_string(),
            (Step::Begin, false) => {
                screen.remark("· following; what was before is not shown");
                continue;
            }
            (Step::Event { kind, data }, true) => json!({"event": kind, "data": data}).to_string(),
            (Step::Event { kind, data }, false) => line(&kind, data),
        };
        if !screen.follow(&line) {
            return Ok(());
        }
    }
}

/// An event on one line: when, what, of which team, and the beginning of the rest.
fn line(kind: &str, mut data: Value) -> String {
    let mut taken = |name: &str| {
        let found = data.as_object_mut().and_then(|fields| fields.remove(name));
        found.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let (at, team) = (taken("at"), taken("team"));
    for number in ["seq", "team_seq"] {
        taken(number);
    }
    let rest = beginning(&data.to_string(), SHOWN);
    let line = format!("{}  {kind:<16}  {team:<12}  {rest}", to_the_second(&at));
    one_line(printable(&line))
}

/// The next thing that a follower learns.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It begins, or something was missed: what there is has to be read anew.
    Begin,
    /// Something of a kind happened, and this is told of it. It may be part already of what was read.
    Event { kind: String, data: Value },
}

type Chunks = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// An open stream of events.
///
/// It is open before the first step is told, so that nothing falls between what is read then and
/// the events after it.
pub(super) struct Follower {
    context: Context,
    filter: EventFilter,
    service: Service,
    chunks: Chunks,
    taken: Taken,
}

impl Follower {
    pub(super) async fn open(context: &Context, filter: EventFilter) -> Result<Self, Failure> {
        let (service, chunks) = connect(context, &filter, None).await?;
        Ok(Self { context: context.clone(), filter, service, chunks, taken: Taken::new() })
    }

    /// The service that is followed, where it is now.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// The next step. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Step, Failure> {
        loop {
            if let Some(step) = self.taken.steps.pop_front() {
                return Ok(step);
            }
            match timeout(SILENCE, self.chunks.next()).await {
                Ok(Some(Ok(bytes))) => self.taken.push(&bytes),
                _ => self.come_back().await?,
            }
        }
    }

    /// Reads something, also if the service goes away and comes back meanwhile.
    pub(super) async fn read<T>(
        &mut self,
        read: impl AsyncFn(&Service) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut patience = Patience::new();
        loop {
            match read(&self.service).await {
                Err(failure) if failure.exit == Exit::NotReachable => {
                    patience.bear(failure).await?;
                    self.come_back().await?;
                }
                Err(failure) if failure.exit == Exit::TimedOut => patience.bear(failure).await?,
                answer => return answer,
            }
        }
    }

    /// Connects again, and goes on where it was.
    async fn come_back(&mut self) -> Result<(), Failure> {
        let screen = self.context.screen;
        screen.remark("· connection lost; trying again");
        self.taken.broken();
        let last = self.taken.last.as_deref();
        // The service is looked for each time: it may have come back elsewhere.
        let again = async || connect(&self.context, &self.filter, last).await;
        (self.service, self.chunks) = patiently(again).await?;
        screen.remark("· connected again");
        Ok(())
    }
}

async fn connect(
    context: &Context,
    filter: &EventFilter,
    last: Option<&str>,
) -> Result<(Service, Chunks), Failure> {
    let service = Service::find(context)?;
    let answer: Response = service.stream(WATCH_EVENTS.path, pairs(filter), last).await?;
    Ok((service, Box::pin(answer.bytes_stream())))
}

/// What was heard and not yet told, and where to go on.
#[derive(Debug)]
struct Taken {
    parser: Parser,
    steps: VecDeque<Step>,
    last: Option<String>,
}

impl Taken {
    fn new() -> Self {
        Self { parser: Parser::default(), steps: VecDeque::from([Step::Begin]), last: None }
    }

    fn push(&mut self, bytes: &[u8]) {
        for event in self.parser.push(bytes) {
            if !event.id.is_empty() {
                self.last = Some(event.id);
            }
            let step = match event.name.as_str() {
                "gap" => Step::Begin,
                // What a newer service says beyond our words is not for us.
                _ => match serde_json::from_str(&event.data) {
                    Ok(data) => Step::Event { kind: event.name, data },
                    Err(_) => continue,
                },
            };
            self.steps.push_back(step);
        }
    }

    /// The connection broke: half an event is none, and without a place to go on from there is no
    /// telling what was missed.
    fn broken(&mut self) {
        self.parser = Parser::default();
        if self.last.is_none() {
            self.steps = VecDeque::from([Step::Begin]);
        }
    }
}

/// Follows until it ends by itself, or the person breaks it off.
pub(super) async fn until_stopped(
    following: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        ended = following => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: u64) -> Step {
        Step::Event { kind: "log".to_owned(), data: json!({ "seq": seq }) }
    }

    fn wire(seq: u64) -> String {
        format!("id: 3-{seq}\nevent: log\ndata: {{\"seq\":{seq}}}\n\n")
    }

    #[test]
    fn an_event_is_a_line() {
        let data = json!({"seq": 7, "team_seq": 1, "at": "2026-11-14T23:46:40.000Z", "team": "ops", "state": "done"});

        assert_eq!(
            line("task.changed", data),
            "2026-11-14 23:46:40  task.changed      ops           {\"state\":\"done\"}"
        );
    }

    /// OP-41, OP-42
    #[test]
    fn what_was_missed_is_read_anew() {
        let mut taken = Taken::new();

        taken.push(wire(1).as_bytes());
        taken.push(
            b"id: 3-9\nevent: gap\ndata: {\"from\":2,\"to\":9,\"reason\":\"slow\"}\n\n: \n\n",
        );
        taken.push(wire(10).as_bytes());

        let expected = [Step::Begin, event(1), Step::Begin, event(10)];
        assert_eq!(taken.steps, expected);
        assert_eq!(taken.last.as_deref(), Some("3-10"));
    }

    /// OP-42
    #[test]
    fn after_a_break_it_goes_on_behind_the_last_whole_event() {
        let (mut begun, mut nothing) = (Taken::new(), Taken::new());
        begun.push(wire(1).as_bytes());
        let second = wire(2);
        begun.push(&second.as_bytes()[..15]);

        begun.broken();
        begun.push(second.as_bytes());
        nothing.steps.clear();
        nothing.broken();

        assert_eq!(begun.steps, [Step::Begin, event(1), event(2)]);
        assert_eq!(nothing.steps, [Step::Begin]);
    }
}
