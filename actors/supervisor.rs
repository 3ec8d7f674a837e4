//! Supervisor: which teams live. Starts one when it gets work, and again after it died.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use actix::{
    Actor, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, Message, MessageResult,
    Recipient, SpawnHandle,
};
use dashmap::DashMap;
use tokio::time::Instant;

use crate::{
    clock::{millis, restart_pause},
    ids::TeamName,
    notice::Notice,
    org::Degrade,
    queue::{Dismiss, Leased, Orphaned, Queue, Return, Stop, Waiting},
    sliding_window::SlidingWindow,
    store::records::Writes,
    team::{Report, Reported, Signal, Team, context::Recipe},
};

/// A team that dies this often …
const MOST_DEATHS: usize = 5;
/// … within this time rests for as long.
const DEATH_WINDOW: Duration = Duration::from_secs(600);

/// The teams that live now. Look one up each time: a kept address may be of a dead one.
pub type Directory = Arc<DashMap<TeamName, Addr<Team>>>;

/// How often teams died since the start.
#[derive(Debug, Message)]
#[rtype(result = "Vec<(TeamName, u64)>")]
pub struct CountRestarts;

/// All teams are to reach their next commit point and give their tasks back.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// Starts teams on demand, puts idle ones away, and starts dead ones again with growing pauses.
pub struct Supervisor {
    queue: Addr<Queue>,
    recipe: Recipe,
    directory: Directory,
    arbiters: Vec<ArbiterHandle>,
    next_arbiter: usize,
    incarnations: u64,
    alive: HashMap<TeamName, Alive>,
    deaths: HashMap<TeamName, Deaths>,
    /// Arbiters on which a team did not answer. Others are preferred until it does.
    suspects: HashSet<usize>,
    watch: Option<SpawnHandle>,
    draining: bool,
    degraded: Recipient<Degrade>,
}

struct Alive {
    incarnation: u64,
    address: Addr<Team>,
    /// The arbiter it runs on.
    place: usize,
    /// It was asked whether it still hears, and has not answered.
    asked: bool,
    /// When it is asked next, or must have answered.
    due: Instant,
    /// How many leases it was sent.
    leases: u64,
}

struct Deaths {
    recent: SlidingWindow<Instant>,
    total: u64,
}

impl Supervisor {
    /// A supervisor that spreads teams over these arbiters; on none it uses its own.
    pub(crate) fn new(
        queue: Addr<Queue>,
        recipe: Recipe,
        directory: Directory,
        arbiters: Vec<ArbiterHandle>,
        degraded: Recipient<Degrade>,
    ) -> Self {
        Self {
            degraded,
            queue,
            recipe,
            directory,
            arbiters,
            next_arbiter: 0,
            incarnations: 0,
            alive: HashMap::new(),
            deaths: HashMap::new(),
            suspects: HashSet::new(),
            watch: None,
            draining: false,
        }
    }

    /// Passes a lease to its team, which is started if need be.
    ///
    /// A team that has died and not yet been reported still gets it: the report gives all its
    /// leases back.
    fn pass_on(&mut self, leased: Leased, ctx: &mut Context<Self>) {
        let name = leased.task.lane.team.clone();
        if !self.alive.contains_key(&name) {
            let alive = self.start_team(&name, ctx);
            self.directory.insert(name.clone(), alive.address.clone());
            self.alive.insert(name.clone(), alive);
            self.arm(ctx);
        }
        if let Some(alive) = self.alive.get_mut(&name) {
            alive.leases += 1;
            alive.address.do_send(leased);
        }
    }

    fn start_team(&mut self, name: &TeamName, ctx: &mut Context<Self>) -> Alive {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        let (team, recipe) = (name.clone(), self.recipe.clone());
        let (queue, supervisor) = (self.queue.clone(), ctx.address().recipient());
        let place = self.choose_place();
        let arbiter = self.arbiters.get(place).cloned().unwrap_or_else(Arbiter::current);
        tracing::debug!(team = %name, incarnation, "team started");
        Alive {
            incarnation,
            address: Team::start_in_arbiter(&arbiter, move |_| {
                Team::new(team, incarnation, recipe, queue, supervisor)
            }),
            place,
            asked: false,
            due: Instant::now() + self.recipe.answers_within,
            leases: 0,
        }
    }

    /// The next arbiter, of those on which teams answer if there is one.
    fn choose_place(&mut self) -> usize {
        let places = self.arbiters.len().max(1);
        let mut in_turn = (0..places).map(|step| (self.next_arbiter + step) % places);
        let place =
            in_turn.find(|place| !self.suspects.contains(place)).unwrap_or(self.next_arbiter);
        self.next_arbiter = (place + 1) % places;
        place
    }

