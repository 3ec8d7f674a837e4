//! Tools whose names say what they do.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix::Addr;
use futures_util::future::BoxFuture;

use serde_json::json;

use crate::{
    clock::Timestamp,
    excerpt::READER,
    ids::{CallId, Ids, TaskId},
    queue::{Queue, causes::Giver, completion::AwaitCompletion, submit::Submit},
    store::{StoreHandle, reads::get, records::Writes},
    task::{Kind, Label, Lane, OnResult, Source, Task},
    tool::{
        Args, Asking, BeforeCalls, CallContext, Caller, Checked, Direction, Effect, Interception,
        ToolCall, ToolFault, ToolReply, Toolset, Verdict, records::Answer, specs::ToolSpec,
        specs::ToolSpecs,
    },
};

/// A run of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) rerun: bool,
}

/// `give-x` gives work to team x, whose end is notified; `wake-x` wants to be woken by it; `ask-x`
/// waits for it. `held-look` and `held-pay` need a person, `locked-…` something that may lack.
/// `look` is pure, `save` idempotent, `pay` irreversible, `alone` exclusive; `slow…` takes a minute,
/// `save-much` answers with more than the store takes, `deaf` does not stop when told, `rumour` is not to be believed, `bomb` panics, `mine` panics already when it is
/// looked at, and `stuck` hangs then.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    pub(crate) runs: Arc<Mutex<Vec<Run>>>,
    pub(crate) ended: Arc<Mutex<Vec<String>>>,
    pub(crate) office: Arc<Mutex<Option<Office>>>,
    /// What `locked-…` needs is not there.
    pub(crate) locked: Arc<AtomicBool>,
    /// Calls whose results are durable.
    pub(crate) settled: Arc<Mutex<Vec<String>>>,
    /// The versions of the secrets that `held-…` uses.
    pub(crate) secrets: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Turns can read what was shown to them cut.
    pub(crate) reads: Arc<AtomicBool>,
    /// `stuck` blocks its thread until this is set.
    pub(crate) unstuck: Arc<AtomicBool>,
    /// Plugins want to hear all answers before people do.
    pub(crate) rewords: Arc<AtomicBool>,
}

/// Where work is given to teams.
#[derive(Clone)]
pub(crate) struct Office {
    pub(crate) queue: Addr<Queue>,
    pub(crate) ids: Ids,
    pub(crate) store: StoreHandle,
}

pub(crate) fn checked(name: &str) -> Result<Checked, ToolReply> {
    let held = name.strip_prefix("held-");
    let effect = match held.unwrap_or(name).trim_start_matches("slow-") {
        given if given.contains('-') => Effect::Idempotent,
        "look" | "alone" | "deaf" | "bomb" | "rumour" | "stuck" => Effect::Pure,
        "save" | "report_run" => Effect::Idempotent,
        "pay" => Effect::Irreversible,
        _ => return Err(ToolReply::failed(ToolFault::NotAvailable, "no such tool")),
    };
    let alone = name.ends_with("alone");
    let mut checked = Checked::allowed(effect, alone, Duration::from_secs(120));
    if held.is_some() {
        checked.verdict = Verdict::Ask(Asking {
            kind: "tool".to_owned(),
            summary: format!("use {name}"),
            ..Asking::default()
        });
    }
    Ok(checked)
}

impl Toolset for Tools {
    fn specs(&self) -> Arc<ToolSpecs> {
        let reader =
            ToolSpec { name: READER.to_owned(), description: String::new(), schema: json!({}) };
        let reads = self.reads.load(Ordering::Relaxed);
        Arc::new(reads.then_some(reader).into_iter().collect())
    }

