//! Budgets: what teams may spend, and what they have. Each covers a team with all teams below it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamKey, TeamName},
    task::Ancestor,
    usage::Usage,
};

pub mod query;
pub mod records;

/// A budget of which this part is spent is nearly spent.
const NEAR: f64 = 0.8;

/// What a team may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Caps {
    /// Money a day, in USD.
    pub usd_per_day: Option<f64>,
    /// Tokens a day.
    pub tokens_per_day: Option<u64>,
    /// Money for a task with all that it leads to.
    pub usd_per_task: Option<f64>,
}

impl Caps {
    /// Nothing is limited.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// The caps that a turn draws on: its team's, then those of each team above.
pub type Line = Arc<[(TeamName, Caps)]>;

/// A day as budgets count it, in the operator's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Day {
    /// Its date as a number, `20261115`.
    pub number: u32,
    /// When the next one begins.
    pub ends_at: Timestamp,
}

impl Day {
    /// As a date, such as `2026-11-15`.
    pub fn date(self) -> String {
        let (year, month) = (self.number / 10_000, self.number / 100 % 100);
        format!("{year:04}-{month:02}-{:02}", self.number % 100)
    }
}

/// Port: the day that a moment belongs to.
pub trait Days: Send + Sync + 'static {
    fn day_of(&self, at: Timestamp) -> Day;
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spent {
    /// Money, in USD.
    pub usd: f64,
    /// Tokens.
    pub tokens: u64,
}

impl Spent {
    pub fn of(usage: &Usage) -> Self {
        Self { usd: usage.cost_usd.unwrap_or_default(), tokens: usage.tokens() }
    }

    fn add(&mut self, other: Self) {
        self.usd += other.usd;
        self.tokens += other.tokens;
    }

    fn remove(&mut self, other: Self) {
        self.usd = (self.usd - other.usd).max(0.0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
    }
}

/// What model calls have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tally {
    /// Tokens read by the model, cached ones not counted.
    pub input: u64,
    /// Tokens written by the model.
    pub output: u64,
    /// Tokens read from the provider's prompt cache.
    pub cache_read: u64,
    /// Tokens written to the provider's prompt cache.
    pub cache_write: u64,
    /// How many calls.
    pub requests: u64,
    /// Money, in USD, as far as prices are known.
    pub usd: f64,
}

impl Tally {
    /// So many calls that cost this together.
    pub fn of(usage: &Usage, requests: u64) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            requests,
            usd: usage.cost_usd.unwrap_or_default(),
        }
    }

    /// The same as money and tokens.
    pub fn spent(&self) -> Spent {
        Spent {
            usd: self.usd,
            tokens: self.input + self.output + self.cache_read + self.cache_write,
        }
    }

    /// Which part of what was read came from the cache.
    pub fn cached_share(&self) -> f64 {
        match self.input + self.cache_read + self.cache_write {
            0 => 0.0,
            read => self.cache_read as f64 / read as f64,
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.requests += other.requests;
        self.usd += other.usd;
    }
}

impl std::ops::SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.input = self.input.saturating_sub(other.input);
        self.output = self.output.saturating_sub(other.output);
        self.cache_read = self.cache_read.saturating_sub(other.cache_read);
        self.cache_write = self.cache_write.saturating_sub(other.cache_write);
        self.requests = self.requests.saturating_sub(other.requests);
        self.usd = (self.usd - other.usd).max(0.0);
    }
}

/// Who called which model, by which profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    pub team: TeamKey,
    pub profile: String,
    pub model: String,
}

/// A call that does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the budget of team {team} is spent: {what}")]
pub struct Overdrawn {
    pub team: TeamName,
    /// What was spent and what the cap is, for a person.
    pub what: String,
    /// The cap is for the day: it opens again then.
    pub until: Option<Timestamp>,
    pub day: u32,
    /// The cap is for each task: the one that has cost as much.
    pub task: Option<TaskId>,
}

/// What an operator is asked for when a budget is spent, as the arguments of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub team: TeamName,
    #[serde(default = "first")]
    pub generation: u32,
    pub day: u32,
    /// The task it is about, if the cap is for each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What was spent and what the cap is, for a person.
    pub spent: String,
    /// The task that waits.
    pub waiting: TaskId,
}

fn first() -> u32 {
    1
}

/// What a team itself has spent on a day, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpentRow {
    #[serde(flatten)]
    pub own: Spent,
    /// The teams that it was drawn from besides, nearest first. Unknown in rows of old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Vec<TeamName>>,
}

