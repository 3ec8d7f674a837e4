//! Ring buffer: the newest live events of all, and of each team, in one order. No lock, no clock.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
};

use super::event::{Data, Event, Kind};
use crate::{clock::Timestamp, ids::TeamName};

/// So many events are kept …
pub const KEPT: usize = 10_000;
/// … and so many of each team.
pub const KEPT_OF_TEAM: usize = 2_000;

/// An event with its number.
#[derive(Debug)]
pub struct Told {
    /// Its place among all events of the process, from 1, without gaps.
    pub seq: u64,
    /// Its place among the events of its team.
    pub team_seq: Option<u64>,
    /// When it was published.
    pub at: Timestamp,
    pub event: Event,
    wire: OnceLock<Box<str>>,
}

impl Told {
    /// As it is sent. Made by the first who needs it, and not at all if nobody does.
    pub fn wire(&self, make: impl FnOnce(&Self) -> String) -> &str {
        self.wire.get_or_init(|| make(self).into_boxed_str())
    }
}

#[derive(Debug, Default)]
pub struct Ring {
    newest: u64,
    all: VecDeque<Arc<Told>>,
    teams: HashMap<TeamName, Share>,
    /// Teams that were removed lately, with the number of the event that says so. What is still told
    /// of them makes no share.
    gone: HashMap<TeamName, u64>,
}

/// The newest events of one team.
#[derive(Debug, Default)]
struct Share {
    newest: u64,
    /// The number of the newest event that is no longer here.
    dropped: u64,
    kept: VecDeque<Arc<Told>>,
}

impl Ring {
    /// The number of the newest event; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Takes an event in and gives its number.
    pub fn push(&mut self, event: Event, at: Timestamp) -> u64 {
        self.newest += 1;
        let seq = self.newest;
        let team = event.team.clone();
        let removes = is_removal(&event);
        if let (Kind::TeamChanged, Some(team)) = (event.kind, &team) {
            if removes {
                self.gone.insert(team.clone(), seq)
            } else {
                self.gone.remove(team)
            };
        }
        let team_seq = team.as_ref().and_then(|team| self.count(team, seq));
        let told = Arc::new(Told { seq, team_seq, at, event, wire: OnceLock::new() });
        if let Some(team) = team {
            if removes {
                self.teams.remove(&team);
            } else if let Some(share) = self.teams.get_mut(&team) {
                share.keep(told.clone());
            }
        }
        if self.all.len() == KEPT
            && let Some(oldest) = self.all.pop_front()
            && let Some(team) = &oldest.event.team
            && self.gone.get(team) == Some(&oldest.seq)
        {
            self.gone.remove(team);
        }
        self.all.push_back(told);
        seq
    }

    /// The next number of a team. A share that begins now knows of nothing before it.
    fn count(&mut self, team: &TeamName, seq: u64) -> Option<u64> {
        if let Some(share) = self.teams.get_mut(team) {
            return Some(share.count());
        }
        if self.gone.contains_key(team) {
            return None;
        }
        let share = Share { dropped: seq - 1, ..Share::default() };
        Some(self.teams.entry(team.clone()).or_insert(share).count())
    }

    /// The next events after a number, oldest first and at most so many; none if some of them are gone.
    /// `team` looks at those of one team only, which reach back further.
    pub fn after(&self, seq: u64, team: Option<&TeamName>, most: usize) -> Option<Vec<Arc<Told>>> {
        if let Some(share) = team.and_then(|team| self.teams.get(team))
            && share.dropped <= seq
        {
            return Some(share.after(seq, most));
        }
        let oldest = self.all.front().map_or(self.newest + 1, |told| told.seq);
        if seq + 1 < oldest {
            return None;
        }
        let start = usize::try_from(seq + 1 - oldest).unwrap_or(usize::MAX);
        Some(self.all.iter().skip(start).take(most).cloned().collect())
    }
}

