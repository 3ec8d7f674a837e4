//! Delegated work: what a message led to beyond its answer, until all of it has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hivewright_actors::{
    frame::{Body, Notification, NotificationKind},
    live::event::Kind as EventKind,
    task::Kind,
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{
    channel_state::Incoming,
    client::Service,
    connection::{Connection, Event, with_retries},
    context::Context,
    events::{Follower, Step},
    failure::{Exit, Failure},
    screen::complain,
    table::{beginning, exact},
};
use crate::api::{
    approvals::SHOW_APPROVAL,
    endpoint::{ById, Endpoint},
    events::EventFilter,
    questions::SHOW_QUESTION,
    reply::Readable,
    tasks::{LIST_TASKS, OneTask, SHOW_TASK, TaskFilter, TaskRow},
    when::{Moment, Period, When},
};

/// The word of an end comes over the connection; after this long it is fetched instead.
const OVERDUE: Duration = Duration::from_secs(5);

/// So many characters of a task are shown while it goes on.
const SHOWN: usize = 60;

/// Work has an end that the person is told of. A team says by itself that it is ready.
fn is_told_of(row: &TaskRow) -> bool {
    let outcome = row.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.notified || row.kind == Kind::Bootstrap)
}

/// What came of one message, beside its answer.
#[derive(Debug)]
pub(super) struct Delegated<'a> {
    context: &'a Context,
    /// The tasks that the message became.
    roots: Vec<String>,
    /// Work whose end was told.
    told: BTreeSet<String>,
    /// Work that goes on, and the state of it that was shown.
    going_on: BTreeMap<String, String>,
    failure: Option<Failure>,
}

impl<'a> Delegated<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        let (roots, told, going_on) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { context, roots, told, going_on, failure: None }
    }

    /// The message became a task: what comes of that is waited for.
    pub(super) fn below(&mut self, task: impl ToString) {
        let task = task.to_string();
        if !self.roots.contains(&task) {
            self.roots.push(task);
        }
    }

    /// Shows what a frame tells beside the answer: the end of work, or what waits for a person.
    pub(super) async fn hear(&mut self, frame: &Incoming) {
        let Body::Notification(notification) = &frame.body else {
            return;
        };
        if let NotificationKind::Approval | NotificationKind::Question = notification.kind {
            return wait_for_person(notification, self.context).await;
        }
        let task = notification.task_id.as_ref().map(ToString::to_string);
        if task.as_ref().is_some_and(|task| !self.told.insert(task.clone())) {
            return;
        }
        if let (Some(task), true) = (&task, self.context.screen.json) {
            match self.fetch(task).await {
                Ok(()) => return,
                Err(failure) => complain(&format!("· {task} cannot be shown: {failure}")),
            }
        }
        let ended_well =
            !matches!(notification.status.as_str(), "failed" | "expired" | "dead" | "cancelled");
        self.show(&notification.content, ended_well);
    }

    fn show(&mut self, words: &str, ended_well: bool) {
        let screen = self.context.screen;
        if !ended_well {
            self.failure = Some(Failure::failed(words));
        } else if !screen.json {
            screen.say(&screen.harmless(words));
        }
    }

    /// Waits until all that came of the message has ended and was shown.
    pub(super) async fn finish(mut self, connection: &mut Connection) -> Result<(), Failure> {
        let mut follower: Option<Follower> = None;
        let mut overdue: Option<Instant> = None;
        loop {
            let rows = match self.look(&mut follower).await {
                Ok(rows) => rows,
                Err(failure) => {
                    let words = format!("what else comes of it is not waited for: {failure}");
                    // Whoever may not look has the answer all the same.
                    match failure.exit {
                        Exit::NotAllowed => self.context.screen.remark(&format!("· {words}")),
                        exit => self.failure = Some(Failure::new(exit, words)),
                    }
                    break;
                }
            };
            self.remark(&rows);
            let is_untold =
                |row: &&TaskRow| is_told_of(row) && !self.told.contains(row.id.as_str());
            let untold: Vec<String> =
                rows.iter().filter(is_untold).map(|row| row.id.to_string()).collect();
            if rows.iter().all(|row| row.outcome.is_some()) {
                if untold.is_empty() {
                    break;
                }
                let end = *overdue.get_or_insert_with(|| Instant::now() + OVERDUE);
                if Instant::now() >= end {
                    for task in untold {
                        self.fetch(&task).await?;
                    }
                    break;
                }
            }
            let filter = || EventFilter::of([EventKind::TaskChanged]);
            let open = async || Follower::open(self.context, filter()).await;
            let follower = match &mut follower {
                Some(follower) => follower,
                none => none.insert(with_retries(open).await?),
            };
            self.wait(follower, connection, overdue).await?;
        }
        self.failure.map_or(Ok(()), Err)
    }

    /// Says what goes on, whenever that is news.
    fn remark(&mut self, rows: &[TaskRow]) {
        for row in rows.iter().filter(|row| row.outcome.is_none()) {
            let state = row.standing();
            if self.going_on.insert(row.id.to_string(), state.clone()).as_ref() != Some(&state) {
                let words = beginning(&row.body, SHOWN);
                let line = format!("· {} of `{}` is {state}: {words}", row.id, row.team);
                self.context.screen.remark(&line);
            }
        }
    }

    /// Until there is something to look at.
    async fn wait(
        &mut self,
        follower: &mut Follower,
        connection: &mut Connection,
        overdue: Option<Instant>,
    ) -> Result<(), Failure> {
        loop {
            tokio::select! {
                step = follower.next() => match step? {
                    Step::Begin => return Ok(()),
                    Step::Event { data, .. } if self.is_ours(&data) => return Ok(()),
                    Step::Event { .. } => {}
                },
                event = connection.next() => if let Event::Frame(frame, _) = event? {
                    self.hear(&frame).await;
                    if matches!(frame.body, Body::Notification(_)) {
                        return Ok(());
                    }
                },
                () = sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => return Ok(()),
            }
        }
    }

    fn is_ours(&self, event: &Value) -> bool {
        let root = event["root"].as_str().unwrap_or_default();
        self.roots.iter().any(|task| task == root)
    }

    /// All that came of the message.
    async fn look(&self, follower: &mut Option<Follower>) -> Result<Vec<TaskRow>, Failure> {
        let mut found = Vec::new();
        for root in &self.roots {
            let rows = match follower {
                Some(follower) => follower.read(async |service| below(root, service).await).await?,
                // The service may be away at first.
                None => {
                    with_retries(async || below(root, &Service::find(self.context)?).await).await?
                }
            };
            found.extend(rows);
        }
        Ok(found)
    }

    /// Shows the end of work whose word did not come.
    async fn fetch(&mut self, task: &str) -> Result<(), Failure> {
        let service = Service::find(self.context)?;
        let answer = service.at(&SHOW_TASK, &ById { id: task.to_owned() }).await?;
        if self.context.screen.json {
            self.context.screen.document(&answer.document)?;
        }
        let OneTask { row, .. } = answer.data()?;
        let Some(outcome) = row.outcome else {
            return Ok(());
        };
        let words = match &outcome.error {
            Some(fault) => fault.message.as_deref().unwrap_or(fault.code.as_str()),
            None => &outcome.result,
        };
        self.show(&format!("[{}] {words}", row.team), outcome.error.is_none());
        Ok(())
    }
}

