//! Event stream: what happens in the service, as it happens. It comes back by itself after a break.

use std::{collections::VecDeque, pin::Pin};

use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    client::Service,
    connection::{Retries, SILENCE, with_retries},
    context::Context,
    failure::{Exit, Failure},
};
use crate::{
    api::{
        endpoint::pairs,
        events::{EventFilter, WATCH_EVENTS},
    },
    providers::sse::Parser,
};

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
        let mut retries = Retries::new();
        loop {
            match read(&self.service).await {
                Err(failure) if failure.exit == Exit::NotReachable => {
                    retries.pause_after(failure).await?;
                    self.come_back().await?;
                }
                Err(failure) if failure.exit == Exit::TimedOut => {
                    retries.pause_after(failure).await?
                }
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
        (self.service, self.chunks) = with_retries(again).await?;
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

    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(event) = self.parser.next(&mut bytes) {
            if !event.id.is_empty() {
                self.last = Some(event.id.clone());
            }
            let step = match event.name.as_str() {
                "gap" => Step::Begin,
                // What a newer service says beyond our words is not for us.
                _ => match serde_json::from_str(&event.data) {
                    Ok(data) => Step::Event { kind: event.name.clone(), data },
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
