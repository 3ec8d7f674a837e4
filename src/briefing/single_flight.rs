//! Single flight: whoever wants to know the same at the same time is served by one look at the files.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use hivewright_actors::blocking::{self, CutOff};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Who waits for the next look, by what is looked at. What is listed is being looked at.
pub(super) struct SingleFlight<Key, Wanted, Seen>(Mutex<HashMap<Key, Waiting<Wanted, Seen>>>);

type Waiting<Wanted, Seen> = Vec<(Wanted, oneshot::Sender<Seen>)>;

impl<Key, Wanted, Seen> Default for SingleFlight<Key, Wanted, Seen> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Key, Wanted, Seen> SingleFlight<Key, Wanted, Seen>
where
    Key: Clone + Eq + Hash + Send + 'static,
    Wanted: PartialEq + Send + 'static,
    Seen: Clone + Send + 'static,
{
    /// What a look sees that begins from now on: one that is under way may have seen files as they were before. `look` may
    /// block.
    pub(super) async fn next(
        self: &Arc<Self>,
        of: Key,
        wanted: Wanted,
        look: impl Fn(&Key, &Wanted) -> Seen + Send + 'static,
    ) -> Result<Seen, CutOff> {
        let (seen, answer) = oneshot::channel();
        match self.0.lock().entry(of) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push((wanted, seen)),
            Entry::Vacant(place) => {
                let (flight, of) = (Arc::clone(self), place.key().clone());
                place.insert(vec![(wanted, seen)]);
                blocking::begin(move || flight.serve(&of, look));
            }
        }
        answer.await.map_err(|_| CutOff)
    }

    /// Looks as long as somebody waits.
    fn serve(&self, of: &Key, look: impl Fn(&Key, &Wanted) -> Seen) {
        while let Some(waiting) = self.take(of) {
            let mut known: Vec<(Wanted, Option<Seen>)> = Vec::new();
            // Whoever has given up needs no look.
            for (wanted, answer) in waiting.into_iter().filter(|(_, answer)| !answer.is_closed()) {
                let seen = match known.iter().find(|(other, _)| *other == wanted) {
                    Some((_, seen)) => seen.clone(),
                    None => {
                        // A panic is told to those who wanted this. The others are served.
                        let seen = panic::catch_unwind(AssertUnwindSafe(|| look(of, &wanted))).ok();
                        known.push((wanted, seen.clone()));
                        seen
                    }
                };
                if let Some(seen) = seen {
                    let _gone = answer.send(seen);
                }
            }
        }
    }

    fn take(&self, of: &Key) -> Option<Waiting<Wanted, Seen>> {
        let mut looks = self.0.lock();
        let waiting = std::mem::take(looks.get_mut(of)?);
        if waiting.is_empty() {
            looks.remove(of);
            return None;
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use futures_util::future::{self, FutureExt};

    use super::*;

    /// OR-23: what was changed before a turn began counts for it, however many begin at once.
    #[actix::test]
    async fn those_who_come_during_a_look_share_the_next_one() {
        let looks = Arc::<SingleFlight<&str, u32, usize>>::default();
        let number = Arc::new(AtomicUsize::new(0));
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Arc::new(Mutex::new(may_go));
        let see = |wanted| {
            let (number, begun, may_go) = (number.clone(), begun.clone(), may_go.clone());
            let looks = looks.clone();
            let look = move |_: &&str, wanted: &u32| {
                begun.send(*wanted).unwrap();
                may_go.lock().recv().unwrap();
                assert_ne!(*wanted, 13, "on purpose");
                number.fetch_add(1, Ordering::SeqCst) + 1
            };
            async move { looks.next("scouts", wanted, look).await }.boxed_local()
        };
        let mut first = see(1);
        assert_eq!(first.as_mut().now_or_never(), None);
        assert_eq!(has_begun.recv(), Ok(1));

        let mut others = future::join_all([1, 1, 13, 2, 1].map(see));
        assert_eq!((&mut others).now_or_never(), None);
        (0..4).for_each(|_| go.send(()).unwrap());

        assert_eq!(first.await, Ok(1));
        assert_eq!(others.await, [Ok(2), Ok(2), Err(CutOff), Ok(3), Ok(2)]);
    }
}
