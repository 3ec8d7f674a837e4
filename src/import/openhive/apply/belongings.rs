//! A team's record, vault, memory, triggers and tasks.

use std::collections::BTreeMap;

use hivewright_actors::{
    clock::Timestamp,
    ids::{ChannelId, MAIN, TaskId, TeamKey, TopicId},
    org::record::{Phase, TeamRecord, TeamState},
    scheduler::trigger::{State as Firing, Trigger as StoredTrigger},
    store::{
        reads::{Range, scan},
        records::Writes,
    },
    task::{Code, Ending, Kind, Lane, Outcome, Source, Task, TopicRef, records::FinishedTask},
    usage::Usage,
};

use super::{
    super::{
        definition,
        memories::Memory,
        plan::{Marked, Plan, TeamPlan},
        tasks::{Job, State},
        triggers::Trigger,
        vault::Entry,
    },
    ApplyError, Work,
};
use crate::{
    memory::{
        entry::{Actor, Entry as StoredMemory, Key, Remark, Review},
        kind::Kind as MemoryKind,
        provenance::Provenance,
    },
    vault::{audit::Actor as Keeper, entry::Put, scope::Scope},
};

/// Who makes all this.
const IMPORT: &str = "import";

impl Work<'_> {
    /// The team's row; the main team has one from its first start on.
    pub(super) fn record(&mut self, team: &TeamPlan) -> Result<TeamKey, ApplyError> {
        let place = &team.place;
        let living = scan::<TeamRecord>(self.site.storage, Range::all())?.into_iter();
        let (mut key, mut newest) = (None, 0);
        for record in living.filter(|record| record.name.as_str() == place.name) {
            newest = newest.max(record.generation);
            if record.state != TeamState::Removed {
                key = Some(record.key());
            }
        }
        let Some(mark) = &team.record else {
            return Ok(key.unwrap_or_else(|| TeamKey::first(place.name.as_str())));
        };
        if place.is_root() {
            let writes = self.mark(Writes::new(), mark, MAIN);
            self.commit(writes, 1)?;
            return Ok(TeamKey::first(MAIN));
        }
        let waits = |job: &&Job| job.kind == Kind::Bootstrap && job.is_open();
        let mut jobs = team.tasks.iter().map(|job| &job.thing);
        let bootstrap = jobs.find(waits).map(|job| TaskId::from(job.id.as_str()));
        let record = TeamRecord {
            name: place.name.as_str().into(),
            generation: newest + 1,
            parent: place.parent.as_deref().map(Into::into),
            state: match place.degraded {
                Some(_) => TeamState::Degraded,
                None => TeamState::Paused,
            },
            phase: match (place.ready, &bootstrap) {
                (true, _) => Phase::Ready,
                (false, Some(_)) => Phase::Initializing,
                (false, None) => Phase::Failed,
            },
            bootstrap_task: bootstrap.filter(|_| !place.ready),
            scope: place.scope.clone(),
            created_at: place.created_at.unwrap_or(self.site.now),
            created_by: IMPORT.to_owned(),
            ..TeamRecord::main(self.site.now)
        };
        let writes = self.mark(Writes::new().put(&record), mark, &place.name);
        self.commit(writes, 1)?;
        Ok(record.key())
    }

    /// Secrets of the settings files.
    pub(super) fn system(&mut self, entries: &[Marked<Entry>]) -> Result<(), ApplyError> {
        self.entries(&Scope::System, entries)
    }

    pub(super) fn vault(
        &mut self,
        key: &TeamKey,
        entries: &[Marked<Entry>],
    ) -> Result<(), ApplyError> {
        self.entries(&Scope::Team(key.clone()), entries)
    }

    fn entries(&mut self, scope: &Scope, entries: &[Marked<Entry>]) -> Result<(), ApplyError> {
        if entries.is_empty() {
            return Ok(());
        }
        let puts = entries.iter().map(|Marked { thing, .. }| {
            let value = thing.value.expose();
            let mut put = if thing.secret { Put::secret(value) } else { Put::public(value) };
            put.note = Some("imported from OpenHive".to_owned());
            (thing.key.clone(), put)
        });
        let mut writes = self.site.vault.set_at_rest(scope, puts, &Keeper::System)?;
        for Marked { mark, thing } in entries {
            writes = self.mark(writes, mark, &thing.key);
        }
        self.commit(writes, entries.len())
    }

    pub(super) fn memories(
        &mut self,
        team: &TeamKey,
        memories: &[Marked<Memory>],
    ) -> Result<(), ApplyError> {
        let now = self.site.now;
        let ids: Vec<_> = memories.iter().map(|_| self.site.ids.memory()).collect();
        let by_number: BTreeMap<i64, _> = memories
            .iter()
            .zip(&ids)
            .map(|(memory, id)| (memory.thing.number, id.clone()))
            .collect();
        let mut versions: BTreeMap<&str, u32> = BTreeMap::new();
        let mut writes = Writes::new();
        for (Marked { mark, thing }, id) in memories.iter().zip(ids) {
            let Ok(key) = Key::parse(&thing.key) else {
                continue;
            };
            let version = versions.entry(&thing.key).or_default();
            *version += 1;
            let updated_at = thing.updated_at.unwrap_or(now);
            let ended = (!thing.active).then(|| Remark {
                at: updated_at,
                by: Actor::Import,
                note: Some("not active in OpenHive any more".to_owned()),
            });
            let entry = StoredMemory {
                id: id.clone(),
                team: team.clone(),
                key,
                version: *version,
                content: thing.content.clone(),
                kind: MemoryKind::named(thing.kind).unwrap_or(MemoryKind::Context),
                active: thing.active,
                supersedes_id: thing.supersedes.and_then(|number| by_number.get(&number).cloned()),
                supersede_reason: thing.reason.clone(),
                rollback_to: None,
                provenance: Provenance::by(&Actor::Import),
                sources: Vec::new(),
                review: if thing.pending { Review::Pending } else { Review::NotNeeded },
                reviewed: None,
                pinned: false,
                expires_at: None,
                ended,
                updated_by: Actor::Import,
                created_at: thing.created_at.unwrap_or(now),
                updated_at,
                call: None,
                deleted_by_call: None,
            };
            let with = writes.put(&entry);
            writes = self.mark(with, mark, id.as_str());
        }
        self.commit(writes, memories.len())
    }

    pub(super) fn triggers(
        &mut self,
        team: &TeamKey,
        triggers: &[Marked<Trigger>],
    ) -> Result<(), ApplyError> {
        let now = self.site.now;
        let ids = self.site.ids.clone();
        self.table(triggers, |writes, trigger| {
            let (definition, _) = definition::of(trigger);
            let mut stored =
                StoredTrigger::new(ids.trigger(), team.clone(), definition, IMPORT, now);
            match trigger.state.as_str() {
                "active" => stored.enable(now),
                "pending" => {}
                _ => stored.disable(
                    trigger
                        .disabled_reason
                        .clone()
                        .unwrap_or_else(|| "disabled in OpenHive".to_owned()),
                ),
            }
            if stored.state == Firing::Active {
                stored.consecutive_failures = trigger.consecutive_failures;
            }
            stored.created_at = trigger.created_at.unwrap_or(now);
            stored.updated_at = trigger.updated_at.unwrap_or(now);
            let id = stored.id.to_string();
            (writes.put(&stored), id)
        })
    }

    pub(super) fn tasks(
        &mut self,
        team: &TeamKey,
        jobs: &[Marked<Job>],
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        let now = self.site.now;
        let open = scan::<Task>(self.site.storage, Range::all())?;
        let mut arrival = open.iter().map(|task| task.arrival).max().unwrap_or(0);
        self.table(jobs, |writes, job| {
            let mut task = task(team, job, plan, now);
            let id = job.id.clone();
            match &job.state {
                State::Accepted { redelivered } => {
                    arrival += 1;
                    task.arrival = arrival;
                    task.redelivered = *redelivered;
                    task.attempts = u32::from(*redelivered);
                    (writes.put(&task), id)
                }
                State::Ended { ending, result, took_ms } => {
                    let began = task.created_at;
                    let finished_at = began + std::time::Duration::from_millis(*took_ms);
                    task.outcome = Some(outcome(*ending, result, finished_at));
                    (writes.put(&FinishedTask::of(&task)), id)
                }
            }
        })
    }
}

