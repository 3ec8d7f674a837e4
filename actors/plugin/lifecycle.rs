//! Life cycle of a plugin instance: when its child is started, replaced, tried again and let go. Pure.
//!
//! ```text
//! disabled ─▶ starting ─▶ running ─▶ disabled        idle: enabled, and nobody has needed it lately
//!                ▲  └──┬─────┘
//!                └ backoff ─▶ failed
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::{clock::restart_pause, sliding_window::SlidingWindow, words};

/// Ends of children are counted for so long.
const RESTART_WINDOW: Duration = Duration::from_secs(600);

words! {
    /// How an instance stands.
    #[schemars(rename = "PluginStatus")]
    pub enum Status {
        /// The team has not switched it on.
        Disabled = "disabled",
        /// It is switched on, and starts with the next turn or call that needs it.
        Idle = "idle",
        /// Its child is being started.
        Starting = "starting",
        /// Its child takes calls.
        Running = "running",
        /// Its child is ending.
        Stopping = "stopping",
        /// Its child ended by itself, and is started again after a pause.
        Backoff = "backoff",
        /// It is not tried again until it is switched on, changed or restarted.
        Failed = "failed",
        /// A wizard is setting it up.
        Setup = "setup",
        /// The plugin is not loaded.
        Unavailable = "unavailable",
    }
}

/// One life of a child.
pub type Run = u64;

/// What is fixed for an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// It has hooks or a channel: it lives across turns, instead of from its first use until it rests.
    pub resident: bool,
    /// The most restarts within ten minutes.
    pub restarts: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The team wants it, as it is described now: at first, after a change, or by an operator's order.
    Renew(Terms),
    /// The team does not want it any more.
    Disable,
    /// Somebody needs it.
    Use,
    /// A child takes calls.
    Started {
        run: Run,
        /// There can be only one at a time.
        exclusive: bool,
    },
    StartFailed {
        run: Run,
        /// Another try would fail for the same reason.
        for_good: bool,
    },
    /// A child ended by itself.
    Exited(Run),
    /// The pause before the next start is over.
    RetryDue,
    /// Nobody has used it for long.
    Unused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a child, once another has ended if one is named.
    Start {
        /// What it is called from now on.
        run: Run,
        /// Which must be over first.
        after: Option<Run>,
    },
    /// Let a child finish its calls, then end it. One that still starts ends at once.
    Stop(Run),
    /// Say [`Input::RetryDue`] after this.
    Retry(Duration),
    /// Those who wait may use this child.
    Grant(Run),
    /// Those who wait get nothing.
    Refuse,
    /// It was given up: an operator should know.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Disabled,
    Idle,
    Starting(Run),
    Running {
        run: Run,
        exclusive: bool,
        /// Takes its place once it runs.
        next: Option<Run>,
    },
    Backoff,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Lifecycle {
    terms: Terms,
    phase: Phase,
    /// The last child of which there could be only one: no other starts before nothing of it is left.
    last_exclusive: Option<Run>,
    runs: Run,
    ends: SlidingWindow<Instant>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            terms: Terms { resident: false, restarts: 0 },
            phase: Phase::Disabled,
            last_exclusive: None,
            runs: 0,
            ends: SlidingWindow::new(RESTART_WINDOW),
        }
    }
}