impl SpentRow {
    /// The row of the team that a line begins with.
    pub fn new(own: Spent, line: &Line) -> Self {
        let above = line.iter().skip(1).map(|(team, _)| team.clone());
        Self { own, above: Some(above.collect()) }
    }
}

/// What came of a call that was paid for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// What the team itself has spent, if it is still the day of the call.
    pub team: Option<Spent>,
    /// What the task itself has cost, where tasks are limited.
    pub task: Option<Cost>,
    /// Budgets that are nearly spent, as of now.
    pub near: Vec<Near>,
}

/// What a task itself has cost, without what it led to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The task and those it comes of, the first of all first.
    pub tasks: Vec<TaskId>,
    pub spent: Spent,
}

/// A budget that is nearly spent. Each team's is told once a day.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget of team {team} is nearly spent: {what}")]
pub struct Near {
    pub team: TeamName,
    /// What was spent and what the cap is, for a person.
    pub what: String,
}

/// What was set aside for a call that runs. If nobody settles it, the call was cut off: nothing of it
/// stays set aside.
#[derive(Debug)]
pub struct Reservation {
    ledger: Ledger,
    day: Day,
    line: Line,
    tasks: Vec<Ancestor>,
    amount: Spent,
    settled: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.settled {
            let amount = self.amount;
            let ledger = self.ledger.clone();
            ledger.0.lock().change(self, |spent| spent.remove(amount));
        }
    }
}

/// All accounts. Cheap to clone; nothing is held over an await.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Accounts>>);

#[derive(Debug, Default)]
struct Accounts {
    day: u32,
    teams: HashMap<TeamName, Account>,
    /// What tasks with a cap, and all they led to, have cost.
    tasks: HashMap<TaskId, Spent>,
    /// How often the operator has allowed the cap of a task again.
    raised_tasks: HashMap<TaskId, u32>,
    /// What the operator was asked for: the caps of a team today, or of a task.
    asked: HashSet<(TeamName, Option<TaskId>)>,
    /// The calls of today.
    calls: HashMap<Caller, Tally>,
    /// What each task itself has cost, by the first of the work it is part of.
    own: HashMap<TaskId, HashMap<TaskId, Spent>>,
    /// Teams whose budget is known to be nearly spent today.
    warned: HashSet<TeamName>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// By the team itself.
    own: Spent,
    /// With all teams below it, and what is set aside.
    drawn: Spent,
    /// How often the operator has allowed the caps of the day again.
    raised: u32,
}

impl Ledger {
    /// Sets the estimate of a call aside in all budgets that it draws on, or says which it breaks.
    pub fn reserve(
        &self,
        line: &Line,
        tasks: &[Ancestor],
        estimate: Spent,
        day: Day,
    ) -> Result<Reservation, Overdrawn> {
        let mut accounts = self.accounts_of(day);
        for (team, caps) in line.iter() {
            accounts.check(team, caps, tasks, estimate, day)?;
        }
        let reservation = Reservation {
            ledger: self.clone(),
            settled: false,
            day,
            line: line.clone(),
            tasks: tasks.to_vec(),
            amount: estimate,
        };
        accounts.change(&reservation, |spent| spent.add(estimate));
        Ok(reservation)
    }

    /// Whether budgets have so much beyond what is set aside, or which they break.
    pub fn affords(
        &self,
        line: &Line,
        tasks: &[Ancestor],
        more: Spent,
        day: Day,
    ) -> Result<(), Overdrawn> {
        let accounts = self.accounts_of(day);
        line.iter().try_for_each(|(team, caps)| accounts.check(team, caps, tasks, more, day))
    }

    /// Replaces an estimate by what the call cost.
    pub fn settle(&self, mut reservation: Reservation, cost: Spent) -> Settled {
        reservation.settled = true;
        let mut accounts = self.0.lock();
        let estimate = reservation.amount;
        accounts.change(&reservation, |spent| {
            spent.remove(estimate);
            spent.add(cost);
        });
        let mut settled = Settled::default();
        if reservation.limits_tasks() && cost != Spent::default() {
            let tasks: Vec<TaskId> =
                reservation.tasks.iter().map(|above| above.task.clone()).collect();
            settled.task = accounts.charge(&tasks, cost).map(|spent| Cost { tasks, spent });
        }
        if accounts.day != reservation.day.number {
            return settled;
        }
        if let Some((team, _)) = reservation.line.first() {
            let account = accounts.teams.entry(team.clone()).or_default();
            account.own.add(cost);
            settled.team = Some(account.own);
        }
        for (team, caps) in reservation.line.iter() {
            if let Some(what) = accounts.is_near(team, caps, &reservation.tasks)
                && accounts.warned.insert(team.clone())
            {
                settled.near.push(Near { team: team.clone(), what });
            }
        }
        settled
    }

