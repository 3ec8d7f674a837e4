//! Budgets: what teams may spend, and what they have. Each covers a team with all teams below it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamName},
    usage::Usage,
};

/// What a team may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The day.
    fn day_of(&self, at: Timestamp) -> Day;
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Money, in USD.
    pub usd: f64,
    /// Tokens.
    pub tokens: u64,
}

impl Spent {
    /// What a call cost.
    pub fn of(usage: &Usage) -> Self {
        Self {
            usd: usage.cost_usd.unwrap_or_default(),
            tokens: usage.input + usage.output + usage.cache_read + usage.cache_write,
        }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// Who called which model, by which profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The team.
    pub team: TeamName,
    /// The profile.
    pub profile: String,
    /// The model.
    pub model: String,
}

/// A call that does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the budget of team {team} is spent: {what}")]
pub struct Overdrawn {
    /// Whose budget.
    pub team: TeamName,
    /// What was spent and what the cap is, for a person.
    pub what: String,
    /// The cap is for the day: it opens again then.
    pub until: Option<Timestamp>,
    /// The day it is about.
    pub day: u32,
}

/// What was set aside for a call that runs.
#[derive(Debug)]
pub struct Reservation {
    day: Day,
    line: Line,
    tasks: Vec<TaskId>,
    amount: Spent,
}

/// All accounts. Cheap to clone; nothing is held over an await.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Accounts>>);

#[derive(Debug, Default)]
struct Accounts {
    day: u32,
    teams: HashMap<TeamName, Account>,
    /// What tasks with a cap, and all they led to, have cost.
    tasks: HashMap<TaskId, Spent>,
    /// Teams whose operator was asked for more today.
    asked: HashSet<TeamName>,
    /// The calls of today.
    calls: HashMap<Caller, Tally>,
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
        tasks: &[TaskId],
        estimate: Spent,
        day: Day,
    ) -> Result<Reservation, Overdrawn> {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        for (team, caps) in line.iter() {
            accounts.check(team, caps, tasks, estimate, day)?;
        }
        let reservation = Reservation {
            day,
            line: line.clone(),
            tasks: tasks.to_vec(),
            amount: estimate,
        };
        accounts.change(&reservation, |spent| spent.add(estimate));
        Ok(reservation)
    }

    /// Replaces an estimate by what the call cost. Returns what the team itself spent that day.
    pub fn settle(&self, reservation: Reservation, cost: Spent) -> Option<Spent> {
        let mut accounts = self.accounts();
        let estimate = reservation.amount;
        accounts.change(&reservation, |spent| {
            spent.remove(estimate);
            spent.add(cost);
        });
        if accounts.day != reservation.day.number {
            return None;
        }
        let (team, _) = reservation.line.first()?;
        let account = accounts.teams.entry(team.clone()).or_default();
        account.own.add(cost);
        Some(account.own)
    }

    /// What a former process noted for a team today, with the teams above it.
    pub fn recover(&self, line: &[TeamName], own: Spent, day: Day) {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        for (place, team) in line.iter().enumerate() {
            let account = accounts.teams.entry(team.clone()).or_default();
            account.drawn.add(own);
            if place == 0 {
                account.own.add(own);
            }
        }
    }

    /// The operator allows the caps of a team once more for this day. Returns how often that is now.
    pub fn raise(&self, team: &TeamName, day: Day) -> u32 {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        accounts.asked.remove(team);
        let account = accounts.teams.entry(team.clone()).or_default();
        account.raised += 1;
        account.raised
    }

    /// The same, as a former process noted it.
    pub fn recover_raise(&self, team: &TeamName, raised: u32, day: Day) {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        accounts.teams.entry(team.clone()).or_default().raised = raised;
    }

    /// Whether the operator is to be asked for more: once a day for each team.
    pub fn asks(&self, team: &TeamName, day: Day) -> bool {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        accounts.asked.insert(team.clone())
    }

    /// Counts a call, and gives what those of the day have come to by now: of its kind, and what the
    /// team itself has spent. Nothing if the day is over.
    pub fn count(&self, caller: &Caller, usage: &Usage, day: Day) -> Option<(Tally, Spent)> {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        if accounts.day != day.number {
            return None;
        }
        let tally = accounts.calls.entry(caller.clone()).or_default();
        *tally += Tally::of(usage, 1);
        let tally = *tally;
        let account = accounts.teams.get(&caller.team);
        Some((
            tally,
            account.map_or_else(|| tally.spent(), |account| account.own),
        ))
    }

    /// The same, as a former process noted it.
    pub fn recover_calls(&self, caller: Caller, tally: Tally, day: Day) {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        accounts.calls.insert(caller, tally);
    }

    /// What a team with all below it has spent today, estimates of running calls included.
    pub fn drawn(&self, team: &TeamName, day: Day) -> Spent {
        let mut accounts = self.accounts();
        accounts.turn_to(day);
        accounts
            .teams
            .get(team)
            .map(|account| account.drawn)
            .unwrap_or_default()
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ledger")
    }
}

impl Accounts {
    /// A new day begins with nothing spent. Days don't go back.
    fn turn_to(&mut self, day: Day) {
        if day.number > self.day {
            self.day = day.number;
            self.teams.clear();
            self.asked.clear();
            self.calls.clear();
        }
    }

    fn check(
        &self,
        team: &TeamName,
        caps: &Caps,
        tasks: &[TaskId],
        estimate: Spent,
        day: Day,
    ) -> Result<(), Overdrawn> {
        let account = self.teams.get(team).copied().unwrap_or_default();
        let times = f64::from(account.raised + 1);
        let overdrawn = |what: String, until| {
            Err(Overdrawn {
                team: team.clone(),
                what,
                until,
                day: day.number,
            })
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
        if let Some(cap) = caps.usd_per_task {
            let most = tasks
                .iter()
                .filter_map(|task| self.tasks.get(task))
                .map(|spent| spent.usd)
                .fold(0.0, f64::max);
            if most + estimate.usd > cap * times {
                return overdrawn(format!("{most:.2} of {cap:.2} USD for one task"), None);
            }
        }
        Ok(())
    }

    fn change(&mut self, reservation: &Reservation, change: impl Fn(&mut Spent)) {
        if self.day == reservation.day.number {
            for (team, _) in reservation.line.iter() {
                change(&mut self.teams.entry(team.clone()).or_default().drawn);
            }
        }
        let counted = reservation
            .line
            .iter()
            .any(|(_, caps)| caps.usd_per_task.is_some());
        if counted {
            for task in &reservation.tasks {
                change(self.tasks.entry(task.clone()).or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests;