/// The work below a task. What is not on the first page is not waited for.
async fn below(root: &str, service: &Service) -> Result<Vec<TaskRow>, Failure> {
    let first = service.at(&SHOW_TASK, &ById { id: root.to_owned() }).await?.data()?;
    let since = first.row.created_at.map(|Moment(at)| When::At(at));
    let filter = TaskFilter {
        root: Some(root.to_owned()),
        // So that the service does not look through all that it ever did.
        period: Period { since, until: None },
        ..TaskFilter::default()
    };
    let mut rows = service.rows(&LIST_TASKS, &filter).await?.data()?;
    rows.retain(|row| row.id.as_str() != root);
    Ok(rows)
}

/// Says what waits for a person, how they decide on it, and until when; or what became of it.
async fn wait_for_person(notification: &Notification, context: &Context) {
    let is_open = matches!(notification.status.as_str(), "pending" | "open");
    let (Some(id), true) = (&notification.ref_id, is_open) else {
        return context.screen.remark(&format!("· {}", notification.content));
    };
    let (team, path) = (&notification.team, ById { id: id.clone() });
    let unknown = (notification.content.clone(), id.clone(), None);
    let (what, expires_at, how) = if notification.kind == NotificationKind::Approval {
        let row = found(context, &SHOW_APPROVAL, &path).await;
        let (what, name, expires_at) = row.map_or(unknown, |row| {
            let tool = row.tool.as_deref().unwrap_or("something");
            (format!("[{team}] wants to use {tool}. {}", row.summary), row.short_id, row.expires_at)
        });
        let approve = context.command(&format!("approvals approve {name}"));
        let deny = context.command(&format!("approvals deny {name} WHY"));
        (what, expires_at, format!("decide with {approve} or {deny}"))
    } else {
        let row = found(context, &SHOW_QUESTION, &path).await;
        let (what, name, expires_at) = row.map_or(unknown, |row| {
            (format!("[{team}] asks: {}", row.question), row.id, row.expires_at)
        });
        let answer = context.command(&format!("questions answer {name}"));
        (what, expires_at, format!("answer with {answer}"))
    };
    let until = expires_at.map_or(String::new(), |at| format!("; it waits until {}", exact(at)));
    // Wanted or not: without a decision nothing goes on.
    complain(&format!("· {what}\n· {how}{until}"));
}

/// What waits, if the service shows it.
pub(super) async fn found<R: Readable>(
    context: &Context,
    endpoint: &Endpoint<R, ById>,
    path: &ById,
) -> Option<R::Content> {
    Service::find(context).ok()?.at(endpoint, path).await.ok()?.data().ok()
}

/// What to say when somebody stops waiting for a task.
pub(super) fn goes_on(task: Option<&str>, context: &Context) -> String {
    let look = match task {
        Some(task) => {
            let show = context.command(&format!("tasks show {task}"));
            let list = context.command(&format!("tasks list --root {task}"));
            format!("{show} and {list} tell what becomes of it")
        }
        None => format!("{} lists it", context.command("tasks list")),
    };
    format!("what was accepted goes on: {look}")
}

/// The exit code of an interrupt, with where to look.
pub(super) fn interrupted(task: Option<&str>, context: &Context) -> Failure {
    Failure::new(Exit::Interrupted, format!("stopped waiting; {}", goes_on(task, context)))
}