    /// What a former process noted for a task that may cost more.
    pub fn recover_task(&self, cost: &Cost) {
        let mut accounts = self.0.lock();
        for task in &cost.tasks {
            accounts.tasks.entry(task.clone()).or_default().add(cost.spent);
        }
        accounts.charge(&cost.tasks, cost.spent);
    }

    /// All that a task led to has ended. Returns the tasks whose costs were kept for it.
    pub fn forget_task(&self, root: &TaskId) -> Vec<TaskId> {
        let mut accounts = self.0.lock();
        let Some(costs) = accounts.own.remove(root) else { return Vec::new() };
        for task in costs.keys().chain([root]) {
            accounts.tasks.remove(task);
            accounts.raised_tasks.remove(task);
        }
        costs.into_keys().collect()
    }

    /// The first tasks of work whose costs are kept.
    pub fn roots(&self) -> Vec<TaskId> {
        self.0.lock().own.keys().cloned().collect()
    }

    /// A former process has told that a team's budget is nearly spent today.
    pub fn recover_warning(&self, team: &TeamName, day: Day) {
        self.accounts_of(day).warned.insert(team.clone());
    }

    /// What a former process noted for a team today, with the teams above it. Of a team that is gone
    /// only those above know.
    pub fn recover(&self, team: Option<&TeamName>, above: &[TeamName], own: Spent, day: Day) {
        let mut accounts = self.accounts_of(day);
        for name in team.into_iter().chain(above) {
            let account = accounts.teams.entry(name.clone()).or_default();
            account.drawn.add(own);
            if team == Some(name) {
                account.own.add(own);
            }
        }
    }

    /// A team is gone: one of the same name begins with nothing.
    pub fn forget(&self, team: &TeamName) {
        let mut accounts = self.0.lock();
        accounts.teams.remove(team);
        accounts.asked.retain(|(asked, _)| asked != team);
    }

    /// The operator allows what was asked for: the caps of a team once more today, or that of a task.
    /// Returns how often the caps of the team have been allowed again today.
    pub fn raise(&self, request: &Request, day: Day) -> u32 {
        let mut accounts = self.accounts_of(day);
        accounts.asked.remove(&(request.team.clone(), request.task.clone()));
        if let Some(task) = &request.task {
            *accounts.raised_tasks.entry(task.clone()).or_default() += 1;
        }
        let account = accounts.teams.entry(request.team.clone()).or_default();
        if request.task.is_none() && request.day == day.number {
            account.raised += 1;
        }
        account.raised
    }

    /// The same, as a former process noted it for a team today.
    pub fn recover_raise(&self, team: &TeamName, raised: u32, day: Day) {
        self.accounts_of(day).teams.entry(team.clone()).or_default().raised = raised;
    }

    /// Whether the operator is to be asked for more: once a day for each team, once for each task.
    pub fn asks(&self, team: &TeamName, task: Option<&TaskId>, day: Day) -> bool {
        self.accounts_of(day).asked.insert((team.clone(), task.cloned()))
    }

    /// Nobody said yes or no to what was asked for: it may be asked for again.
    pub fn unask(&self, request: &Request) {
        let asked = (request.team.clone(), request.task.clone());
        self.0.lock().asked.remove(&asked);
    }

    /// Counts a call, and gives what those of the day have come to by now: of its kind, and what the
    /// team itself has spent. Nothing if the day is over.
    pub fn count(&self, caller: &Caller, usage: &Usage, day: Day) -> Option<(Tally, Spent)> {
        let mut accounts = self.accounts_of(day);
        if accounts.day != day.number {
            return None;
        }
        let tally = accounts.calls.entry(caller.clone()).or_default();
        *tally += Tally::of(usage, 1);
        let tally = *tally;
        let account = accounts.teams.get(&caller.team.name);
        Some((tally, account.map_or_else(|| tally.spent(), |account| account.own)))
    }

    /// The same, as a former process noted it.
    pub fn recover_calls(&self, caller: Caller, tally: Tally, day: Day) {
        self.accounts_of(day).calls.insert(caller, tally);
    }

    /// What a team with all below it has spent today, estimates of running calls included.
    pub fn drawn(&self, team: &TeamName, day: Day) -> Spent {
        self.accounts_of(day).teams.get(team).map(|account| account.drawn).unwrap_or_default()
    }

    /// The accounts, of this day or of a later one.
    fn accounts_of(&self, day: Day) -> MutexGuard<'_, Accounts> {
        let mut accounts = self.0.lock();
        accounts.turn_to(day);
        accounts
    }
}

