//! The door to a profile: waits for a place in its line.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use hivewright_actors::ids::TeamName;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::fair_queue::{FairQueue, Ticket, Turn};

/// A turn in line gives a sign of life this often: waiting is no stall.
const SIGN_INTERVAL: Duration = Duration::from_secs(10);

/// Lets requests pass by the rules of a [`FairQueue`].
#[derive(Debug)]
pub(in crate::engines) struct Gate(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    queue: FairQueue,
    bells: HashMap<Ticket, Arc<Notify>>,
}

impl Inner {
    /// Calls whoever is next now: after each change somebody else may be.
    fn call_head(&self) {
        let head = self.queue.head().and_then(|ticket| self.bells.get(&ticket));
        if let Some(bell) = head {
            bell.notify_one();
        }
    }
}

impl Gate {
    pub(super) fn new(queue: FairQueue) -> Self {
        Self(Mutex::new(Inner { queue, bells: HashMap::new() }))
    }

    /// Waits for this team's turn. Dropping the future gives up the place.
    pub(in crate::engines) async fn enter(self: &Arc<Self>, team: &TeamName) -> Permit {
        let bell = Arc::new(Notify::new());
        let waiting = {
            let mut inner = self.0.lock();
            let ticket = inner.queue.join(team);
            inner.bells.insert(ticket, Arc::clone(&bell));
            Waiting { gate: self, ticket }
        };
        loop {
            let turn = self.0.lock().queue.start(waiting.ticket, Instant::now().into_std());
            match turn {
                // The ticket is used up, so leaving the line does nothing but call the next.
                Turn::Now => return Permit(Arc::clone(self)),
                Turn::Later => bell.notified().await,
                Turn::At(free) => tokio::select! {
                    () = bell.notified() => {}
                    () = tokio::time::sleep_until(free.into()) => {}
                },
            }
        }
    }

    /// The same, and says from time to time that the team is still in line.
    pub(in crate::engines) async fn enter_telling(
        self: &Arc<Self>,
        team: &TeamName,
        mut in_line: impl FnMut(),
    ) -> Permit {
        let mut entering = pin!(self.enter(team));
        loop {
            match timeout(SIGN_INTERVAL, &mut entering).await {
                Ok(permit) => return permit,
                Err(_still_waiting) => in_line(),
            }
        }
    }
}

struct Waiting<'a> {
    gate: &'a Gate,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inner = self.gate.0.lock();
        inner.queue.leave(self.ticket);
        inner.bells.remove(&self.ticket);
        inner.call_head();
    }
}

/// A place. Dropping it lets the next one in.
#[derive(Debug)]
pub(in crate::engines) struct Permit(Arc<Gate>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.queue.end();
        inner.call_head();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn gate(places: usize, per_minute: Option<u32>) -> Arc<Gate> {
        Arc::new(Gate::new(FairQueue::new(places, per_minute)))
    }

    /// SE-110
    #[actix::test]
    async fn everyone_gets_in_and_teams_take_turns() {
        let gate = gate(1, None);
        let first = gate.enter(&"busy".into()).await;
        let (entered, mut order) = mpsc::unbounded_channel();
        for team in ["busy", "busy", "quiet"] {
            let (gate, entered) = (Arc::clone(&gate), entered.clone());
            actix::spawn(async move {
                let _permit = gate.enter(&team.into()).await;
                entered.send(team).unwrap();
            });
        }
        while gate.0.lock().bells.len() < 3 {
            tokio::task::yield_now().await;
        }

        drop(first);

        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.push(timeout(SOON, order.recv()).await.unwrap().unwrap());
        }
        assert_eq!(heard, ["busy", "quiet", "busy"]);
    }

    #[actix::test]
    async fn who_gives_up_holds_up_nobody() {
        let gate = gate(1, None);
        let first = gate.enter(&"a".into()).await;
        let gone = timeout(Duration::from_millis(1), gate.enter(&"b".into())).await;

        drop(first);

        assert!(gone.is_err());
        assert!(timeout(SOON, gate.enter(&"c".into())).await.is_ok());
        assert!(gate.0.lock().bells.is_empty());
    }

    /// SE-110, SE-131
    #[actix::test]
    async fn who_waits_long_gives_signs_of_life() {
        tokio::time::pause();
        let gate = gate(9, Some(1));
        let mut signs = 0;
        gate.enter(&"a".into()).await;

        gate.enter_telling(&"a".into(), || signs += 1).await;

        assert!(signs >= 5, "{signs}");
    }

    /// SE-110
    #[actix::test]
    async fn who_is_over_the_rate_waits_for_the_next_minute() {
        tokio::time::pause();
        let gate = gate(9, Some(1));
        let begin = Instant::now();

        for _ in 0..3 {
            gate.enter(&"a".into()).await;
        }

        assert_eq!(begin.elapsed().as_secs(), 120);
    }
}