impl Lifecycle {
    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Disabled => Status::Disabled,
            Phase::Idle => Status::Idle,
            Phase::Starting(_) => Status::Starting,
            Phase::Running { .. } => Status::Running,
            Phase::Backoff => Status::Backoff,
            Phase::Failed => Status::Failed,
        }
    }

    /// The child that takes calls.
    pub fn running(&self) -> Option<Run> {
        match self.phase {
            Phase::Running { run, .. } => Some(run),
            _ => None,
        }
    }

    /// Whether nobody needs it once it is not used.
    pub fn rests(&self) -> bool {
        !self.terms.resident
    }

    /// Takes in what happened, and says what is to be done, in order.
    pub fn on(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        match (input, self.phase) {
            (Input::Renew(terms), phase) => {
                self.terms = terms;
                self.ends = SlidingWindow::new(RESTART_WINDOW);
                self.renew(phase)
            }
            (Input::Disable, phase) => {
                self.phase = Phase::Disabled;
                let mut effects: Vec<_> = children(phase).map(Effect::Stop).collect();
                effects.push(Effect::Refuse);
                effects
            }
            (Input::Use, Phase::Idle) => vec![self.start()],
            (Input::Use, Phase::Running { run, .. }) => vec![Effect::Grant(run)],
            (Input::Use, Phase::Starting(_)) => Vec::new(),
            (Input::Use, Phase::Disabled | Phase::Backoff | Phase::Failed) => vec![Effect::Refuse],
            (Input::Started { run, exclusive }, Phase::Starting(starting)) if run == starting => {
                self.started(run, exclusive);
                vec![Effect::Grant(run)]
            }
            (Input::Started { run, exclusive }, Phase::Running { run: old, next, .. })
                if next == Some(run) =>
            {
                self.started(run, exclusive);
                vec![Effect::Grant(run), Effect::Stop(old)]
            }
            (Input::StartFailed { run, for_good }, Phase::Starting(starting))
                if run == starting =>
            {
                if for_good {
                    self.phase = Phase::Failed;
                    vec![Effect::Refuse, Effect::GiveUp]
                } else {
                    self.ended(now)
                }
            }
            // What runs goes on as it is.
            (
                Input::StartFailed { run: failed, .. },
                Phase::Running { run, exclusive, next: Some(next) },
            ) if failed == next => {
                self.phase = Phase::Running { run, exclusive, next: None };
                Vec::new()
            }
            (Input::Exited(gone), Phase::Running { run, next, .. }) if gone == run => match next {
                Some(next) => {
                    self.phase = Phase::Starting(next);
                    Vec::new()
                }
                None => self.ended(now),
            },
            (Input::RetryDue, Phase::Backoff) => vec![self.start()],
            (Input::Unused, Phase::Running { run, next: None, .. }) if !self.terms.resident => {
                self.phase = Phase::Idle;
                vec![Effect::Stop(run)]
            }
            // Word of a child that is not counted on any more, or of a request that is served already.
            (
                Input::Started { .. }
                | Input::StartFailed { .. }
                | Input::Exited(_)
                | Input::RetryDue
                | Input::Unused,
                _,
            ) => Vec::new(),
        }
    }

    /// The newest description counts: what starts by an older one is ended, what runs by one is replaced.
    fn renew(&mut self, phase: Phase) -> Vec<Effect> {
        match phase {
            Phase::Running { run, exclusive: false, next } => {
                let mut effects: Vec<_> = next.map(Effect::Stop).into_iter().collect();
                let next = self.next_run();
                self.phase = Phase::Running { run, exclusive: false, next: Some(next) };
                effects.push(Effect::Start { run: next, after: self.last_exclusive });
                effects
            }
            Phase::Running { run, exclusive: true, .. } => {
                vec![Effect::Stop(run), self.start()]
            }
            Phase::Starting(run) => vec![Effect::Stop(run), self.start()],
            Phase::Disabled | Phase::Idle | Phase::Backoff | Phase::Failed => {
                if self.terms.resident {
                    vec![self.start()]
                } else {
                    self.phase = Phase::Idle;
                    Vec::new()
                }
            }
        }
    }

    fn start(&mut self) -> Effect {
        let run = self.next_run();
        self.phase = Phase::Starting(run);
        Effect::Start { run, after: self.last_exclusive }
    }

    fn started(&mut self, run: Run, exclusive: bool) {
        self.phase = Phase::Running { run, exclusive, next: None };
        self.last_exclusive = exclusive.then_some(run);
    }

    fn next_run(&mut self) -> Run {
        self.runs += 1;
        self.runs
    }

    /// A child ended that should not have.
    fn ended(&mut self, now: Instant) -> Vec<Effect> {
        self.ends.push(now);
        let ends = self.ends.count(now);
        if ends > self.terms.restarts {
            self.phase = Phase::Failed;
            return vec![Effect::Refuse, Effect::GiveUp];
        }
        self.phase = Phase::Backoff;
        let pause = restart_pause(ends);
        vec![Effect::Refuse, Effect::Retry(pause)]
    }
}

