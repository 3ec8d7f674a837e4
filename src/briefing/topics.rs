//! Questions about topics: a model is asked which one a message belongs to or what one is called, and the main team pays.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    briefing::Price,
    budget::{
        Caller, Caps, Days, Ledger, Overdrawn, Reservation, Spent, Tally,
        records::{self as spending, DayKey, PurposeCalls},
    },
    classifier::{Classifier, Purpose},
    clock::Clock,
    engine::Paid,
    ids::{MAIN, TeamKey},
    meter::Meter,
    store::{StoreHandle, reads::get_readable, records::Writes},
    usage::Usage,
};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::{Inner, Turns, choice, is_in_money, model, profiles};
use crate::{engines::Question, settings::providers::Provider, system::WallClock};

/// How much a model may say about a topic.
const TOKENS: u32 = 200;

/// What a model is told first, and how long it may think: a message waits for its topic, and nobody for a title.
fn manner(purpose: Purpose) -> (&'static str, Duration) {
    match purpose {
        Purpose::Topics => {
            ("You sort messages into topics. Answer with JSON only.", Duration::from_secs(3))
        }
        Purpose::Titles => {
            ("You name conversations. Answer with JSON only.", Duration::from_secs(60))
        }
    }
}

impl Classifier for Turns {
    /// The demo has no opinion on what things are called.
    fn may_know(&self, purpose: Purpose) -> bool {
        purpose != Purpose::Titles || !self.0.demo.load(Ordering::Relaxed)
    }

    fn ask(&self, purpose: Purpose, question: String) -> BoxFuture<'static, Option<String>> {
        let inner = self.0.clone();
        async move { inner.ask(purpose, &question).await }.boxed()
    }
}

impl Inner {
    async fn ask(&self, purpose: Purpose, question: &str) -> Option<String> {
        let (system, timeout) = manner(purpose);
        let providers = self.live.providers().await.ok()?;
        let team = self.live.team(&MAIN.into()).await.ok()?;
        let topic_profile = self.live.held().and_then(|held| held.channels.topics.profile.clone());
        let chosen = match topic_profile {
            Some(profile) => providers.choose(&profile, None),
            None => providers.choose(&team.provider_profile, team.model.as_deref()),
        };
        let chosen = chosen.ok()?;
        // Also where others than the demo are there.
        if purpose == Purpose::Titles && chosen.provider == Provider::Offline {
            return None;
        }
        let profiles = profiles(&providers);
        let caps = team.budgets;
        if is_in_money(&caps) && model::unpriced(&profiles, &chosen.name).is_some() {
            return None;
        }
        let price = Price { max_output: u64::from(TOKENS), ..model::price(&chosen) };
        let bill = match self.till.open(caps, &price, system.len() + question.len()) {
            Ok(bill) => Arc::new(bill),
            Err(overdrawn) => {
                tracing::debug!(error = %overdrawn, "no model is asked about a topic");
                return None;
            }
        };
        let question = Question { system, text: question, max_tokens: TOKENS, timeout };
        let paid = bill.clone();
        let pay = Arc::new(move |part| paid.add(part));
        let asked = self.engines.ask(&profiles, &choice(&chosen), question, pay).await;
        bill.settle();
        let paid = std::mem::take(&mut *bill.paid.lock());
        self.till.note(purpose, paid).await;
        match asked {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::warn!(%error, "no model helped to tell topics apart, or to name one; rules decide");
                None
            }
        }
    }
}

/// A token is about this many characters.
const CHARACTERS: usize = 4;

/// Where such questions are paid. Cheap to clone.
#[derive(Clone)]
pub struct Till {
    pub ledger: Ledger,
    pub days: Arc<dyn Days>,
    pub meter: Arc<dyn Meter>,
    pub store: StoreHandle,
    /// Held while a sum is read and written back.
    pub noting: Arc<AsyncMutex<()>>,
}

/// What one question costs. What it has cost so far is paid when it is dropped.
struct Bill {
    till: Till,
    open: Mutex<Option<(Reservation, Usage)>>,
    /// Its tries.
    paid: Mutex<Vec<Paid>>,
}

impl Till {
    /// Sets aside what a question of this length may cost.
    fn open(&self, caps: Caps, price: &Price, characters: usize) -> Result<Bill, Overdrawn> {
        let input = (characters / CHARACTERS) as u64;
        let estimate = Spent {
            tokens: input + price.max_output,
            usd: input as f64 * price.input_usd + price.max_output as f64 * price.output_usd,
        };
        let line = Arc::from([(MAIN.into(), caps)]);
        let day = self.days.day_of(WallClock.now());
        let reservation = self.ledger.reserve(&line, &[], estimate, day)?;
        let open = Mutex::new(Some((reservation, Usage::default())));
        Ok(Bill { till: self.clone(), open, paid: Mutex::default() })
    }

    /// Adds calls to what the main team has used today, and to what was used for this.
    async fn note(&self, purpose: Purpose, paid: Vec<Paid>) {
        let day = self.days.day_of(WallClock.now());
        let _one_at_a_time = self.noting.lock().await;
        let key = (DayKey(day.number), purpose.to_string());
        let at = key.clone();
        let known = self.store.read(move |storage| get_readable::<PurposeCalls>(storage, &at));
        let Ok(known) = known.await else { return };
        let PurposeCalls(mut sum) = known.unwrap_or_default();
        let mut writes = Writes::new();
        for Paid { profile, model, usage } in paid {
            sum += Tally::of(&usage, 1);
            let caller = Caller { team: TeamKey::first(MAIN), profile, model };
            if let Some((tally, own)) = self.ledger.count(&caller, &usage, day) {
                writes = writes.and(spending::calls(day, &caller, &tally, &own));
            }
        }
        // A store that is gone has said so itself.
        let _told = self.store.commit(writes.put_at(&key, &PurposeCalls(sum))).await;
    }
}

impl Bill {
    /// A try has cost this.
    fn add(&self, paid: Paid) {
        self.till.meter.model_called(&MAIN.into(), &paid.profile, &paid.usage);
        if let Some((_, sum)) = &mut *self.open.lock() {
            *sum += paid.usage;
        }
        self.paid.lock().push(paid);
    }

    /// No more tries follow. It becomes durable with the next call of the main team.
    fn settle(&self) {
        let mut open = self.open.lock();
        if let Some((reservation, usage)) = open.take() {
            self.till.ledger.settle(reservation, Spent::of(&usage));
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        self.settle();
    }
}
