//! A stage: one world with triggers, looked at through what is on its disk.

use std::time::Duration;

use crate::{
    clock::{Clock, Timestamp},
    doubles::{
        disk::{self, Crash},
        engine::{Play, last_words},
        world::World,
    },
    engine::StepRequest,
    ids::{TeamKey, TriggerId},
    notice::Notice,
    queue,
    scheduler::{
        Refusal,
        alarm::Drain,
        manage, records, requests,
        run::{Cause, Run},
        trigger::{
            Trigger, Which,
            config::{Config, Listen, Schedule},
            definition::Definition,
        },
        views,
    },
    spine::Spine,
    store::redact::Redaction,
    task::{self, Task, records as tasks},
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) spine: Spine,
}

/// The team that the triggers here belong to.
pub(crate) fn team() -> TeamKey {
    TeamKey::first("news")
}

/// A schedule in the calendar of the doubles.
pub(crate) fn cron(name: &str, pattern: &str) -> Definition {
    let config = Config::Schedule(Schedule::cron(pattern));
    Definition::new(name, config, &format!("do {name}"))
}

/// A trigger that listens for a word.
pub(crate) fn keyword(name: &str, word: &str) -> Definition {
    let config = Config::Keyword(Listen { pattern: word.to_owned(), ..Listen::default() });
    Definition::new(name, config, &format!("do {name}"))
}

/// What a step is about, if it is the first of a trigger's turn: the first line of its task.
pub(crate) fn first_line(request: &StepRequest) -> String {
    last_words(request).lines().next().unwrap_or_default().to_owned()
}

impl Stage {
    /// A stage whose model plays a script.
    pub(crate) fn new(script: impl Fn(&StepRequest) -> Vec<Play> + Send + Sync + 'static) -> Self {
        let world = World::new(script);
        let spine = world.start();
        Self { world, spine }
    }

    /// A stage whose model answers each task at once.
    pub(crate) fn calm() -> Self {
        Self::new(|_| vec![Play::Say("done"), Play::Answer])
    }

    /// The same with a store that takes secrets out of records.
    pub(crate) fn redacting(redaction: Redaction) -> Self {
        let mut world = World::new(|_| vec![Play::Say("done"), Play::Answer]);
        world.redaction = Some(redaction);
        let spine = world.start();
        Self { world, spine }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    /// Lets everything that is under way come to rest.
    pub(crate) async fn settle(&self) {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the wall shows a minute of the hour, a little past.
    pub(crate) async fn until_minute(&self, minute: u64) {
        let now = self.now().0;
        let hour = 3_600_000;
        let wanted = now / hour * hour + minute * 60_000 + 1_000;
        let wanted = if wanted > now { wanted } else { wanted + hour };
        self.pass(Duration::from_millis(wanted - now)).await;
    }

    pub(crate) async fn create(&self, definition: Definition) -> Trigger {
        self.try_create(definition).await.unwrap()
    }

    pub(crate) async fn try_create(&self, definition: Definition) -> Result<Trigger, Refusal> {
        let create =
            manage::Create { team: team(), definition, enable: true, by: "main".to_owned() };
        self.spine.scheduler.send(create).await.unwrap()
    }

    pub(crate) async fn trigger(&self, id: &TriggerId) -> Trigger {
        let which = Which::Id(id.clone());
        let found = self.spine.scheduler.send(views::Get { which }).await;
        found.unwrap().unwrap().trigger
    }

    pub(crate) async fn run_by_hand(&self, id: &TriggerId, key: &str) -> Result<Run, Refusal> {
        let fire = requests::Fire {
            which: Which::Id(id.clone()),
            cause: Cause::Manual,
            key: key.to_owned(),
            max_steps: None,
            overlap: queue::submit::Overlap::Allow,
            sample: None,
            principal: task::cause::Cause::System,
            source: None,
            turn: None,
        };
        match self.spine.scheduler.send(fire).await.unwrap()? {
            requests::ByHand::Fired(answer) => Ok(answer.run.clone()),
            requests::ByHand::NeedsConfirmation(task) => panic!("{task} is in the way"),
        }
    }

    /// The process ends in good order, and another begins after a time.
    pub(crate) async fn restart_after(&mut self, pause: Duration) {
        self.stop().await;
        tokio::time::sleep(pause).await;
        self.spine = self.world.start();
        self.settle().await;
    }

    pub(crate) async fn stop(&self) {
        self.spine.scheduler.send(Drain).await.unwrap();
        self.spine.queue.send(queue::Drain).await.unwrap();
        self.settle().await;
    }

    pub(crate) fn start_doomed(&mut self, crash: Crash) {
        self.spine = self.world.start_doomed(crash);
    }

    /// The runs of a trigger on the disk, oldest first.
    pub(crate) fn runs(&self, id: &TriggerId) -> Vec<Run> {
        let disk = self.world.disk.mount(None);
        let mut runs = records::runs(&*disk, &team(), id, None, 10_000).unwrap();
        runs.reverse();
        runs
    }

    /// What each run led to and how it ended.
    pub(crate) fn story(&self, id: &TriggerId) -> Vec<String> {
        let tell = |run: &Run| {
            let mut words = vec![run.cause.as_str(), run.decision.as_str()];
            words.extend(run.outcome.map(|outcome| outcome.as_str()));
            words.join(" ")
        };
        self.runs(id).iter().map(tell).collect()
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        disk::notices(&*self.world.disk.mount(None)).unwrap()
    }

    /// All tasks of runs of a trigger, on the disk.
    pub(crate) fn tasks(&self, id: &TriggerId) -> Vec<Task> {
        let disk = self.world.disk.mount(None);
        let ids = self.runs(id).into_iter().filter_map(|run| run.task_id);
        ids.map(|id| tasks::find(&*disk, &id).unwrap().unwrap()).collect()
    }

    /// How often the model was asked.
    pub(crate) fn asked(&self) -> usize {
        self.world.asked.lock().unwrap().len()
    }
}
