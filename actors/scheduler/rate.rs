//! How many tasks triggers gave a team lately.

use std::collections::HashMap;

use super::firing::FIRES_WITHIN;
use crate::{clock::Timestamp, ids::TeamKey, sliding_window::SlidingWindow};

/// Times of firings, by team and subagent.
#[derive(Debug, Default)]
pub(super) struct Fires(HashMap<(TeamKey, Option<String>), SlidingWindow<Timestamp>>);

impl Fires {
    /// One more.
    pub(super) fn count(&mut self, team: &TeamKey, subagent: Option<String>, at: Timestamp) {
        let fires = self.0.entry((team.clone(), subagent));
        fires.or_insert_with(|| SlidingWindow::new(FIRES_WITHIN)).push(at);
    }

    /// How many there were within the time that counts.
    pub(super) fn lately(
        &mut self,
        team: &TeamKey,
        subagent: Option<String>,
        now: Timestamp,
    ) -> usize {
        let key = (team.clone(), subagent);
        let count = self.0.get_mut(&key).map_or(0, |fires| fires.count(now));
        if count == 0 {
            self.0.remove(&key);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-34: in any 60 s, by team and subagent.
    #[test]
    fn firings_count_for_a_minute_by_team_and_subagent() {
        let mut fires = Fires::default();
        let team = TeamKey::first("news");
        let editor = || Some("editor".to_owned());
        for second in 0..10 {
            fires.count(&team, editor(), Timestamp(second * 1_000));
        }

        assert_eq!(fires.lately(&team, editor(), Timestamp(59_999)), 10);
        assert_eq!(fires.lately(&team, editor(), Timestamp(60_000)), 9);
        assert_eq!(fires.lately(&team, None, Timestamp(10_000)), 0);
        assert_eq!(fires.lately(&team, editor(), Timestamp(100_000)), 0);
    }
}