fn task(team: &TeamKey, job: &Job, plan: &Plan, now: Timestamp) -> Task {
    let thread = job.topic.as_deref().and_then(|id| {
        let mut threads = plan.topics.iter().map(|thread| &thread.thing);
        threads.find(|thread| thread.id == id)
    });
    let lane = Lane {
        team: team.name.clone(),
        topic: thread
            .filter(|_| team.name.as_str() == MAIN)
            .map(|thread| TopicId::from(thread.id.as_str())),
    };
    let mut task =
        Task::new(TaskId::from(job.id.as_str()), lane, job.body.clone(), IMPORT.to_owned(), now);
    task.generation = team.generation;
    task.kind = job.kind;
    task.priority = job.priority;
    task.options = job.options.clone();
    task.cause = Some(hivewright_actors::task::Cause::System);
    // Its day begins now: it could not be worked on before.
    task.created_at = job.created_at.unwrap_or(now);
    task.acked = true;
    task.source = job.channel.as_deref().map(|channel| Source {
        channel: ChannelId::from(channel),
        message: None,
        topic: thread
            .map(|thread| TopicRef { id: thread.id.as_str().into(), name: thread.name.clone() }),
        notify: None,
    });
    debug_assert_ne!(task.kind, Kind::Chat);
    task
}

fn outcome(ending: Ending, result: &str, finished_at: Timestamp) -> Outcome {
    let (code, message) = match ending {
        Ending::Failed => (Some(Code::Internal), Some("failed in OpenHive".to_owned())),
        Ending::Cancelled => (Some(Code::Cancelled), Some("cancelled in OpenHive".to_owned())),
        _ => (None, None),
    };
    Outcome {
        ending,
        code,
        message,
        text: result.to_owned(),
        truncated: false,
        usage: Usage::default(),
        report: None,
        finished_at,
    }
}