    /// What plugins say to a call is said in its arguments.
    fn before(
        &self,
        calls: &[ToolCall],
        _: &BeforeCalls,
    ) -> Option<BoxFuture<'static, Vec<Interception>>> {
        let hook = |call: &ToolCall| match &call.args {
            Args::Json(args) => args["hook"].as_str().map(str::to_owned),
            Args::Unreadable { .. } => None,
        };
        let hooks: Vec<_> = calls.iter().map(hook).collect();
        hooks.iter().any(Option::is_some).then(|| {
            Box::pin(async move {
                let mut said = Vec::new();
                for hook in hooks {
                    said.push(match hook.as_deref() {
                        Some("hang") => std::future::pending().await,
                        Some("panic") => panic!("a hook that panics"),
                        Some("deny") => {
                            Interception::Refuse(ToolReply::failed(ToolFault::Denied, "blocked"))
                        }
                        Some("rewrite") => Interception::Rewrite(json!({ "rewritten": true })),
                        _ => Interception::Pass,
                    });
                }
                said
            }) as BoxFuture<'static, _>
        })
    }

    fn rewords_answers(&self) -> bool {
        self.rewords.load(Ordering::Relaxed)
    }

    /// Plugins reword what has a word in it that they don't like.
    fn reword(
        &self,
        direction: Direction,
        text: String,
        _: &Caller,
    ) -> Option<BoxFuture<'static, String>> {
        let nicer = match direction {
            Direction::Inbound => "kindly",
            Direction::Outbound => "gladly",
        };
        let is_meant = text.contains("rudely");
        is_meant.then(|| {
            Box::pin(async move { text.replace("rudely", nicer) }) as BoxFuture<'static, _>
        })
    }

    fn check(&self, call: &ToolCall, _: &Caller, _: Label) -> Result<Checked, ToolReply> {
        assert_ne!(call.name, "mine", "a check that panics");
        while call.name == "stuck" && !self.unstuck.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let name = call.name.replace("locked-", "");
        let lacks = name != call.name && self.locked.load(Ordering::Relaxed);
        let lacks = lacks.then(|| "the vault is locked".to_owned());
        let mut checked = checked(&name)?;
        checked.lacks = lacks;
        if let Verdict::Ask(asking) = &mut checked.verdict {
            asking.secrets = self.secrets.lock().unwrap().clone();
        }
        Ok(checked)
    }

    fn settled(&self, call: &CallId, _: &str, _: &Caller) {
        self.settled.lock().unwrap().push(call.to_string());
    }

    fn recheck(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
    ) -> Result<Checked, ToolReply> {
        self.check(call, caller, label)
    }

    fn run(&self, mut call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        call.name = call.name.replace("locked-", "");
        self.runs.lock().unwrap().push(Run {
            id: call.id.as_str().to_owned(),
            key: cx.key.clone(),
            rerun: cx.rerun,
        });
        let ended = self.ended.clone();
        let office = self.office.lock().unwrap().clone();
        Box::pin(async move {
            if let Some((kind, team)) = call.name.split_once('-')
                && matches!(kind, "give" | "wake" | "ask")
                && let Some(office) = office
            {
                return give(kind, team, office, cx).await;
            }
            let _ended = Ended(call.id.as_str().to_owned(), ended);
            assert_ne!(call.name, "bomb", "a tool that panics");
            if call.name == "deaf" {
                std::future::pending::<()>().await;
            }
            if call.name.trim_start_matches("held-").starts_with("slow-") {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => {}
                    () = cx.cancel.cancelled() => {
                        return ToolReply::failed(ToolFault::Cancelled, "put down half-way");
                    }
                }
            }
            ToolReply {
                content: match call.name.as_str() {
                    "save-much" => "x".repeat(20_000_000),
                    _ => format!("{} did", call.id),
                },
                taints: call.name == "rumour",
                ..ToolReply::default()
            }
        })
    }
}

/// Gives work to a team: its name is made from the call, so that a second try finds the first.
async fn give(
    kind: &str,
    team: &str,
    Office { queue, ids, store }: Office,
    cx: CallContext,
) -> ToolReply {
    let lane = Lane { team: team.into(), topic: None };
    let waits = kind == "ask";
    let task = Task {
        kind: if waits { Kind::Query } else { Kind::Delegate },
        source: cx.caller.source.clone().map(|source| Source { message: None, ..source }),
        reply_to: (!waits).then(|| cx.caller.lane.clone()),
        on_result: match kind {
            "wake" => OnResult::Wake,
            _ => OnResult::Notify,
        },
        lineage: Some(cx.caller.lineage.clone()),
        cause: Some(cx.caller.cause.clone()),
        ..Task::new(
            ids.task(),
            lane,
            format!("work for {team}"),
            cx.caller.team.name.to_string(),
            Timestamp(1_000_000_000),
        )
    };
    let mut id = task.id.clone();
    let key = cx.key.clone();
    let known = store.read(move |storage| get::<Answer<TaskId>>(storage, &key));
    if let (true, Some(Answer(known))) = (cx.rerun, known.await.unwrap()) {
        id = known;
    } else {
        let giver = Giver { task: cx.caller.task.clone(), step: cx.step, words: task.body.clone() };
        let submit = Submit {
            writes: Writes::new().put_at(&cx.key, &Answer(&task.id)),
            task,
            overlap: None,
            giver: Some(giver),
        };
        match queue.send(submit).await.unwrap() {
            Ok(_) => {}
            Err(refusal) => return ToolReply::failed(ToolFault::Refused, refusal.to_string()),
        }
    }
    let content = if !waits {
        format!("gave {team}")
    } else {
        let waiter = Some(cx.caller.lane.clone());
        let outcome = queue.send(AwaitCompletion { task: id, waiter }).await.unwrap();
        outcome.map_or_else(|| "gone".to_owned(), |outcome| outcome.text)
    };
    ToolReply { content, ..ToolReply::default() }
}

/// Notes that a run is over, also when it is dropped.
struct Ended(String, Arc<Mutex<Vec<String>>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.clone());
    }
}