impl Share {
    fn count(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    fn keep(&mut self, told: Arc<Told>) {
        if self.kept.len() == KEPT_OF_TEAM
            && let Some(oldest) = self.kept.pop_front()
        {
            self.dropped = oldest.seq;
        }
        self.kept.push_back(told);
    }

    fn after(&self, seq: u64, most: usize) -> Vec<Arc<Told>> {
        let start = self.kept.partition_point(|told| told.seq <= seq);
        self.kept.iter().skip(start).take(most).cloned().collect()
    }
}

/// The team is gone, and with it whoever would ask for its events alone.
fn is_removal(event: &Event) -> bool {
    event.kind == Kind::TeamChanged
        && matches!(&event.data, Data::Json(data) if data["state"] == "removed")
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    fn event(team: &str) -> Event {
        Event::new(Kind::UsageChanged, json!({})).of_team(&team.into())
    }

    fn numbers(found: Option<Vec<Arc<Told>>>) -> Vec<u64> {
        found.unwrap().iter().map(|told| told.seq).collect()
    }

    fn ring(events: &[(&str, usize)]) -> Ring {
        let mut ring = Ring::default();
        for (team, times) in events {
            for _ in 0..*times {
                ring.push(event(team), Timestamp(1));
            }
        }
        ring
    }

    /// OP-41
    #[test]
    fn numbers_grow_by_one_over_all_events_and_within_a_team() {
        let ring = ring(&[("main", 2), ("ops", 1), ("main", 1)]);

        let events = ring.after(0, None, 10).unwrap();

        let places: Vec<_> = events.iter().map(|told| (told.seq, told.team_seq)).collect();
        assert_eq!(places, [(1, Some(1)), (2, Some(2)), (3, Some(1)), (4, Some(3))]);
    }

    /// OP-42
    #[test]
    fn the_last_ten_thousand_are_kept_and_two_thousand_of_each_team() {
        let ring = ring(&[("ops", 2_001), ("main", 10_000)]);

        assert!(ring.after(2_000, None, 1).is_none());
        assert_eq!(numbers(ring.after(2_001, None, 2)), [2_002, 2_003]);
        let ops = TeamName::from("ops");
        assert_eq!(numbers(ring.after(1, Some(&ops), 2)), [2, 3]);
        assert!(ring.after(0, Some(&ops), 2).is_none());
        // What the team's own share has lost is looked for among all.
        let main = TeamName::from("main");
        assert_eq!(numbers(ring.after(2_001, Some(&main), 1)), [2_002]);
        assert_eq!(numbers(ring.after(12_001, None, 1)), [0_u64; 0]);
    }

    #[test]
    fn a_team_that_is_gone_takes_its_share_with_it() {
        let mut ring = ring(&[("ops", 3)]);

        let end = Event::new(Kind::TeamChanged, json!({"state": "removed"}));
        ring.push(end.of_team(&"ops".into()), Timestamp(1));

        assert!(ring.teams.is_empty());
        assert_eq!(numbers(ring.after(2, Some(&"ops".into()), 9)), [3, 4]);
    }

    fn change(state: &str) -> Event {
        Event::new(Kind::TeamChanged, json!({"state": state})).of_team(&"ops".into())
    }

    /// OP-42: a team that is made again knows nothing of its former life, and does not claim to.
    #[test]
    fn a_team_that_is_made_again_skips_nothing() {
        let mut ring = ring(&[("ops", 3)]);
        for event in [change("removed"), event("main"), change("active")] {
            ring.push(event, Timestamp(1));
        }
        ring.push(event("ops"), Timestamp(1));
        let ops = TeamName::from("ops");

        assert_eq!(numbers(ring.after(1, Some(&ops), 9)), [2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(ring.after(5, Some(&ops), 9)), [6, 7]);
        for _ in 0..KEPT {
            ring.push(event("main"), Timestamp(1));
        }
        assert_eq!(numbers(ring.after(5, Some(&ops), 9)), [6, 7]);
        assert!(ring.after(1, Some(&ops), 9).is_none());
    }

    /// OP-42
    #[test]
    fn what_is_told_of_a_team_after_its_end_makes_no_share() {
        let mut ring = ring(&[("ops", 3)]);

        ring.push(change("removed"), Timestamp(1));
        ring.push(event("ops"), Timestamp(1));

        assert!(ring.teams.is_empty());
        assert_eq!(numbers(ring.after(4, Some(&"ops".into()), 9)), [5]);
        for _ in 0..KEPT {
            ring.push(event("main"), Timestamp(1));
        }
        assert!(ring.gone.is_empty());
    }

    #[test]
    fn an_event_is_put_into_words_once() {
        let ring = ring(&[("ops", 1)]);
        let events = ring.after(0, None, 1).unwrap();

        let first = events[0].wire(|told| format!("{}", told.seq)).to_owned();
        let second = events[0].wire(|_| panic!("made twice")).to_owned();

        assert_eq!((first.as_str(), second.as_str()), ("1", "1"));
    }
}