    /// Sets the alarm for the team that is to be asked, or must have answered, next.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let next = self.alive.values().map(|alive| alive.due).min();
        if let (None, Some(next)) = (&self.watch, next) {
            let pause = next.saturating_duration_since(Instant::now());
            self.watch = Some(ctx.run_later(pause, |supervisor, ctx| {
                supervisor.watch = None;
                supervisor.look();
                supervisor.arm(ctx);
            }));
        }
    }

    /// Asks teams whether they still hear, and replaces those that have not answered.
    fn look(&mut self) {
        let now = Instant::now();
        let mut silent = Vec::new();
        for (team, alive) in &mut self.alive {
            if alive.due > now {
                continue;
            }
            if alive.asked {
                silent.push(team.clone());
                continue;
            }
            alive.asked = true;
            alive.due = now + self.recipe.answers_within;
            alive.address.do_send(Signal::Ping { place: alive.place });
        }
        for team in silent {
            self.replace(team);
        }
    }

    /// A team that does not answer is given up: its tasks go to another life of it.
    fn replace(&mut self, team: TeamName) {
        // It goes when it wakes up; what it does until then is void, since its leases are gone.
        let Some(place) = self.put_away(&team) else { return };
        self.suspects.insert(place);
        let seconds = self.recipe.answers_within.as_secs();
        let done = format!(
            "Team {team} did not answer for {seconds} s: it was replaced, and its tasks wait again."
        );
        let notice = Notice::stall(&self.recipe.ids, &team, None, done, self.recipe.clock.now());
        drop(self.recipe.store.commit(Writes::new().put(&notice)));
        let pause = self.pause(&team);
        self.queue.do_send(Orphaned { team, pause, uncounted: false });
    }

    /// Tells a team to go. Returns where it runs, if it lives.
    fn put_away(&mut self, team: &TeamName) -> Option<usize> {
        let alive = self.alive.remove(team)?;
        self.directory.remove(team);
        alive.address.do_send(Signal::PutAway);
        Some(alive.place)
    }

    /// How long a team that has just died rests.
    fn pause(&mut self, name: &TeamName) -> Duration {
        let now = Instant::now();
        let deaths = self.deaths.entry(name.clone());
        let deaths =
            deaths.or_insert_with(|| Deaths { recent: SlidingWindow::new(DEATH_WINDOW), total: 0 });
        deaths.total += 1;
        deaths.recent.push(now);
        let count = deaths.recent.count(now);
        if count >= MOST_DEATHS {
            tracing::error!(team = %name, deaths = count, "team degraded: it keeps dying, so its tasks wait a while; the panics in the log say why");
            self.degraded.do_send(Degrade {
                team: name.clone(),
                deaths: count,
                within: DEATH_WINDOW,
            });
            return DEATH_WINDOW;
        }
        restart_pause(count)
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<Leased> for Supervisor {
    type Result = ();

    fn handle(&mut self, leased: Leased, ctx: &mut Self::Context) {
        if self.draining {
            let task = leased.task;
            return self.queue.do_send(Return { task, after: None, uncounted: true });
        }
        self.pass_on(leased, ctx);
    }
}

impl Handler<Reported> for Supervisor {
    type Result = ();

    fn handle(&mut self, Reported { team, incarnation, report }: Reported, _: &mut Self::Context) {
        if let Report::Answered { place } = report {
            self.suspects.remove(&place);
        }
        let alive = self.alive.get_mut(&team);
        let Some(alive) = alive.filter(|alive| alive.incarnation == incarnation) else { return };
        match report {
            Report::Answered { .. } => {
                alive.asked = false;
                alive.due = Instant::now() + self.recipe.answers_within;
            }
            // A lease may be on its way to it: then it is not idle after all.
            Report::Idle { leases } if alive.leases != leases => {}
            Report::Idle { .. } => {
                self.put_away(&team);
                tracing::debug!(%team, "team put away");
            }
            Report::Exited(tasks) => {
                self.alive.remove(&team);
                self.directory.remove(&team);
                let pause = self.pause(&team);
                let tasks: Vec<_> = tasks.iter().map(ToString::to_string).collect();
                let tasks = tasks.join(", ");
                tracing::error!(%team, tasks, pause_ms = millis(pause), "team died; its tasks go back to the queue");
                self.queue.do_send(Orphaned { team, pause, uncounted: false });
            }
        }
    }
}

impl Handler<Waiting> for Supervisor {
    type Result = ();

    fn handle(&mut self, waiting: Waiting, _: &mut Self::Context) {
        if let Some(team) = self.directory.get(&waiting.task.lane.team) {
            team.do_send(waiting);
        }
    }
}

impl Handler<Stop> for Supervisor {
    type Result = ();

    fn handle(&mut self, stop: Stop, _: &mut Self::Context) {
        if let Some(team) = self.directory.get(&stop.lane.team) {
            team.do_send(stop);
        }
    }
}

impl Handler<Dismiss> for Supervisor {
    type Result = ();

    fn handle(&mut self, Dismiss { team }: Dismiss, _: &mut Self::Context) {
        if self.put_away(&team).is_some() {
            tracing::debug!(%team, "team dismissed");
            self.queue.do_send(Orphaned { team, pause: Duration::ZERO, uncounted: true });
        }
    }
}

impl Handler<Drain> for Supervisor {
    type Result = ();

    fn handle(&mut self, Drain: Drain, _: &mut Self::Context) {
        self.draining = true;
        for team in self.directory.iter() {
            team.do_send(Signal::Retire);
        }
    }
}

impl Handler<CountRestarts> for Supervisor {
    type Result = MessageResult<CountRestarts>;

    fn handle(&mut self, CountRestarts: CountRestarts, _: &mut Self::Context) -> Self::Result {
        MessageResult(
            self.deaths.iter().map(|(team, deaths)| (team.clone(), deaths.total)).collect(),
        )
    }
}