impl Reservation {
    /// Some team of its line limits what a task may cost.
    fn limits_tasks(&self) -> bool {
        self.line.iter().any(|(_, caps)| caps.usd_per_task.is_some())
    }
}

impl Accounts {
    /// A new day begins with nothing spent. Days don't go back.
    fn turn_to(&mut self, day: Day) {
        if day.number > self.day {
            self.day = day.number;
            self.teams.clear();
            self.asked.retain(|(_, task)| task.is_some());
            self.calls.clear();
            self.warned.clear();
        }
    }

    fn check(
        &self,
        team: &TeamName,
        caps: &Caps,
        tasks: &[Ancestor],
        estimate: Spent,
        day: Day,
    ) -> Result<(), Overdrawn> {
        let account = self.teams.get(team).copied().unwrap_or_default();
        let times = f64::from(account.raised + 1);
        let overdrawn = |what: String, until| {
            Err(Overdrawn { team: team.clone(), what, until, day: day.number, task: None })
        };
        if let Some(cap) = caps.usd_per_day
            && account.drawn.usd + estimate.usd > cap * times
        {
            let what = format!("{:.2} of {:.2} USD today", account.drawn.usd, cap * times);
            return overdrawn(what, Some(day.ends_at));
        }
        if let Some(cap) = caps.tokens_per_day {
            let cap = cap.saturating_mul(u64::from(account.raised) + 1);
            if account.drawn.tokens.saturating_add(estimate.tokens) > cap {
                let what = format!("{} of {cap} tokens today", account.drawn.tokens);
                return overdrawn(what, Some(day.ends_at));
            }
        }
        // A cap counts for the tasks of its own team, with all that those led to.
        let own = tasks.iter().filter(|above| above.team == *team);
        for Ancestor { task, .. } in own {
            let Some(cap) = caps.usd_per_task else { break };
            let spent = self.tasks.get(task).map_or(0.0, |spent| spent.usd);
            let raised = self.raised_tasks.get(task).copied().unwrap_or_default();
            let cap = cap * f64::from(raised + 1);
            if spent + estimate.usd > cap {
                return Err(Overdrawn {
                    team: team.clone(),
                    what: format!("{spent:.2} of {cap:.2} USD for one task"),
                    until: None,
                    day: day.number,
                    task: Some(task.clone()),
                });
            }
        }
        Ok(())
    }

    /// Adds to what the last of these tasks itself has cost; the first is the first of all.
    fn charge(&mut self, tasks: &[TaskId], cost: Spent) -> Option<Spent> {
        let (root, task) = (tasks.first()?, tasks.last()?);
        let own = self.own.entry(root.clone()).or_default().entry(task.clone()).or_default();
        own.add(cost);
        Some(*own)
    }

    /// What is spent of a budget of which little is left. What is set aside counts as spent.
    fn is_near(&self, team: &TeamName, caps: &Caps, tasks: &[Ancestor]) -> Option<String> {
        let account = self.teams.get(team).copied().unwrap_or_default();
        let times = f64::from(account.raised + 1);
        let is_near = |spent: f64, cap: f64| spent >= cap * times * NEAR;
        if let Some(cap) = caps.usd_per_day
            && is_near(account.drawn.usd, cap)
        {
            let (spent, cap) = (account.drawn.usd, cap * times);
            return Some(format!("{spent:.2} of {cap:.2} USD today"));
        }
        if let Some(cap) = caps.tokens_per_day
            && is_near(account.drawn.tokens as f64, cap as f64)
        {
            let cap = cap.saturating_mul(u64::from(account.raised) + 1);
            return Some(format!("{} of {cap} tokens today", account.drawn.tokens));
        }
        let cap = caps.usd_per_task?;
        tasks.iter().find_map(|above| {
            let spent = self.tasks.get(&above.task)?.usd;
            let raised = self.raised_tasks.get(&above.task).copied();
            let cap = cap * f64::from(raised.unwrap_or_default() + 1);
            (above.team == *team && spent >= cap * NEAR)
                .then(|| format!("{spent:.2} of {cap:.2} USD for one task"))
        })
    }

    fn change(&mut self, reservation: &Reservation, change: impl Fn(&mut Spent)) {
        if self.day == reservation.day.number {
            for (team, _) in reservation.line.iter() {
                change(&mut self.teams.entry(team.clone()).or_default().drawn);
            }
        }
        if reservation.limits_tasks() {
            for above in &reservation.tasks {
                change(self.tasks.entry(above.task.clone()).or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests;
