//! Fair queue of requests: teams take turns, however many each of them has.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use hivewright_actors::{ids::TeamName, sliding_window::SlidingWindow};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) type Ticket = u64;

/// What a waiting request is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Ask again then, unless called earlier.
    At(Instant),
    /// You will be called.
    Later,
}

/// The requests of one profile: who runs, who waits.
#[derive(Debug)]
pub(super) struct FairQueue {
    places: usize,
    per_minute: Option<usize>,
    running: usize,
    starts: SlidingWindow<Instant>,
    /// The team at the front is the next; none of them is without a ticket.
    teams: VecDeque<(TeamName, VecDeque<Ticket>)>,
    last_ticket: Ticket,
}

impl FairQueue {
    pub(super) fn new(places: usize, per_minute: Option<u32>) -> Self {
        Self {
            places: places.max(1),
            per_minute: per_minute.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX).max(1)),
            running: 0,
            starts: SlidingWindow::new(MINUTE),
            teams: VecDeque::new(),
            last_ticket: 0,
        }
    }

    pub(super) fn join(&mut self, team: &TeamName) -> Ticket {
        self.last_ticket += 1;
        match self.teams.iter_mut().find(|(name, _)| name == team) {
            Some((_, tickets)) => tickets.push_back(self.last_ticket),
            None => self.teams.push_back((team.clone(), [self.last_ticket].into())),
        }
        self.last_ticket
    }

    /// The one whose turn is next.
    pub(super) fn head(&self) -> Option<Ticket> {
        self.teams.front()?.1.front().copied()
    }

    pub(super) fn start(&mut self, ticket: Ticket, now: Instant) -> Turn {
        if self.head() != Some(ticket) || self.running >= self.places {
            return Turn::Later;
        }
        if let Some(limit) = self.per_minute {
            if let Some(free) = self.starts.full_until(limit, now) {
                return Turn::At(free);
            }
            self.starts.push(now);
        }
        if let Some((team, mut tickets)) = self.teams.pop_front() {
            tickets.pop_front();
            if !tickets.is_empty() {
                self.teams.push_back((team, tickets));
            }
        }
        self.running += 1;
        Turn::Now
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        for (_, tickets) in &mut self.teams {
            tickets.retain(|waiting| *waiting != ticket);
        }
        self.teams.retain(|(_, tickets)| !tickets.is_empty());
    }

    pub(super) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends one request after the other and says who came next.
    fn order(line: &mut FairQueue, now: Instant) -> Vec<Ticket> {
        let mut started = Vec::new();
        while let Some(ticket) = line.head() {
            assert_eq!(line.start(ticket, now), Turn::Now);
            line.end();
            started.push(ticket);
        }
        started
    }

    /// SE-110
    #[test]
    fn a_flood_of_one_team_does_not_hold_up_another() {
        let mut line = FairQueue::new(1, None);
        let flood: Vec<Ticket> = (0..3).map(|_| line.join(&"busy".into())).collect();
        let quiet = line.join(&"quiet".into());
        let other = line.join(&"other".into());

        let order = order(&mut line, Instant::now());

        assert_eq!(order, [flood[0], quiet, other, flood[1], flood[2]]);
    }

    /// SE-110
    #[test]
    fn no_more_run_at_once_than_there_are_places() {
        let now = Instant::now();
        let mut line = FairQueue::new(2, None);
        let tickets: Vec<Ticket> = (0..3).map(|_| line.join(&"a".into())).collect();

        let first: Vec<Turn> = tickets.iter().map(|ticket| line.start(*ticket, now)).collect();
        line.end();

        assert_eq!(first, [Turn::Now, Turn::Now, Turn::Later]);
        assert_eq!(line.start(tickets[2], now), Turn::Now);
    }

    /// SE-110
    #[test]
    fn no_more_start_in_a_minute_than_allowed() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut line = FairQueue::new(9, Some(2));
        let tickets: Vec<Ticket> = (0..4).map(|_| line.join(&"a".into())).collect();

        assert_eq!(line.start(tickets[0], at(0)), Turn::Now);
        assert_eq!(line.start(tickets[1], at(10)), Turn::Now);
        assert_eq!(line.start(tickets[2], at(20)), Turn::At(at(60)));
        assert_eq!(line.start(tickets[2], at(60)), Turn::Now);
        assert_eq!(line.start(tickets[3], at(60)), Turn::At(at(70)));
    }

    #[test]
    fn who_leaves_holds_up_nobody() {
        let mut line = FairQueue::new(1, None);
        let gone = line.join(&"a".into());
        let next = line.join(&"b".into());

        line.leave(gone);

        assert_eq!(order(&mut line, Instant::now()), [next]);
    }
}