fn children(phase: Phase) -> impl Iterator<Item = Run> {
    let (one, other) = match phase {
        Phase::Starting(run) => (Some(run), None),
        Phase::Running { run, next, .. } => (Some(run), next),
        Phase::Disabled | Phase::Idle | Phase::Backoff | Phase::Failed => (None, None),
    };
    one.into_iter().chain(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RESIDENT: Terms = Terms { resident: true, restarts: 5 };
    const TOOLS_ONLY: Terms = Terms { resident: false, restarts: 5 };

    fn running(terms: Terms, exclusive: bool) -> (Lifecycle, Instant) {
        let (mut life, now) = (Lifecycle::default(), Instant::now());
        life.on(Input::Renew(terms), now);
        life.on(Input::Use, now);
        life.on(Input::Started { run: 1, exclusive }, now);
        assert_eq!(life.status(), Status::Running);
        (life, now)
    }

    /// PL-23
    #[test]
    fn one_with_hooks_starts_when_it_is_wanted_and_one_with_tools_alone_when_it_is_needed() {
        let now = Instant::now();
        let mut with_hooks = Lifecycle::default();
        let mut with_tools = Lifecycle::default();

        let wanted = with_hooks.on(Input::Renew(RESIDENT), now);
        let idle = with_tools.on(Input::Renew(TOOLS_ONLY), now);
        let needed = with_tools.on(Input::Use, now);

        assert_eq!(wanted, [Effect::Start { run: 1, after: None }]);
        assert_eq!(idle, []);
        assert_eq!(needed, [Effect::Start { run: 1, after: None }]);
    }

    /// PL-23
    #[test]
    fn one_with_tools_alone_rests_when_nobody_uses_it() {
        let (mut with_tools, now) = running(TOOLS_ONLY, false);
        let (mut with_hooks, _) = running(RESIDENT, false);

        assert_eq!(with_tools.on(Input::Unused, now), [Effect::Stop(1)]);
        assert_eq!(with_tools.status(), Status::Idle);
        assert_eq!(with_hooks.on(Input::Unused, now), []);
        assert_eq!(with_hooks.status(), Status::Running);
    }

    /// PL-29: 1, 2, 4, 8, 30 s, and no more than so often in ten minutes.
    #[test]
    fn a_child_that_keeps_ending_is_started_after_growing_pauses_and_then_given_up() {
        let (mut life, mut now) = running(RESIDENT, false);
        let mut pauses = Vec::new();

        for run in 1..=5 {
            let effects = life.on(Input::Exited(run), now);
            let [Effect::Refuse, Effect::Retry(pause)] = effects[..] else { panic!("{effects:?}") };
            assert_eq!(life.status(), Status::Backoff);
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!(
                life.on(Input::RetryDue, now),
                [Effect::Start { run: run + 1, after: None }]
            );
            life.on(Input::Started { run: run + 1, exclusive: false }, now);
        }

        assert_eq!(pauses, [1, 2, 4, 8, 30]);
        assert_eq!(life.on(Input::Exited(6), now), [Effect::Refuse, Effect::GiveUp]);
        assert_eq!(life.status(), Status::Failed);
        assert_eq!(life.on(Input::Use, now), [Effect::Refuse]);
        assert_eq!(life.on(Input::Renew(RESIDENT), now), [Effect::Start { run: 7, after: None }]);
    }

    #[test]
    fn ends_that_lie_far_apart_do_not_add_up() {
        let (mut life, mut now) = running(RESIDENT, false);

        for run in 1..=20 {
            now += RESTART_WINDOW;
            let effects = life.on(Input::Exited(run), now);
            assert_eq!(effects, [Effect::Refuse, Effect::Retry(restart_pause(1))]);
            life.on(Input::RetryDue, now);
            life.on(Input::Started { run: run + 1, exclusive: false }, now);
        }
    }

    /// PL-28, PL-99
    #[test]
    fn a_change_replaces_the_child_in_one_step_once_the_new_one_runs() {
        let (mut life, now) = running(RESIDENT, false);

        let changed = life.on(Input::Renew(RESIDENT), now);
        let meanwhile = life.on(Input::Use, now);
        let switched = life.on(Input::Started { run: 2, exclusive: false }, now);

        assert_eq!(changed, [Effect::Start { run: 2, after: None }]);
        assert_eq!(meanwhile, [Effect::Grant(1)]);
        assert_eq!(switched, [Effect::Grant(2), Effect::Stop(1)]);
        assert_eq!(life.on(Input::Exited(1), now), []);
        assert_eq!(life.running(), Some(2));
    }

    /// PL-99
    #[test]
    fn a_new_one_that_fails_leaves_the_old_one_running() {
        let (mut life, now) = running(RESIDENT, false);
        life.on(Input::Renew(RESIDENT), now);

        let failed = life.on(Input::StartFailed { run: 2, for_good: true }, now);

        assert_eq!(failed, []);
        assert_eq!(life.running(), Some(1));
    }

    /// PL-99
    #[test]
    fn of_an_exclusive_plugin_there_is_never_a_second_child() {
        let (mut life, now) = running(RESIDENT, true);

        let changed = life.on(Input::Renew(RESIDENT), now);

        assert_eq!(changed, [Effect::Stop(1), Effect::Start { run: 2, after: Some(1) }]);
        assert_eq!(life.status(), Status::Starting);
        let changed_again = life.on(Input::Renew(RESIDENT), now);
        assert_eq!(changed_again, [Effect::Stop(2), Effect::Start { run: 3, after: Some(1) }]);
    }

    /// PL-99: one that was switched off, or rests, may still be ending when it is wanted again.
    #[test]
    fn an_exclusive_child_that_is_ending_is_waited_for() {
        let (mut switched, now) = running(RESIDENT, true);
        let (mut rested, _) = running(TOOLS_ONLY, true);

        switched.on(Input::Disable, now);
        let wanted = switched.on(Input::Renew(RESIDENT), now);
        rested.on(Input::Unused, now);
        let needed = rested.on(Input::Use, now);

        let start = Effect::Start { run: 2, after: Some(1) };
        assert_eq!((wanted, needed), (vec![start.clone()], vec![start]));
    }

    /// PL-31
    #[test]
    fn switching_off_ends_every_child_and_whoever_waits() {
        let (mut life, now) = running(RESIDENT, false);
        life.on(Input::Renew(RESIDENT), now);

        let off = life.on(Input::Disable, now);

        assert_eq!(off, [Effect::Stop(1), Effect::Stop(2), Effect::Refuse]);
        assert_eq!(life.status(), Status::Disabled);
        assert_eq!(life.on(Input::Started { run: 2, exclusive: false }, now), []);
        assert_eq!(life.on(Input::Use, now), [Effect::Refuse]);
    }

    /// PL-24
    #[test]
    fn what_cannot_be_cured_by_trying_again_is_not_tried_again() {
        let (mut life, now) = (Lifecycle::default(), Instant::now());
        life.on(Input::Renew(RESIDENT), now);

        let failed = life.on(Input::StartFailed { run: 1, for_good: true }, now);

        assert_eq!(failed, [Effect::Refuse, Effect::GiveUp]);
        assert_eq!(life.on(Input::RetryDue, now), []);
    }

    fn any_input() -> impl Strategy<Value = Input> {
        let run = 1..8_u64;
        prop_oneof![
            (any::<bool>(), 0..6_usize)
                .prop_map(|(resident, restarts)| Input::Renew(Terms { resident, restarts })),
            Just(Input::Disable),
            Just(Input::Use),
            (run.clone(), any::<bool>())
                .prop_map(|(run, exclusive)| Input::Started { run, exclusive }),
            (run.clone(), any::<bool>())
                .prop_map(|(run, for_good)| Input::StartFailed { run, for_good }),
            run.prop_map(Input::Exited),
            Just(Input::RetryDue),
            Just(Input::Unused),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order: no run is begun twice, and at most two children that were not told
        /// to stop are there at once.
        #[test]
        fn children_are_bounded_whatever_happens(inputs in prop::collection::vec(any_input(), 1..60)) {
            let (mut life, now) = (Lifecycle::default(), Instant::now());
            let mut alive = std::collections::BTreeSet::new();
            let mut begun = 0;
            for input in inputs {
                if let Input::Exited(run) | Input::StartFailed { run, .. } = &input {
                    alive.remove(run);
                }
                for effect in life.on(input, now) {
                    match effect {
                        Effect::Start { run, .. } => {
                            prop_assert_eq!(run, begun + 1);
                            begun = run;
                            alive.insert(run);
                        }
                        Effect::Stop(run) => drop(alive.remove(&run)),
                        _ => {}
                    }
                }
                prop_assert!(alive.len() <= 2, "{:?}", life);
            }
        }
    }
}
